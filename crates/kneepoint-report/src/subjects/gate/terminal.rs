//! What the gate of a pipeline compared.

use crate::text::{Page, Style};
use kneepoint_model::{GateVerdict, Run};

/// Each claim with its verdict; nothing where no gate was asked.
pub(crate) fn gate(page: &mut Page, run: &Run) {
    let Some(gate) = &run.gate else { return };
    page.heading(&format!("Gate: {}", super::question(gate)));
    for claim in &gate.claims {
        let style = match claim.verdict {
            GateVerdict::Pass => Style::Good,
            GateVerdict::Fail | GateVerdict::Inconclusive => Style::Alert,
        };
        let rates = super::rates(claim, run.unit());
        let rates = rates.map_or_else(String::new, |(before, now)| {
            format!(", from {before} to {now}")
        });
        page.columns(
            &[("", 2, None), (claim.verdict.name(), 14, Some(style))],
            &format!("{} {}{rates}", claim.quantity, super::change(claim)),
            Some(Style::Strong),
        );
        page.columns(&[("", 16, None)], &claim.conditions, None);
    }
}
