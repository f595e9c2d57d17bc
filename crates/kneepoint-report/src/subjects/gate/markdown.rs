//! What the gate of a pipeline compared.

use crate::markdown::{escaped, section, table};
use crate::subjects::gate;
use kneepoint_model::Run;

/// The gate; nothing where none was asked.
pub(crate) fn gate(out: &mut String, run: &Run) {
    let Some(gate) = &run.gate else { return };
    section(out, &format!("Gate: {}", escaped(&gate::question(gate))));
    let rows = gate.claims.iter().map(|claim| {
        let (before, now) = gate::rates(claim, run.unit()).unwrap_or_default();
        vec![
            claim.verdict.name().to_owned(),
            claim.quantity.clone(),
            before,
            now,
            gate::change(claim),
            claim.conditions.clone(),
        ]
    });
    let columns = [
        "",
        "quantity",
        "before",
        "now",
        "change (95 % interval)",
        "measured",
    ];
    table(out, &columns, rows);
}
