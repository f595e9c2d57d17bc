//! A comparison of several configurations.

use crate::subjects::contest;
use crate::tables::terminal::{named, rows};
use crate::text::Page;
use kneepoint_model::Run;

/// The tables; nothing where nothing was compared.
pub(crate) fn contest(page: &mut Page, run: &Run) {
    let Some(contest) = &run.contest else { return };
    for table in contest::tables(contest, run.unit()) {
        rows(page, &table);
    }
    named(page, "Who was compared", &contest::notes(contest));
}
