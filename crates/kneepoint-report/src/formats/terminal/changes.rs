//! Changes that were decided on, each with the trials it rests on.

use super::LABEL;
use crate::text::{Page, Style};
use crate::words;
use kneepoint_model::run::Decision;
use kneepoint_model::{Effect, Run};

/// What was tried, what it did, and why it was kept or dropped.
pub(super) fn decisions(page: &mut Page, run: &Run) {
    if run.decisions.is_empty() {
        return;
    }
    page.heading("Changes (factor with over without, 95 % interval)");
    for decision in &run.decisions {
        change(page, decision);
    }
    let kept = run
        .kept_gain()
        .map(|kept| format!("; {}", words::kept_gain(&kept)));
    if let Some(restarted) = &run.restarted {
        together(page, "restart", "", restarted, &kept.unwrap_or_default());
    }
    if let Some(proof) = &run.proof {
        together(page, "proof", &proof.verdict, proof, "");
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
            "{}: {} x{}, {}{more}",
            effect.change,
            effect.quantity,
            words::ratio_interval(&effect.ratio),
            words::effect_basis(effect)
        ),
        None,
    );
}

fn change(page: &mut Page, decision: &Decision) {
    let (word, style) = if decision.kept {
        ("kept", Style::Good)
    } else {
        ("dropped", Style::Faint)
    };
    page.columns(
        &[
            ("", 2, None),
            (&decision.code, 9, Some(Style::Strong)),
            (word, LABEL, Some(style)),
        ],
        &decision.effect.change,
        Some(Style::Strong),
    );
    let mut detail = |label: &str, text: &str| {
        page.columns(
            &[("", 11, None), (label, LABEL, Some(Style::Faint))],
            text,
            None,
        );
    };
    let effect = &decision.effect;
    detail(
        "A/B",
        &format!(
            "{} x{}, {}, {}",
            effect.quantity,
            words::ratio_interval(&effect.ratio),
            effect.verdict,
            words::effect_basis(effect)
        ),
    );
    if let Some(left_out) = &decision.leave_one_out {
        detail(
            "left out",
            &format!(
                "best with it over best without it x{}, {}, {}",
                words::ratio_interval(&left_out.ratio),
                left_out.verdict,
                words::effect_basis(left_out)
            ),
        );
    }
    detail("because", &decision.reason);
}
