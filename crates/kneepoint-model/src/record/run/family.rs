//! All comparisons of a run together: where many changes were tried, one of them may look like a gain by chance.

use super::Run;
use crate::Effect;
use crate::statistics::holm::hold_together;

/// Chance that any of a run's claims is wrong.
const ALPHA: f64 = 0.05;

impl Run {
    /// Every comparison of the run: the changes that were tried, what became of the kept ones when they were left out,
    /// what a restart took, and the proof.
    #[must_use]
    pub fn comparisons(&self) -> Vec<&Effect> {
        let tried = self.decisions.iter().flat_map(|decision| {
            // What was compared with everything else in place was left out by the same comparison.
            let left_out = decision.leave_one_out.iter();
            let left_out = left_out.filter(move |it| **it != decision.effect);
            std::iter::once(&decision.effect).chain(left_out)
        });
        let all = tried.chain(&self.restarted).chain(&self.proof);
        all.filter(|effect| effect.was_measured()).collect()
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
    use crate::Verdict;
    use crate::record::run::Decision;

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
