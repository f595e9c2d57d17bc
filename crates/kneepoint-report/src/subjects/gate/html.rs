//! What the gate of a pipeline compared, and what follows.

use crate::html::Section;
use crate::subjects::gate;
use crate::words;
use kneepoint_model::Run;
use maud::html;

/// The gate; `None` where none was asked.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let asked = run.gate.as_ref()?;
    Some(Section {
        id: "gate",
        title: "Gate",
        body: html! {
            p { (words::sentence(&gate::question(asked))) "." }
            div class="scroll" {
                table class="effects" {
                    thead { tr {
                        th scope="col" { span class="hidden" { "verdict" } }
                        th scope="col" { "compared" }
                        th scope="col" class="num" { "change" }
                    } }
                    tbody {
                        @for claim in &asked.claims {
                            tr {
                                td { span class="verdict" { (claim.verdict.name()) } }
                                td {
                                    (claim.quantity)
                                    @if let Some((before, now)) = gate::rates(claim, run.unit()) { ": " (before) " before, " (now) " now" }
                                    br; small { (claim.conditions) }
                                }
                                td class="num" { (gate::change(claim)) }
                            }
                        }
                    }
                }
            }
        },
    })
}
