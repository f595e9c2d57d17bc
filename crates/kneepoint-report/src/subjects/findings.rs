//! Findings as they are told: each cause once, in the order it was first seen.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod mending;
pub(crate) mod terminal;

use kneepoint_model::finding::UNLESS;
use kneepoint_model::run::Decision;
use kneepoint_model::{Finding, Run};

/// The words of certainty, where reports tell findings.
pub(crate) const LEGEND: &str = "suspected: the evidence fits; confirmed: an intervention moved the limit as predicted; proved: the \
     remedy won an A/B; noted: true, but not what limits";

/// What would prove a finding wrong, or when it does no harm: the label and the text.
pub(crate) fn doubt(finding: &Finding) -> (&'static str, &str) {
    match finding.refuted_by.strip_prefix(UNLESS) {
        Some(unless) => ("It does not matter when", unless),
        None => ("Would be proved wrong by", &finding.refuted_by),
    }
}

/// A finding with what became of it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told<'a> {
    /// The statement with the highest confidence.
    pub finding: &'a Finding,
    /// How many diagnoses made it.
    pub times: usize,
    /// What was decided on it, last decision first.
    pub decision: Option<&'a Decision>,
}

/// Every finding once by code and layer, in the order first seen. A repeated one is told as it was when it
/// was surest.
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
                decision: run
                    .decisions
                    .iter()
                    .rev()
                    .find(|decision| decision.answers(finding)),
            }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Confidence, Layer};

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
                finding("OPC-01", Confidence::Suspected),
                finding("FPM-01", Confidence::Suspected),
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
                ("FPM-01".to_owned(), Confidence::Suspected, 1)
            ]
        );
    }
}
