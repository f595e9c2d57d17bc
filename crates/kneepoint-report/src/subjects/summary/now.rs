//! What limits the stack at the end, after changes were kept.

use crate::subjects::SEEN_AGAIN;
use kneepoint_model::{Confidence, Effect, Finding, Run};

/// The first cause that was suspected of what tuning ended with and is still open, or that nobody knows and why; `None` where
/// no change was kept, since what bound at first still does.
pub(super) fn limited_now(run: &Run) -> Option<String> {
    if !run.decisions.iter().any(|decision| decision.kept) {
        return None;
    }
    let now = match run.observations.last().map(|seen| seen.arm.as_str()) {
        Some("best") => open_at_the_end(run).unwrap_or_else(|| "not known".to_owned()),
        None | Some("base" | SEEN_AGAIN) => {
            "not known: the stack was not diagnosed after the changes".to_owned()
        }
        // After a diagnosis in between changes may have been kept, also together, or taken back: what it suspected may be
        // mended, and what limits instead nobody looked for.
        Some(_) => "not known: the stack was not diagnosed once more at the end".to_owned(),
    };
    Some(now)
}

/// The first suspicion of the last configuration that was not tried in vain.
fn open_at_the_end(run: &Run) -> Option<String> {
    let is_open = |finding: &&Finding| {
        let is_suspected = finding.arm == "best" && finding.confidence >= Confidence::Suspected;
        is_suspected && !run.tried(finding).is_some_and(Effect::refutes)
    };
    let open = run.findings.iter().find(is_open)?;
    let confidence = open.confidence.name();
    Some(format!("{} {} ({confidence})", open.code, open.title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::{Decision, Observation, TrialId};
    use kneepoint_model::{Interval, Layer, Remedy, SeriesSet, Setting, Verdict};

    fn setting(code: &str) -> Vec<Setting> {
        vec![Setting::new(Layer::Php, code, 1)]
    }

    fn decision(code: &str, kept: bool, verdict: Verdict) -> Decision {
        Decision {
            code: code.into(),
            settings: setting(code),
            effect: Effect {
                verdict,
                ratio: Some(Interval::default()),
                ..Effect::default()
            },
            kept,
            ..Decision::default()
        }
    }

    fn finding(arm: &str, code: &str, confidence: Confidence) -> Finding {
        Finding {
            code: code.into(),
            arm: arm.into(),
            title: "it is off".into(),
            layer: Layer::Php,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: Some(Remedy {
                text: String::new(),
                settings: setting(code),
            }),
            expected_gain: String::new(),
            confidence,
            weight: 0.0,
            source: String::new(),
            effects: Vec::new(),
        }
    }

    /// A run that kept OPC-01, was diagnosed at these configurations, and found this at the last.
    fn run_of(arms: &[&str], found: &[(&str, Confidence)]) -> Run {
        let seen = |arm: &&str| Observation {
            phase: "knee".into(),
            arm: (*arm).into(),
            trial: TrialId(0),
            series: SeriesSet::default(),
            waterfall: None,
        };
        let last = arms.last().copied().unwrap_or_default();
        let found = found.iter().map(|&(code, sure)| finding(last, code, sure));
        let first = finding("base", "OPC-01", Confidence::Proved);
        Run {
            observations: arms.iter().map(seen).collect(),
            findings: std::iter::once(first).chain(found).collect(),
            decisions: vec![decision("OPC-01", true, Verdict::Better)],
            ..Run::default()
        }
    }

    fn check(run: &Run, expected: Option<&str>) {
        assert_eq!(limited_now(run).as_deref(), expected);
    }

    #[test]
    fn what_limits_now_is_what_was_suspected_at_the_end() {
        use Confidence::{Noted, Suspected};
        let found = [("NGX-04", Noted), ("APP-01", Suspected)];
        let at_the_end = || run_of(&["base", "v3", "best"], &found);
        check(&at_the_end(), Some("APP-01 it is off (suspected)"));
        let mut in_vain = at_the_end();
        let decided = decision("APP-01", false, Verdict::Equivalent);
        in_vain.decisions.push(decided);
        check(&in_vain, Some("not known"));
        let mut as_it_was = at_the_end();
        as_it_was.decisions[0].kept = false;
        check(&as_it_was, None);
        let noted = run_of(&["base", "best"], &[("NGX-04", Noted)]);
        check(&noted, Some("not known"));
    }

    #[test]
    fn what_nobody_looked_for_after_the_changes_is_not_known() {
        for arms in [&["base"][..], &["base", "v1"], &[]] {
            check(
                &run_of(arms, &[("APP-01", Confidence::Suspected)]),
                Some("not known: the stack was not diagnosed after the changes"),
            );
        }
    }

    /// A combination that was kept afterwards has no code of a finding, and settings of its own.
    #[test]
    fn a_cause_that_was_suspected_before_other_changes_were_kept_is_not_named() {
        let said = Some("not known: the stack was not diagnosed once more at the end");
        let mut run = run_of(&["base", "v3"], &[("APP-01", Confidence::Suspected)]);
        check(&run, said);
        run.decisions.push(Decision {
            settings: [setting("APP-01"), setting("FPM-01")].concat(),
            ..decision("deep", true, Verdict::Better)
        });
        check(&run, said);
    }
}
