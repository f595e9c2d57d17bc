//! A comparison of several configurations.

use crate::html::Section;
use crate::subjects::contest;
use crate::tables::html::draw;
use kneepoint_model::Run;
use maud::html;

/// The tables; `None` where nothing was compared.
pub(crate) fn section(run: &Run) -> Option<Section> {
    let it = run.contest.as_ref()?;
    Some(Section {
        id: "comparison",
        title: "Comparison",
        body: html! {
            @for it in contest::tables(it, run.unit()) { (draw(&it)) }
            h3 { "Who was compared" }
            dl class="facts" {
                @for (name, text) in contest::notes(it) { dt { (name) } dd { (text) } }
            }
        },
    })
}
