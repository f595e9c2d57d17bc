//! Who sent the load, where several generators did.

use crate::markdown::{list, section, table};
use crate::tables;
use kneepoint_model::Run;

/// The health of each; nothing where there was one.
pub(crate) fn generators(out: &mut String, run: &Run) {
    let Some((it, said)) = tables::generators::of_run(run) else {
        return;
    };
    section(out, &it.title);
    let columns: Vec<&str> = it.columns.iter().map(String::as_str).collect();
    table(out, &columns, it.rows);
    list(out, "Parts that are not what was asked for", &said);
}
