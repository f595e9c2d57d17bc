//! A comparison of several configurations.

use super::Section;
use crate::contest;
use kneepoint_model::Run;
use maud::html;

/// The tables; `None` where nothing was compared.
pub(super) fn section(run: &Run) -> Option<Section> {
    let it = run.contest.as_ref()?;
    Some(Section {
        id: "comparison",
        title: "Comparison",
        body: html! {
            @for table in contest::tables(it) {
                h3 { (table.title) }
                div class="scroll" {
                    table class="effects" {
                        thead { tr {
                            @for column in &table.columns { th scope="col" class="num" { (column) } }
                        } }
                        tbody {
                            @for row in &table.rows {
                                tr {
                                    @for (at, cell) in row.iter().enumerate() {
                                        @if at == 0 { th scope="row" { (cell) } } @else { td class="num" { (cell) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            h3 { "Who was compared" }
            dl class="facts" {
                @for (name, text) in contest::notes(it) { dt { (name) } dd { (text) } }
            }
        },
    })
}
