//! All comparisons of a run together: where many changes were tried, one of them may look like a gain by chance.

use super::Run;
use crate::Effect;
use crate::statistics::holm::hold_together;

/// Chance that any of a run's claims is wrong.
const ALPHA: f64 = 0.05;

impl Run {
    /// Every comparison of the run, each once: the changes that were tried, what became of the kept ones when they were left
    /// out, what a restart took, and the proof; what a diagnosis tried, and what tuning tried in another way or once more; and
    /// each of several configurations against the first.
    #[must_use]
    pub fn comparisons(&self) -> Vec<&Effect> {
        let tried = self.decisions.iter().flat_map(|decision| {
            // What was compared with everything else in place was left out by the same comparison.
            let left_out = decision.leave_one_out.iter();
            let left_out = left_out.filter(move |it| **it != decision.effect);
            std::iter::once(&decision.effect).chain(left_out)
        });
        let all = tried.chain(&self.restarted).chain(&self.proof);
        let mut all: Vec<&Effect> = all.filter(|effect| effect.was_measured()).collect();
        // A finding holds the effect of its decision, too, and so does each finding of one cause.
        let with_findings = self.findings.iter().flat_map(|finding| &finding.effects);
        let contestants = self.contest.iter().flat_map(|contest| &contest.contestants);
        let against_first = contestants.filter_map(|contestant| contestant.against_first.as_ref());
        for effect in with_findings.chain(against_first) {
            if effect.was_measured() && !all.contains(&effect) {
                all.push(effect);
            }
        }
        all
    }

    /// Comparisons with a verdict that stands by itself and not among all that were made (Holm).
    #[must_use]
    pub fn weak_claims(&self) -> Vec<&Effect> {
        let all = self.comparisons();
        let e_values: Vec<f64> = all.iter().map(|effect| effect.e_value).collect();
        let holds = hold_together(&e_values, ALPHA);
        all.into_iter()
            .zip(holds)
            .filter(|(effect, holds)| !holds && effect.is_claim())
            .map(|(effect, _)| effect)
            .collect()
    }
}

impl Effect {
    /// Whether it says that something got better or worse.
    fn is_claim(&self) -> bool {
        self.verdict.is_difference()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::{Contest, Contestant};
    use crate::record::run::Decision;
    use crate::{Confidence, Finding, Layer, Verdict};

    fn effect(change: &str, e_value: f64) -> Effect {
        let verdict = if e_value >= 20.0 {
            Verdict::Better
        } else {
            Verdict::Inconclusive
        };
        Effect {
            change: change.into(),
            e_value,
            verdict,
            pairs: 3,
            ..Effect::default()
        }
    }

    fn tried(change: &str, e_value: f64) -> Decision {
        Decision {
            code: change.into(),
            layer: None,
            settings: Vec::new(),
            effect: effect(change, e_value),
            kept: e_value >= 20.0,
            ..Decision::default()
        }
    }

    #[test]
    fn a_gain_that_just_showed_is_weak_among_many_that_did_not() {
        let run = Run {
            decisions: vec![
                tried("opcache", 1e4),
                tried("redis", 25.0),
                tried("keepalive", 0.4),
                tried("backlog", 0.7),
            ],
            proof: Some(effect("best against base", 1e3)),
            ..Run::default()
        };
        let weak: Vec<&str> = run
            .weak_claims()
            .iter()
            .map(|it| it.change.as_str())
            .collect();
        assert_eq!(weak, ["redis"]);
        assert_eq!(run.comparisons().len(), 5);
    }

    fn found(effects: Vec<Effect>) -> Finding {
        Finding {
            code: "OPC-01".into(),
            arm: String::new(),
            title: String::new(),
            layer: Layer::Php,
            seen: Vec::new(),
            refuted_by: String::new(),
            remedy: None,
            expected_gain: String::new(),
            confidence: Confidence::Suspected,
            weight: 0.0,
            source: String::new(),
            effects,
        }
    }

    #[test]
    fn what_a_diagnosis_tried_and_what_was_compared_once_more_are_of_the_family() {
        let twice = vec![effect("redis", 0.5), effect("redis", 25.0)];
        let mut run = Run {
            findings: vec![found(twice.clone()), found(twice)],
            ..Run::default()
        };
        let weak = |run: &Run| run.weak_claims().len();
        assert_eq!((run.comparisons().len(), weak(&run)), (2, 1));
        // The second one decided, and is no third.
        run.decisions = vec![tried("redis", 25.0)];
        assert_eq!((run.comparisons().len(), weak(&run)), (2, 1));
    }

    #[test]
    fn several_configurations_against_the_first_are_one_family() {
        let against_first = |e_value: f64| Contestant {
            against_first: Some(effect("against the first", e_value)),
            ..Contestant::default()
        };
        let run = |others: &[f64]| {
            let others = others.iter().map(|e_value| against_first(*e_value));
            let first = std::iter::once(Contestant::default());
            Run {
                contest: Some(Contest {
                    contestants: first.chain(others).collect(),
                    ..Contest::default()
                }),
                ..Run::default()
            }
        };
        assert!(run(&[25.0]).weak_claims().is_empty());
        assert_eq!(run(&[25.0, 0.7]).weak_claims().len(), 1);
    }

    #[test]
    fn only_comparisons_that_were_made_count_and_each_once() {
        let mut untried = tried("backlog", 1.0);
        untried.effect.pairs = 0;
        let mut beside_all = tried("pool-size", 25.0);
        beside_all.leave_one_out = Some(beside_all.effect.clone());
        let run = Run {
            decisions: vec![untried, beside_all],
            ..Run::default()
        };
        assert_eq!(run.comparisons().len(), 1);
        assert!(run.weak_claims().is_empty());
    }
}
