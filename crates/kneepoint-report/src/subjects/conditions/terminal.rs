//! Who sent the load, where several generators did.

use crate::tables;
use crate::text::{Page, Style};
use kneepoint_model::Run;

/// The health of each; nothing where there was one.
pub(crate) fn generators(page: &mut Page, run: &Run) {
    let points = || run.trials.iter().map(|trial| &trial.load);
    let Some(table) = tables::generators::table(points()) else {
        return;
    };
    tables::terminal::rows(page, &table);
    for said in tables::generators::said(points()) {
        page.columns(&[("  -", 4, Some(Style::Alert))], &said, None);
    }
}
