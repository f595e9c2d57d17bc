//! A replayed field report.

use crate::subjects::replay;
use crate::tables::terminal::{named, rows};
use crate::text::Page;
use kneepoint_model::Run;

/// What was found and measured beside what was reported; nothing where no report was replayed.
pub(crate) fn replay(page: &mut Page, run: &Run) {
    let Some(it) = &run.replay else { return };
    named(
        page,
        "What was found without being told",
        &replay::causes(it),
    );
    for table in replay::tables(it) {
        rows(page, &table);
    }
    named(page, "What was done", &replay::steps(it));
    page.heading("Where it differs, and why");
    for note in replay::notes(it) {
        page.columns(&[("", 2, None)], &note, None);
    }
}
