//! What was predicted.

use crate::capacity;
use crate::markdown::{line, list, table};
use kneepoint_model::Run;

/// The plan; nothing where none was asked.
pub(super) fn plan(out: &mut String, run: &Run) {
    let Some(plan) = &run.capacity else { return };
    let facts: Vec<String> = capacity::facts(plan)
        .into_iter()
        .map(|(label, text)| format!("{label}: {text}"))
        .collect();
    list(out, "Plan", &facts);
    line(out, "");
    table(
        out,
        &capacity::COLUMNS,
        capacity::rows(plan).into_iter().map(Vec::from),
    );
}
