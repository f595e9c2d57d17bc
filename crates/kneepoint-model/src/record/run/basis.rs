//! What an R* rests on: how many steps, over how long, how disturbed.

use super::{LimitResult, Run, Trial};
use crate::LoadPoint;
use std::ops::RangeBounds;

/// The load behind one R*.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitBasis {
    /// Open-loop steps that the fit used.
    pub steps: usize,
    /// Seconds of measured load: saturation, steps and the confirming stretch, invalid ones included.
    pub load_s: f64,
    /// Half of the 95 % interval over the estimate.
    pub half_width: f64,
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
        let searched = self.searched(limit);
        let load = || searched.iter().map(|trial| &trial.load);
        LimitBasis {
            steps: limit.steps.len(),
            load_s: load().map(|point| point.window_s).sum(),
            half_width: limit.rate_hz.relative_half_width(),
            steal_share: load()
                .filter_map(|point| point.health.steal_share)
                .reduce(f64::max),
            foreign_share: mean_foreign_share(load()),
        }
    }

    /// The trials of a limit's search. A configuration that was searched more than once has several stretches of them,
    /// each from its closed loop on: the one that holds the limit's first step.
    fn searched(&self, limit: &LimitResult) -> Vec<&Trial> {
        let first_hz = limit.steps.first().map(|(rate_hz, _, _)| *rate_hz);
        let own: Vec<&Trial> = self
            .trials
            .iter()
            .filter(|trial| trial.arm == limit.arm && trial.purpose.starts_with("limit: "))
            .collect();
        own.chunk_by(|_, next| next.load.closed_workers.is_none())
            .find(|search| {
                search
                    .iter()
                    .any(|trial| Some(trial.load.rate_hz()) == first_hz)
            })
            .map_or_else(Vec::new, <[&Trial]>::to_vec)
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

    fn trial(arm: &str, purpose: &str, offered_hz: f64, window_s: f64, steal: f64) -> Trial {
        let mut load = LoadPoint {
            offered_hz,
            window_s,
            closed_workers: purpose.ends_with("saturate").then_some(8),
            ..LoadPoint::default()
        };
        load.health.steal_share = Some(steal);
        Trial {
            id: 0,
            purpose: purpose.into(),
            arm: arm.into(),
            at_s: 0.0,
            load,
            cpu: None,
        }
    }

    fn limit(steps: &[f64]) -> LimitResult {
        LimitResult {
            arm: "base".into(),
            rate_hz: Interval {
                low: 95.0,
                estimate: 100.0,
                high: 105.0,
            },
            steps: steps.iter().map(|rate| (*rate, 0.05, 500)).collect(),
            ..LimitResult::default()
        }
    }

    #[test]
    fn each_limit_of_a_configuration_has_the_load_of_its_own_search() {
        let run = Run {
            trials: vec![
                trial("base", "limit: saturate", 110.0, 3.0, 0.01),
                trial("base", "limit: step", 97.0, 4.0, 0.0),
                trial("other", "limit: step", 102.0, 4.0, 0.5),
                trial("base", "ab: pair 1 with", 102.0, 4.0, 0.5),
                trial("base", "limit: soak", 95.0, 20.0, 0.02),
                trial("base", "limit: saturate", 111.0, 3.0, 0.0),
                trial("base", "limit: step", 102.0, 5.0, 0.0),
            ],
            ..Run::default()
        };
        let basis = |steps: &[f64]| {
            let basis = run.limit_basis(&limit(steps));
            (basis.steps, basis.load_s, basis.steal_share)
        };
        assert_eq!(basis(&[97.0]), (1, 27.0, Some(0.02)));
        assert_eq!(basis(&[102.0]), (1, 8.0, Some(0.0)));
        assert_eq!(basis(&[55.0]), (1, 0.0, None));
        assert!((run.limit_basis(&limit(&[97.0])).half_width - 0.05).abs() < 1e-9);
    }
}
