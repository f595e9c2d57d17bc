//! A replayed field report.

use super::table::{named, rows};
use crate::replay;
use crate::text::Page;
use kneepoint_model::Run;

/// What was found and measured beside what was reported; nothing where no report was replayed.
pub(super) fn replay(page: &mut Page, run: &Run) {
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
