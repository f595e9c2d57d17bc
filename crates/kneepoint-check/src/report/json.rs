//! For programs: the report as it is, with its schema's version first.

use super::Report;
use kneepoint_model::redact::shown::visible_json;
use serde::Serialize;

pub(super) fn render(report: &Report) -> String {
    written(report)
}

/// JSON that shows on a terminal what a program reads.
pub(super) fn written(value: &impl Serialize) -> String {
    // Numbers, texts and lists only: nothing of it cannot be written.
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    visible_json(&text).into_owned() + "\n"
}
