//! How fast the machine was during each step, and how much of it there was.
//!
//! What a request takes of the CPU says it from step to step, and over the whole of a step. The canary runs between the
//! steps, alone on the machine, and its work is not the stack's: on a shared machine it hardly moved while a request took
//! from 0.9 to 1.2 times its usual time. But it is the same work whatever is configured, so it says how fast the machine was
//! over the search as a whole. What others used of the machine is counted, and a step has the rest of it.

use crate::bench::Canary;
use kneepoint_model::statistics::autocorrelation::{lag_one, sd_of_drifting_mean};
use kneepoint_model::statistics::limit_fit::Fit;
use kneepoint_model::{Interval, LoadPoint};

/// Failed share up to which the CPU time of a request is known: what the stack does for one that is not answered in time is
/// counted, and the request is not.
const MOST_FAILED: f64 = 0.02;
/// Fewest served requests of a step of which the CPU time means something, its ticks being of 10 ms where they are counted
/// by process.
const FEWEST_SERVED: u64 = 50;
/// What neighbouring steps are taken to resemble each other by where there are too few to tell: what the CPU time of a
/// request did on a shared machine from one step of a few seconds to the next (0.49 over 112 steps).
const UNTOLD: f64 = 0.5;

/// How well it is known what a step loses to others, as a share of that: they come and go within it, and the moments in
/// which they take most decide whether the SLO holds. On the busy machine of `cargo xtask method` 88 % of the intervals cover
/// with 0.3, 95 % with 0.4 and 98 % with 0.5 (of 40, 60 and 60).
const UNCERTAIN: f64 = 0.4;

/// What says how fast the machine was during a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    /// By the canary around it, relative to its reference.
    canary: Option<f64>,
    /// CPU time of a request in ms.
    cost_ms: Option<f64>,
    /// Share of the machine that others did not use in the second in which they used most.
    available: f64,
    /// The same over the whole of the step: no less.
    in_all: f64,
}

impl Reading {
    pub(super) fn of(point: &LoadPoint, canary: Canary) -> Self {
        let tells = point.error_share() <= MOST_FAILED && point.served_in_all() >= FEWEST_SERVED;
        Self {
            canary: canary.during(),
            cost_ms: point.cpu_ms.filter(|ms| tells && *ms > 0.0),
            available: point.health.available_at_worst(),
            in_all: point.health.available_share(),
        }
    }

    /// By how much the limit that the step speaks for is uncertain since others were at work, as a standard deviation of its
    /// logarithm.
    pub(super) fn uncertain(&self) -> f64 {
        -UNCERTAIN * self.available.ln()
    }

    /// By how much more of the machine there was over the whole of the step than in its worst second, as a difference of
    /// logarithms.
    pub(super) fn spare(&self) -> f64 {
        (self.in_all / self.available).ln().max(0.0)
    }
}

/// The speeds of the steps relative to the canary's reference.
#[derive(Debug, Clone)]
pub(super) struct Speeds {
    readings: Vec<Reading>,
    /// ln of the geometric means.
    canary: Option<f64>,
    cost: Option<f64>,
}

impl Speeds {
    pub(super) fn of(readings: impl Iterator<Item = Reading>) -> Self {
        let readings: Vec<Reading> = readings.collect();
        Self {
            canary: mean_ln(readings.iter().filter_map(|it| it.canary)),
            cost: mean_ln(readings.iter().filter_map(|it| it.cost_ms)),
            readings,
        }
    }

    /// The speed of a step: the canary's over all steps, and how much less CPU than usual a request took in this one.
    /// Where that is not known, what the canary said of it. Of the machine at that speed there was what others left.
    pub(super) fn of_step(&self, reading: &Reading) -> Option<f64> {
        let own = reading.canary?;
        let by_cost = || Some(self.canary? + self.cost? - reading.cost_ms?.ln());
        Some(by_cost().map_or(own, f64::exp) * reading.available)
    }

    /// All of them; empty where one is not known.
    pub(super) fn of_each(&self) -> Vec<f64> {
        let speeds: Option<Vec<f64>> = self.readings.iter().map(|it| self.of_step(it)).collect();
        speeds.unwrap_or_default()
    }

    /// Their standard deviation as a share; `None` with fewer than two.
    pub(super) fn sd(&self) -> Option<f64> {
        let speeds = self.of_each();
        if speeds.len() < 2 {
            return None;
        }
        let n = speeds.len() as f64;
        let mean = speeds.iter().sum::<f64>() / n;
        let squares = speeds.iter().map(|speed| (speed - mean).powi(2));
        Some((squares.sum::<f64>() / (n - 1.0)).sqrt() / mean)
    }

    /// What to expect of the next step: as much of the last one's difference from the mean as steps resemble each other.
    pub(super) fn ahead(&self) -> Option<f64> {
        let ln_speeds: Vec<f64> = self.of_each().into_iter().map(f64::ln).collect();
        let last = ln_speeds.last()?;
        let mean = ln_speeds.iter().sum::<f64>() / ln_speeds.len() as f64;
        let resemblance = lag_one(&ln_speeds).unwrap_or(UNTOLD).clamp(0.0, 1.0);
        Some((mean + resemblance * (last - mean)).exp())
    }

    /// A fit with what is not known of the speeds in its intervals: R* as the machine was, for the mean over a search that
    /// met a slow time or not; R* at the canary's reference, for how far the canary and the requests go together.
    ///
    /// The mean is as uncertain as the less certain of the two has it: what each request happened to need makes the steps
    /// look less alike than the machine's drift makes them.
    pub(super) fn widen(&self, fit: Fit) -> Fit {
        let error = |of_step: &dyn Fn(&Reading) -> Option<f64>| {
            let known: Vec<f64> = self.readings.iter().filter_map(of_step).collect();
            1.96 * fit.beta * sd_of_drifting_mean(&known).unwrap_or(0.0)
        };
        let by_canary = error(&|it| Some(it.canary?.ln() + it.available.ln()));
        let apart = error(&|it| Some(it.canary?.ln() + it.cost_ms?.ln()));
        let (rate, reference) = (sides(&fit.rate_hz), sides(&fit.reference_hz));
        let mean = [0, 1].map(|side| rate[side].max(reference[side].hypot(by_canary)));
        Fit {
            rate_hz: with_sides(fit.rate_hz, mean),
            reference_hz: with_sides(fit.reference_hz, reference.map(|side| side.hypot(apart))),
            ..fit
        }
    }

    /// CPU time of a request in ms over all steps; `None` where it was not counted.
    pub(super) fn cost_ms(&self) -> Option<f64> {
        self.cost.map(f64::exp)
    }
}

/// How far an interval's logarithm reaches below its estimate, and above.
fn sides(rate: &Interval) -> [f64; 2] {
    [rate.estimate / rate.low, rate.high / rate.estimate].map(f64::ln)
}

/// The interval around the same estimate whose logarithm reaches so far below and above.
fn with_sides(rate: Interval, [below, above]: [f64; 2]) -> Interval {
    Interval {
        low: rate.estimate * (-below).exp(),
        high: rate.estimate * above.exp(),
        ..rate
    }
}

fn mean_ln(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum) = values.fold((0.0, 0.0), |(n, sum), value| (n + 1.0, sum + value.ln()));
    (n > 0.0).then(|| sum / n)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(readings: &[(Option<f64>, Option<f64>)], expected: &[f64]) {
        let readings = readings.iter().map(|(canary, cost_ms)| Reading {
            canary: *canary,
            cost_ms: *cost_ms,
            available: 1.0,
            in_all: 1.0,
        });
        let found = Speeds::of(readings).of_each();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    #[test]
    fn a_step_whose_requests_took_more_cpu_met_a_slower_machine() {
        let canary = Some(1.0);
        check(
            &[
                (canary, Some(4.0)),
                (canary, Some(4.0)),
                (canary, Some(4.0)),
            ],
            &[1.0; 3],
        );
        check(&[(canary, Some(2.0)), (canary, Some(8.0))], &[2.0, 0.5]);
    }

    #[test]
    fn the_canary_says_how_fast_the_machine_was_over_all() {
        check(
            &[(Some(0.8), Some(5.0)), (Some(0.8), Some(5.0))],
            &[0.8, 0.8],
        );
        // From one step to the next it is the requests that say it.
        check(
            &[(Some(0.5), Some(5.0)), (Some(2.0), Some(5.0))],
            &[1.0, 1.0],
        );
    }

    #[test]
    fn a_step_has_of_the_machine_what_others_left() {
        let mut point = LoadPoint::default();
        point.health.foreign_share = Some(0.3);
        point.health.steal_share = Some(0.1);
        let canary = Canary {
            before: Some(1.0),
            after: Some(1.0),
        };
        let beside = Reading::of(&point, canary);
        let alone = Reading::of(&LoadPoint::default(), canary);
        let speeds = Speeds::of([alone, beside].into_iter()).of_each();
        assert!((speeds[0] - 1.0).abs() < 1e-9 && (speeds[1] - 0.6).abs() < 1e-9);
        assert!(alone.uncertain().abs() < 1e-9 && beside.uncertain() > 0.1);
    }

    #[test]
    fn where_the_cost_is_not_known_the_canary_speaks_and_without_it_nobody() {
        check(&[(Some(0.9), None), (Some(1.1), None)], &[0.9, 1.1]);
        check(&[(Some(0.9), None), (None, Some(5.0))], &[]);
    }

    #[test]
    fn what_is_expected_lies_between_the_last_step_and_the_mean() {
        let readings = [4.0, 4.0, 4.0, 8.0].map(|cost_ms| Reading {
            canary: Some(1.0),
            cost_ms: Some(cost_ms),
            available: 1.0,
            in_all: 1.0,
        });
        let speeds = Speeds::of(readings.into_iter());
        let (ahead, each) = (speeds.ahead().expect("steps"), speeds.of_each());
        assert!(each[3] < ahead && ahead < 1.0, "{ahead} {each:?}");
    }
}
