//! What a stack will bear at rates that nobody drove at it, and how much of it a number of users needs.
//!
//! A p95 in here is one that half of all stretches of a few seconds stay below, as R* is the rate that half of them bear. Over
//! all requests together it is longer where a shared machine or chance makes some stretches slow.

use crate::units::format_share;
use crate::{Interval, Layer, ports};
use serde::{Deserialize, Serialize};

/// One rate that was measured to predict others from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityPoint {
    /// Offered rate per second.
    pub offered_hz: f64,
    /// Arrivals.
    pub arrivals: u64,
    /// Measured p95 of the response time in ms; `None` without responses.
    pub p95_ms: Option<f64>,
    /// What the model says of the same rate, with its 95 % interval.
    pub predicted_p95_ms: Option<Interval>,
    /// Cores that were busy, on the whole machine and on average.
    pub busy_cores: f64,
    /// Cores that the hypervisor kept.
    pub stolen_cores: f64,
}

/// What one request takes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Demand {
    /// CPU in ms on everything that shares the cores, at the highest of the low rates; with its 95 % interval.
    pub cpu_ms: Interval,
    /// Of it, what each tier's own processes used.
    pub tiers_ms: Vec<(Layer, f64)>,
    /// Mean response time in ms at the lowest rate: what a request takes when it is nearly alone.
    pub response_ms: f64,
    /// CPU in ms that the response waits for; the rest of [`Self::response_ms`] is waiting for others.
    pub on_the_way_ms: f64,
    /// Largest memory of a worker, shared pages divided among those that share them; `None` where it was not measured.
    pub worker_memory_bytes: Option<f64>,
}

/// Local ports that requests use up: each connection keeps its port for a minute after it was closed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ports {
    /// Whose ports they are.
    pub layer: Layer,
    /// Towards whom.
    pub peer: Layer,
    /// Connections towards it that this end closed, per request.
    pub closed_per_request: f64,
    /// How many ports there are.
    pub range: f64,
}

impl Ports {
    /// Requests per second from which on half of the ports are taken after a minute, and connecting gets slow
    /// ([`ports::CLIFF`]).
    #[must_use]
    pub fn lasting_hz(&self) -> f64 {
        ports::lasting_hz(self.range, self.closed_per_request)
    }
}

/// The measured rate that the model was not made from, and how well it hit it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HoldOut {
    /// Offered rate per second.
    pub offered_hz: f64,
    /// Measured p95 in ms.
    pub measured_p95_ms: f64,
    /// Predicted p95 in ms, from the lower rates only.
    pub predicted_p95_ms: f64,
    /// Whether they differ by 15 % at most (method.md, `plan_capacity`).
    pub hit: bool,
}

/// What was predicted, and what was measured when it was driven after all.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Verified {
    /// Predicted R* per second.
    pub predicted_limit_hz: f64,
    /// Measured R* per second, with its 95 % interval.
    pub limit_hz: Interval,
    /// Four fifths of it, per second.
    pub offered_hz: f64,
    /// Measured p95 in ms there, of the median step; `None` without responses.
    pub measured_p95_ms: Option<f64>,
    /// The same with its 95 % interval; `None` where the steps were too few for one, and in runs before it was told.
    #[serde(default)]
    pub measured_p95_interval_ms: Option<Interval>,
    /// The same over all requests of these steps; `None` in runs before it was told.
    #[serde(default)]
    pub measured_overall_p95_ms: Option<f64>,
    /// Predicted p95 in ms at the same rate.
    pub predicted_p95_ms: Interval,
    /// The same predictions from low load in turns with what they are held against; `None` in runs before that.
    #[serde(default)]
    pub in_turns: Option<InTurns>,
}

/// Predictions from steps at low load that were driven in turns with what measured R* and the p95. A machine whose speed
/// drifts does so for both: how far these are off is the model's error, where that of a plan made before has the drift
/// since then in it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct InTurns {
    /// Highest rate per second of these steps.
    pub measured_up_to_hz: f64,
    /// Standard deviation of the machine's speed over those in turns with the p95, as a share; `None` in runs before it was
    /// looked for.
    #[serde(default)]
    pub speed_sd: Option<f64>,
    /// Predicted R* per second, with its 95 % interval.
    pub limit_hz: Interval,
    /// Predicted p95 in ms at [`Verified::offered_hz`], with its 95 % interval.
    pub p95_ms: Interval,
    /// Measured p95 in ms there, with the interval of what chance leaves of it on a machine whose speed was what these steps
    /// say: how well it is known for a prediction that is made from them. `None` where the steps were too few, and in runs
    /// before it was told.
    #[serde(default)]
    pub measured_p95_interval_ms: Option<Interval>,
}

/// Most that a predicted R* may be off where nothing else was driven than half of it, as a share of what is measured.
pub const LIMIT_OFF: f64 = 0.10;
/// The same of a predicted p95 at four fifths of R*.
pub const P95_OFF: f64 = 0.20;

impl Verified {
    /// Why no prediction can be held against what was measured, a sentence each: half of the measurement's own interval is
    /// wider than a prediction may be off ([`LIMIT_OFF`], [`P95_OFF`]). What was predicted has no say in it. Empty where it
    /// can.
    #[must_use]
    pub fn too_vague(&self) -> Vec<String> {
        let p95 = self.measured_p95_interval_ms.as_ref();
        let p95 = p95.map_or(f64::INFINITY, Interval::relative_half_width);
        [
            ("R*", self.limit_hz.relative_half_width(), LIMIT_OFF),
            ("the p95 below it", p95, P95_OFF),
        ]
        .into_iter()
        .filter(|(_, known, allowed)| known > allowed)
        .map(|(what, known, allowed)| too_vague(what, known, allowed))
        .collect()
    }

    /// How far the predicted R* is from the measured one, as a signed share of it: above zero promised too much.
    #[must_use]
    pub fn limit_off(&self) -> f64 {
        self.predicted_limit_hz / self.limit_hz.estimate - 1.0
    }

    /// The same of the p95; `None` where none was measured.
    #[must_use]
    pub fn p95_off(&self) -> Option<f64> {
        let measured_ms = self.measured_p95_ms?;
        Some(self.predicted_p95_ms.estimate / measured_ms - 1.0)
    }

    /// The verdict on the predictions that were made in turns; `None` where none were.
    #[must_use]
    pub fn turned(&self) -> Option<Self> {
        let in_turns = self.in_turns?;
        Some(Self {
            predicted_limit_hz: in_turns.limit_hz.estimate,
            predicted_p95_ms: in_turns.p95_ms,
            measured_p95_interval_ms: in_turns
                .measured_p95_interval_ms
                .or(self.measured_p95_interval_ms),
            ..*self
        })
    }
}

fn too_vague(what: &str, known: f64, allowed: f64) -> String {
    let share = format_share(allowed);
    let how = if known.is_finite() {
        format!("known to +-{} only", format_share(known))
    } else {
        "known from too few steps to say how well".into()
    };
    format!(
        "{what} as measured is {how}: a prediction that may be {share} off cannot be held against it; verify again, on a \
         machine that does less else, or for longer"
    )
}

/// Who will use the site.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Population {
    /// Users at the same time.
    pub users: f64,
    /// Seconds between a page and the user's next.
    pub think_s: f64,
    /// Requests to the application for a page.
    pub requests_per_page: f64,
    /// Factor of the busiest minutes over that.
    pub peak: f64,
}

impl Population {
    /// The rate per second that these users make when a page takes this long: `peak N q / (Z + R)`, the law of
    /// interactive response times (method.md section 5).
    #[must_use]
    pub fn rate_hz(&self, response_s: f64) -> f64 {
        self.peak * self.users * self.requests_per_page / (self.think_s + response_s).max(1e-3)
    }
}

/// How many hosts such as the one that was measured are needed, and what each must have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Need {
    /// The rate per second they have to bear together.
    pub rate_hz: f64,
    /// Who makes it, where it was asked for in users.
    pub population: Option<Population>,
    /// What one host is given at most: four fifths of the lower end of its R*, or of what its ports last for where that is
    /// less.
    pub per_host_hz: f64,
    /// Hosts that bear the rate.
    pub hosts: u32,
    /// The same with one more, so that one may fail.
    pub hosts_with_spare: u32,
    /// p95 in ms on each of them while all are up.
    pub p95_ms: Option<Interval>,
    /// Cores that are busy on each host while none is spare.
    pub busy_cores: f64,
    /// PHP workers that each host needs: a quarter more than are busy on average (Little's law).
    pub workers: u32,
    /// Memory in bytes of these workers; `None` where a worker's was not measured.
    pub memory_bytes: Option<f64>,
}

/// What `plan` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapacityPlan {
    /// What was measured, by rate.
    pub points: Vec<CapacityPoint>,
    /// What a request takes.
    pub demand: Demand,
    /// Workers of the pool.
    pub workers: u32,
    /// Cores that the stack shares, less what else ran on them.
    pub cores: f64,
    /// The rate per second at which cores or workers are used up.
    pub saturation_hz: f64,
    /// Which of the two: `the CPU`, `the workers`.
    pub bound_by: String,
    /// Standard deviation of the machine's speed from step to step, as a share: the predictions are for a machine that
    /// wanders by as much. `None` in runs before it was looked for.
    #[serde(default)]
    pub speed_sd: Option<f64>,
    /// Predicted R* per second.
    pub limit_hz: Interval,
    /// The local ports that are used up at the lowest rate; `None` where connections are kept, and in runs before it was
    /// looked for.
    #[serde(default)]
    pub ports: Option<Ports>,
    /// Highest rate that was driven, as a share of the predicted R*.
    pub measured_up_to: f64,
    /// p95 in ms at rates that were not driven.
    pub curve: Vec<(f64, Interval)>,
    /// The measured rate that was kept aside.
    pub hold_out: Option<HoldOut>,
    /// What the asked-for rate or users need.
    pub need: Option<Need>,
    /// How far off it was, where that was wanted.
    #[serde(default)]
    pub verified: Option<Verified>,
    /// Reasons to doubt it, a sentence each.
    pub doubts: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_promised_too_much_is_above_zero() {
        let verified = Verified {
            predicted_limit_hz: 110.0,
            limit_hz: Interval {
                low: 95.0,
                estimate: 100.0,
                high: 105.0,
            },
            offered_hz: 80.0,
            measured_p95_ms: Some(50.0),
            measured_p95_interval_ms: Some(Interval {
                low: 42.0,
                estimate: 50.0,
                high: 58.0,
            }),
            measured_overall_p95_ms: Some(60.0),
            predicted_p95_ms: Interval {
                low: 35.0,
                estimate: 40.0,
                high: 45.0,
            },
            in_turns: None,
        };
        assert!((verified.limit_off() - 0.1).abs() < 1e-9);
        assert!((verified.p95_off().expect("measured") + 0.2).abs() < 1e-9);
        assert_eq!(verified.turned(), None);
        let known = Interval {
            low: 45.0,
            estimate: 50.0,
            high: 55.0,
        };
        let in_turns = InTurns {
            measured_up_to_hz: 50.0,
            speed_sd: None,
            limit_hz: verified.limit_hz,
            p95_ms: Interval {
                low: 50.0,
                estimate: 55.0,
                high: 60.0,
            },
            measured_p95_interval_ms: Some(known),
        };
        let turned = Verified {
            in_turns: Some(in_turns),
            ..verified
        }
        .turned()
        .expect("in turns");
        assert!(turned.limit_off().abs() < 1e-9);
        assert!((turned.p95_off().expect("measured") - 0.1).abs() < 1e-9);
        assert_eq!(turned.measured_p95_interval_ms, Some(known));
    }

    #[test]
    fn a_measurement_that_is_less_certain_than_the_prediction_tests_nothing() {
        let around = |estimate: f64, half: f64| Interval {
            low: estimate - half,
            estimate,
            high: estimate + half,
        };
        let check = |limit_half, p95_half: Option<f64>, said: &[&str]| {
            let verified = Verified {
                predicted_limit_hz: 500.0,
                limit_hz: around(100.0, limit_half),
                offered_hz: 80.0,
                measured_p95_ms: Some(50.0),
                measured_p95_interval_ms: p95_half.map(|half| around(50.0, half)),
                measured_overall_p95_ms: None,
                predicted_p95_ms: Interval::default(),
                in_turns: None,
            };
            let vague = verified.too_vague();
            assert_eq!(vague.len(), said.len(), "{vague:?}");
            for (text, part) in vague.iter().zip(said) {
                assert!(text.contains(part), "{text}");
            }
        };
        check(9.9, Some(9.9), &[]);
        check(12.0, Some(9.9), &["R* as measured is known to +-12 % only"]);
        check(
            9.9,
            Some(12.5),
            &["the p95 below it as measured is known to +-25 % only"],
        );
        check(30.0, None, &["+-30 %", "too few steps"]);
    }

    #[test]
    fn users_make_a_rate_by_their_pauses_and_the_response_time() {
        let population = Population {
            users: 10_000.0,
            think_s: 29.5,
            requests_per_page: 3.0,
            peak: 2.0,
        };
        assert!((population.rate_hz(0.5) - 2000.0).abs() < 1e-9);
        assert!(
            population.rate_hz(30.5) < 1001.0,
            "slow pages slow the users down"
        );
    }
}
