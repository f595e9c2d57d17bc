//! Changes that were decided on, as a table.

use super::{LEGEND, NOT_CERTAIN, RECOMMENDED, recommended};
use crate::markdown::{escaped, line, section, table};
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::run::{Decision, Standing};

/// A row for each change; nothing where none was tried.
pub(crate) fn decisions(out: &mut String, run: &Run) {
    if run.decisions.is_empty() {
        return;
    }
    section(out, "Changes");
    line(out, &format!("{}.\n", words::sentence(LEGEND)));
    let rows = run.decisions.iter().map(|decision| {
        vec![
            match super::is_uncertain(run, decision) {
                true => format!("{}, {NOT_CERTAIN}", decision.standing().name()),
                false => decision.standing().name().into(),
            },
            decision.code.clone(),
            match decision.kept {
                true => written(decision),
                false => decision.effect.change.clone(),
            },
            match decision.standing() {
                Standing::NotTried => String::new(),
                _ => format!(
                    "{} {}, {}",
                    decision.effect.quantity,
                    words::factor(&decision.effect),
                    words::effect_basis(&decision.effect)
                ),
            },
            decision.leave_one_out.as_ref().map_or_else(
                || super::not_left_out(run, decision).into(),
                |effect| format!("{}, {}", words::factor(effect), words::effect_basis(effect)),
            ),
            decision.reason.clone(),
        ]
    });
    let columns = [
        "",
        "finding",
        "change",
        "factor (95 % interval)",
        "leave-one-out",
        "note",
    ];
    table(out, &columns, rows);
    // Without an empty line before it, Markdown takes a line below a table for one more row.
    if let Some(told) = super::quantities(run) {
        line(out, &format!("\n{}", escaped(&told)));
    }
    for (decision, finding) in recommended(run) {
        let what = format!(
            "{RECOMMENDED}: {} ({}: {}). {}",
            decision.effect.change,
            decision.code,
            finding.title,
            super::untold(decision)
        );
        line(out, &format!("\n{}", escaped(&what)));
    }
}

/// The change, and each of its settings as its owner writes it.
fn written(decision: &Decision) -> String {
    let own: Vec<String> = decision
        .settings
        .iter()
        .map(words::owners_setting)
        .collect();
    match own.is_empty() {
        true => decision.effect.change.clone(),
        false => format!("{}: {}", decision.effect.change, own.join("; ")),
    }
}
