//! A table of several configurations.

use crate::tables::Table;
use maud::{Markup, html};

/// Its heading and its rows; the first cell of a row names it.
pub(crate) fn draw(table: &Table) -> Markup {
    html! {
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
}
