//! For programs: the report as it is, with its schema's version first.

use super::Report;

pub(super) fn render(report: &Report) -> String {
    // A report holds numbers, texts and lists only: nothing of it cannot be written.
    let mut text = serde_json::to_string_pretty(report).unwrap_or_default();
    text.push('\n');
    text
}
