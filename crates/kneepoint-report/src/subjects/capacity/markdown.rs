//! What was predicted.

use crate::markdown::{line, list, table};
use crate::subjects::capacity;
use kneepoint_model::Run;

/// The plan; nothing where none was asked.
pub(crate) fn plan(out: &mut String, run: &Run) {
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
