//! Changes that were decided on, each with the trials it rests on.

use super::{LEGEND, NOT_CERTAIN, RECOMMENDED};
use crate::text::{LABEL, Page, Style};
use crate::words;
use kneepoint_model::run::{Decision, Standing};
use kneepoint_model::{Effect, Run};

/// What was tried, what it did, and why it was kept or dropped.
pub(crate) fn decisions(page: &mut Page, run: &Run) {
    if run.decisions.is_empty() {
        return;
    }
    page.heading("Changes (factor with over without, 95 % interval)");
    page.columns(&[("", 2, None)], LEGEND, Some(Style::Faint));
    for decision in &run.decisions {
        change(page, run, decision);
    }
    let kept = run
        .kept_gain()
        .map(|kept| format!("; {}", words::kept_gain(&kept)));
    if let Some(restarted) = &run.restarted {
        together(page, "restart", "", restarted, &kept.unwrap_or_default());
    }
    if let Some(proof) = &run.proof {
        together(page, "proof", proof.verdict.name(), proof, "");
    }
    if let Some(told) = super::quantities(run) {
        page.columns(&[("", 2, None)], &told, Some(Style::Faint));
    }
}

/// What stays to be done although its comparison did not end: what is wrong was read from the stack itself.
pub(crate) fn recommended(page: &mut Page, run: &Run) {
    let read = super::recommended(run);
    if read.is_empty() {
        return;
    }
    page.heading(RECOMMENDED);
    for (decision, finding) in read {
        let change = &decision.effect.change;
        let untold = super::untold(decision);
        page.columns(
            &[("", 2, None), (&decision.code, 9, Some(Style::Strong))],
            &format!("{change}: {}. {untold}", finding.title),
            None,
        );
    }
}

/// What is said of the changes together.
fn together(page: &mut Page, what: &str, verdict: &str, effect: &Effect, more: &str) {
    page.columns(
        &[
            ("", 2, None),
            (what, 9, Some(Style::Strong)),
            (verdict, LABEL, None),
        ],
        &format!(
            "{}: {} {}, {}{more}",
            effect.change,
            effect.quantity,
            words::factor(effect),
            words::effect_basis(effect)
        ),
        None,
    );
}

fn change(page: &mut Page, run: &Run, decision: &Decision) {
    let standing = decision.standing();
    let style = match standing {
        Standing::Kept => Style::Good,
        Standing::Dropped => Style::Faint,
        Standing::Undecided | Standing::NotTried => Style::Alert,
    };
    let what = match super::is_uncertain(run, decision) {
        true => format!("{} ({NOT_CERTAIN})", decision.effect.change),
        false => decision.effect.change.clone(),
    };
    page.columns(
        &[
            ("", 2, None),
            (&decision.code, 9, Some(Style::Strong)),
            (standing.name(), LABEL, Some(style)),
        ],
        &what,
        Some(Style::Strong),
    );
    let mut detail = |label: &str, text: &str| {
        page.columns(
            &[("", 11, None), (label, LABEL, Some(Style::Faint))],
            text,
            None,
        );
    };
    if decision.kept {
        for (nth, setting) in decision.settings.iter().enumerate() {
            let label = if nth == 0 { "write" } else { "" };
            detail(label, &words::owners_setting(setting));
        }
    }
    if standing != Standing::NotTried {
        measured(&mut detail, decision);
    }
    if !decision.reason.is_empty() {
        detail("note", &decision.reason);
    }
}

/// What the comparison of a change showed, and the one without it.
fn measured(detail: &mut impl FnMut(&str, &str), decision: &Decision) {
    let effect = &decision.effect;
    let result = |effect: &Effect| {
        format!(
            "{}: {}, {}",
            words::factor(effect),
            effect.verdict,
            words::pairs(effect)
        )
    };
    detail("A/B", &format!("{} {}", effect.quantity, result(effect)));
    if let Some(left_out) = &decision.leave_one_out {
        let result = result(left_out);
        detail(
            "left out",
            &format!("all that was kept over all but this {result}"),
        );
    }
    detail("measured", &words::effect_conditions(effect));
}
