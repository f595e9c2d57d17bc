//! What an R* rests on: how many steps, over how long, how disturbed.

use super::{LimitResult, Run};
use crate::LoadPoint;
use std::ops::RangeBounds;

/// The load behind one R*.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitBasis {
    /// Open-loop steps that the fit used.
    pub steps: usize,
    /// Seconds of measured load: saturation, steps and the confirming stretch, invalid ones included.
    pub load_s: f64,
    /// Largest share of the machine's time that others took during a step; `None` where it was not measured.
    pub steal_share: Option<f64>,
    /// Share of the machine that other programs used, on average over the load; `None` where it was not measured.
    pub foreign_share: Option<f64>,
}

impl LimitResult {
    /// The rates per second of the steps whose violating share lies within a range, in their order.
    pub fn rates_violating(&self, shares: impl RangeBounds<f64>) -> impl Iterator<Item = f64> {
        self.steps
            .iter()
            .filter(move |(_, violating, _)| shares.contains(violating))
            .map(|(rate_hz, _, _)| *rate_hz)
    }
}

impl Run {
    /// What a limit of this run rests on.
    #[must_use]
    pub fn limit_basis(&self, limit: &LimitResult) -> LimitBasis {
        let load = || {
            let trials = self.trials.iter();
            let searched = trials.filter(|trial| limit.trials.contains(&trial.id));
            searched.map(|trial| &trial.load)
        };
        LimitBasis {
            steps: limit.steps.len(),
            load_s: load().map(|point| point.window_s).sum(),
            steal_share: load()
                .filter_map(|point| point.health.steal_share)
                .reduce(f64::max),
            foreign_share: mean_foreign_share(load()),
        }
    }
}

/// What others used during steps, each weighed by its length; `None` where it was not measured in any.
fn mean_foreign_share<'p>(points: impl Iterator<Item = &'p LoadPoint>) -> Option<f64> {
    let (used_s, load_s) = points
        .filter_map(|point| Some((point.health.foreign_share?, point.window_s)))
        .fold((0.0, 0.0), |(used_s, load_s), (share, window_s)| {
            (used_s + share * window_s, load_s + window_s)
        });
    (load_s > 0.0).then(|| used_s / load_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interval;
    use crate::record::run::{Trial, TrialId};

    fn trial(id: u64, window_s: f64, steal: f64) -> Trial {
        let mut load = LoadPoint {
            window_s,
            ..LoadPoint::default()
        };
        load.health.steal_share = Some(steal);
        Trial {
            id: TrialId(id),
            purpose: String::new(),
            arm: "base".into(),
            at_s: 0.0,
            load,
            cpu: None,
        }
    }

    #[test]
    fn a_limit_rests_on_the_trials_that_it_names() {
        let run = Run {
            trials: vec![
                trial(0, 3.0, 0.01),
                trial(1, 4.0, 0.0),
                trial(2, 4.0, 0.5),
                trial(3, 20.0, 0.02),
            ],
            ..Run::default()
        };
        let mut limit = LimitResult {
            rate_hz: Interval {
                low: 95.0,
                estimate: 100.0,
                high: 105.0,
            },
            steps: vec![(97.0, 0.05, 500)],
            trials: [0, 1, 3].map(TrialId).into(),
            ..LimitResult::default()
        };
        let basis = run.limit_basis(&limit);
        assert_eq!(
            (basis.steps, basis.load_s, basis.steal_share),
            (1, 27.0, Some(0.02))
        );
        limit.trials.clear();
        assert_eq!(run.limit_basis(&limit).load_s, 0.0);
    }
}
