//! A comparison of several configurations.

use super::{Section, table};
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
            @for it in contest::tables(it) { (table::draw(&it)) }
            h3 { "Who was compared" }
            dl class="facts" {
                @for (name, text) in contest::notes(it) { dt { (name) } dd { (text) } }
            }
        },
    })
}
