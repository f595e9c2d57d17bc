//! What `plan` predicts, with what it rests on.

use crate::html::Section;
use crate::subjects::capacity;
use crate::words;
use kneepoint_model::Run;
use maud::html;

/// The plan; `None` where none was asked.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let plan = run.capacity.as_ref()?;
    Some(Section {
        id: "plan",
        title: "Plan",
        body: html! {
            dl class="facts" {
                @for (label, text) in capacity::facts(plan) {
                    dt { (label) }
                    dd { (words::sentence(&text)) "." }
                }
            }
            div class="scroll" {
                table class="effects" {
                    thead { tr {
                        @for column in capacity::COLUMNS { th scope="col" class="num" { (column) } }
                    } }
                    tbody {
                        @for row in capacity::rows(plan) {
                            tr { @for cell in row { td class="num" { (cell) } } }
                        }
                    }
                }
            }
        },
    })
}
