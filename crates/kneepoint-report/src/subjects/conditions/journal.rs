//! The journal: every step with its time.

use crate::html::Section;
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::run::EntryKind;
use maud::html;

/// The journal; `None` when it is empty.
pub(crate) fn section(run: &Run) -> Option<Section> {
    if run.journal.is_empty() {
        return None;
    }
    Some(Section {
        id: "journal",
        title: "Journal",
        body: html! {
            p class="caption" { "Minutes and seconds since the run began." }
            ol class="journal" {
                @for entry in &run.journal {
                    li class=(class(entry.kind)) {
                        time { (words::clock(entry.at_s)) }
                        span {
                            @if let Some(word) = word(entry.kind) { b { (word) } " " }
                            (entry.text)
                        }
                    }
                }
            }
        },
    })
}

fn class(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Stage => "stage",
        EntryKind::Result => "result",
        EntryKind::Change => "change",
        EntryKind::Warning => "warning",
    }
}

/// The kind in a word, where the layout alone does not show it.
fn word(kind: EntryKind) -> Option<&'static str> {
    match kind {
        EntryKind::Change => Some("Change:"),
        EntryKind::Warning => Some("Doubt:"),
        EntryKind::Stage | EntryKind::Result => None,
    }
}
