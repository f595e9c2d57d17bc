//! What was predicted.

use crate::text::{LABEL, Page, Style};
use kneepoint_model::Run;

/// Facts and a table of rates; nothing where nobody asked.
pub(crate) fn plan(page: &mut Page, run: &Run) {
    let Some(plan) = &run.capacity else { return };
    page.heading("Plan");
    for (label, text) in super::facts(plan) {
        page.columns(
            &[("", 2, None), (label, LABEL, Some(Style::Faint))],
            &text,
            None,
        );
    }
    page.blank();
    let mut row = |cells: [&str; 3], style| {
        let [rate, measured, predicted] = cells;
        let before = [("", 2, None), (rate, 12, style), (measured, 16, style)];
        page.columns(&before, predicted, style);
    };
    row(super::COLUMNS, Some(Style::Faint));
    for [rate, measured, predicted] in &super::rows(plan) {
        row([rate, measured, predicted], None);
    }
}
