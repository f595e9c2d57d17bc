//! A comparison of several configurations.

use crate::markdown::{escaped, list, section, table};
use crate::subjects::contest;
use kneepoint_model::Run;

/// The tables; nothing where nothing was compared.
pub(crate) fn contest(out: &mut String, run: &Run) {
    let Some(contest) = &run.contest else { return };
    for it in contest::tables(contest, run.unit()) {
        section(out, &escaped(&it.title));
        let columns: Vec<&str> = it.columns.iter().map(String::as_str).collect();
        table(out, &columns, it.rows);
    }
    let notes: Vec<String> = contest::notes(contest)
        .into_iter()
        .map(|(name, text)| format!("{name}: {text}"))
        .collect();
    list(out, "Who was compared", &notes);
}
