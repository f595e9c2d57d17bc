//! Findings as they are told: each cause once, the surest first.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod mending;
pub(crate) mod terminal;

use kneepoint_model::finding::UNLESS;
use kneepoint_model::run::{Decision, Standing};
use kneepoint_model::{Finding, Run, Verdict};

/// The words of certainty, where reports tell findings.
pub(crate) const LEGEND: &str = "suspected: the evidence fits; confirmed: an intervention moved the limit as predicted; proved: the \
     remedy won an A/B; noted: true, but not what limits";

/// What would prove a finding wrong, or when it does no harm: the label and the text.
pub(crate) fn doubt(finding: &Finding) -> (&'static str, &str) {
    match finding.refuted_by.strip_prefix(UNLESS) {
        Some(unless) => ("It does not matter when", unless),
        None => ("It is wrong if you see", &finding.refuted_by),
    }
}

/// What the remedy is expected to gain, as long as nothing better is known: what was measured takes its place.
pub(crate) fn expected_gain(finding: &Finding) -> Option<&str> {
    let is_known = finding
        .effects
        .iter()
        .any(|effect| effect.ratio.is_some() && effect.verdict != Verdict::Inconclusive);
    (!is_known && !finding.expected_gain.is_empty()).then_some(finding.expected_gain.as_str())
}

/// A finding with what became of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told<'a> {
    /// The statement with the highest confidence.
    pub finding: &'a Finding,
    /// How many times it was found.
    pub times: usize,
    /// What was decided on it: the last decision, and one whose change was tried before one whose change was not.
    pub decision: Option<&'a Decision>,
}

/// How the findings are ordered, where reports tell them.
pub(crate) const ORDER: &str = "Surest first, then in the order they were found.";

/// Every finding once by code and layer, the surest first, then in the order first seen. A repeated one is told as it was when
/// it was surest.
pub(crate) fn told(run: &Run) -> Vec<Told<'_>> {
    let mut all: Vec<Told<'_>> = Vec::new();
    for finding in &run.findings {
        let known = all
            .iter_mut()
            .find(|told| told.finding.is_same_cause(finding));
        match known {
            Some(told) => {
                told.times += 1;
                if finding.confidence > told.finding.confidence {
                    told.finding = finding;
                }
            }
            None => all.push(Told {
                finding,
                times: 1,
                decision: decided(run, finding),
            }),
        }
    }
    all.sort_by_key(|told| std::cmp::Reverse(told.finding.confidence));
    all
}

fn decided<'a>(run: &'a Run, finding: &Finding) -> Option<&'a Decision> {
    let mut last = run.decisions.iter().rev();
    let tried = last.find(|it| it.answers(finding) && it.standing() != Standing::NotTried);
    let mut last = run.decisions.iter().rev();
    tried.or_else(|| last.find(|it| it.answers(finding)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Confidence, Effect, Interval, Layer};

    fn finding(code: &str, confidence: Confidence) -> Finding {
        Finding {
            code: code.into(),
            arm: String::new(),
            title: String::new(),
            layer: Layer::Php,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence,
            weight: 0.0,
            source: String::new(),
            effects: Vec::new(),
        }
    }

    #[test]
    fn a_cause_is_told_once_at_its_surest() {
        let run = Run {
            findings: vec![
                finding("RDS-01", Confidence::Noted),
                finding("FPM-01", Confidence::Suspected),
                finding("OPC-01", Confidence::Suspected),
                finding("OPC-01", Confidence::Proved),
                finding("OPC-01", Confidence::Noted),
            ],
            ..Run::default()
        };
        let told: Vec<_> = told(&run)
            .iter()
            .map(|told| {
                (
                    told.finding.code.clone(),
                    told.finding.confidence,
                    told.times,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("OPC-01".to_owned(), Confidence::Proved, 3),
                ("FPM-01".to_owned(), Confidence::Suspected, 1),
                ("RDS-01".to_owned(), Confidence::Noted, 1)
            ]
        );
    }

    #[test]
    fn what_was_measured_takes_the_place_of_what_was_expected() {
        let mut finding = finding("PG-02", Confidence::Suspected);
        finding.expected_gain = "about 1.2 % of the limit".into();
        assert_eq!(expected_gain(&finding), Some("about 1.2 % of the limit"));
        let mut effect = Effect {
            ratio: Some(Interval::default()),
            ..Effect::default()
        };
        finding.effects = vec![effect.clone()];
        assert!(expected_gain(&finding).is_some(), "it is inconclusive");
        effect.verdict = Verdict::Better;
        finding.effects.push(effect);
        assert_eq!(expected_gain(&finding), None);
    }

    #[test]
    fn a_later_value_that_was_not_tried_takes_no_decision_back() {
        let decision = |pairs, reason: &str| Decision {
            code: "NGX-04".into(),
            layer: Some(Layer::Php),
            settings: Vec::new(),
            effect: Effect {
                pairs,
                ..Effect::default()
            },
            reason: reason.into(),
            ..Decision::default()
        };
        let mut run = Run {
            findings: vec![finding("NGX-04", Confidence::Noted)],
            decisions: vec![decision(0, "no time")],
            ..Run::default()
        };
        let reason = |run: &Run| told(run)[0].decision.map(|it| it.reason.clone());
        assert_eq!(reason(&run).as_deref(), Some("no time"));
        run.decisions.insert(0, decision(5, "tried"));
        assert_eq!(reason(&run).as_deref(), Some("tried"));
    }
}
