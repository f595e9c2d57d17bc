//! What limits the stack at the end, after changes were kept.

use crate::subjects::SEEN_AGAIN;
use kneepoint_model::run::Decision;
use kneepoint_model::{Confidence, Effect, Finding, Run};

/// The first cause that the last diagnosis suspected and that is still open, or that nobody knows; `None` where no change was
/// kept, since what bound at first still does.
pub(super) fn limited_now(run: &Run) -> Option<String> {
    if !run.decisions.iter().any(|decision| decision.kept) {
        return None;
    }
    let last = run.observations.last().map(|seen| seen.arm.as_str());
    let Some(arm) = last.filter(|arm| !["base", SEEN_AGAIN].contains(arm)) else {
        return Some("not known: the stack was not diagnosed after the changes".to_owned());
    };
    let suspected =
        |finding: &&Finding| finding.arm == arm && finding.confidence >= Confidence::Suspected;
    let mut suspected = run.findings.iter().filter(suspected);
    // Of an arm in between a change may have been kept afterwards, and then the next thing limits that nobody looked for.
    if arm != "best" && suspected.clone().any(|finding| is_mended(run, finding)) {
        return Some("not known: the stack was not diagnosed after the last change".to_owned());
    }
    let open = suspected.find(|finding| !run.tried(finding).is_some_and(Effect::refutes));
    Some(open.map_or_else(
        || "not known".to_owned(),
        |finding| {
            let when = match arm {
                "best" => "",
                _ => " by the last diagnosis",
            };
            let confidence = finding.confidence.name();
            format!("{} {} ({confidence}{when})", finding.code, finding.title)
        },
    ))
}

/// Whether the remedy of a finding, as it was proposed there, was kept.
fn is_mended(run: &Run, finding: &Finding) -> bool {
    let proposed = |decision: &&Decision| {
        let remedy = finding.remedy.as_ref();
        decision.answers(finding)
            && remedy.is_some_and(|remedy| remedy.settings == decision.settings)
    };
    let last = run.decisions.iter().rev().find(proposed);
    last.is_some_and(|decision| decision.kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::{Observation, TrialId};
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
    fn what_limits_now_is_what_the_last_diagnosis_suspected() {
        use Confidence::{Noted, Suspected};
        let found = [("NGX-04", Noted), ("APP-01", Suspected)];
        let at = |arm| run_of(&["base", arm], &found);
        check(
            &at("v3"),
            Some("APP-01 it is off (suspected by the last diagnosis)"),
        );
        check(&at("best"), Some("APP-01 it is off (suspected)"));
        let mut in_vain = at("best");
        let decided = decision("APP-01", false, Verdict::Equivalent);
        in_vain.decisions.push(decided);
        check(&in_vain, Some("not known"));
        let mut as_it_was = at("best");
        as_it_was.decisions[0].kept = false;
        check(&as_it_was, None);
    }

    #[test]
    fn what_nobody_looked_for_after_the_last_change_is_not_known() {
        for arms in [&["base"][..], &["base", "v1"]] {
            check(
                &run_of(arms, &[("APP-01", Confidence::Suspected)]),
                Some("not known: the stack was not diagnosed after the changes"),
            );
        }
        check(
            &run_of(&["base", "best"], &[("NGX-04", Confidence::Noted)]),
            Some("not known"),
        );
        let mut kept = run_of(&["base", "v3"], &[("APP-01", Confidence::Proved)]);
        kept.decisions
            .push(decision("APP-01", true, Verdict::Better));
        check(
            &kept,
            Some("not known: the stack was not diagnosed after the last change"),
        );
    }
}
