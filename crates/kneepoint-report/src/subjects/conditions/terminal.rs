//! Who sent the load, where several generators did.

use crate::tables;
use crate::text::{Page, Style};
use kneepoint_model::Run;

/// The health of each; nothing where there was one.
pub(crate) fn generators(page: &mut Page, run: &Run) {
    let Some((table, said)) = tables::generators::of_run(run) else {
        return;
    };
    tables::terminal::rows(page, &table);
    for said in said {
        page.columns(&[("  -", 4, Some(Style::Alert))], &said, None);
    }
}
