//! Who sends: the workers of a closed loop, and visitors who make several requests with pauses in between.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The pause between a response and the next request of the same worker or visitor.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThinkTime {
    /// None: the next request follows at once.
    #[default]
    None,
    /// Always the same.
    Fixed(Duration),
    /// Exponentially distributed with this mean, as independent visitors do.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// Drawn from a measured distribution: its quantiles at equal steps from the least to the greatest, at least
    /// two, ascending; between two of them it is linear.
    Empirical {
        /// The quantiles.
        quantiles: Vec<Duration>,
    },
}

impl ThinkTime {
    /// Its mean.
    #[must_use]
    pub fn mean(&self) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(pause) => *pause,
            Self::Exponential { mean } => *mean,
            // Linear between two quantiles, and as often between any two neighbours.
            Self::Empirical { quantiles } => {
                let between = quantiles.windows(2).map(|pair| (pair[0] + pair[1]) / 2);
                let count = quantiles.len().saturating_sub(1).max(1) as u32;
                between.sum::<Duration>() / count
            }
        }
    }
}

/// A closed loop: each worker sends its next request when its last one has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClosedLoop {
    /// How many workers.
    pub workers: u32,
    /// Time over which they start: worker *i* at `i * ramp / workers` (JMeter's rule; load-engine.md, section 4).
    pub ramp: Duration,
    /// Pause of a worker after each response; with [`Sessions`], between one visit and the next.
    pub think_time: ThinkTime,
    /// No request starts later than this.
    pub duration: Duration,
    /// Requests of all workers together after which none starts (ab's `-n`); `None` sets no such bound.
    pub requests: Option<u64>,
    /// Requests of each worker after which it ends (JMeter's loops); `None` sets no such bound.
    pub loops: Option<u64>,
}

impl ClosedLoop {
    /// Workers that all start at once, never pause, and end after `duration`.
    #[must_use]
    pub fn new(workers: u32, duration: Duration) -> Self {
        Self {
            workers,
            ramp: Duration::ZERO,
            think_time: ThinkTime::None,
            duration,
            requests: None,
            loops: None,
        }
    }
}

/// Visitors: in an open loop an arrival of the schedule is then a visitor and not a request, and the requests after
/// a visitor's first one follow the responses. In a closed loop each worker is one visitor after the other.
///
/// A visitor comes without cookies, shares them with nobody, and sends what he was given with every later request of
/// the visit, as a browser does, whether the request asks for a session of its own or not. Over HTTP it also keeps its connection while it
/// thinks, unless all connections are taken.
///
/// A visit ends early when one of its requests fails: what a visitor would have done after a failed login or an empty
/// page is not what the script says, and the requests after it would measure a path nobody takes. When the load ends,
/// visits under way make no further request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Sessions {
    /// What visitors do, with weights. Empty: every request is drawn from the mix.
    pub scripts: Vec<Script>,
    /// Without scripts: how many requests a visit has, as (requests, weight). Never empty then.
    pub lengths: Vec<(u32, f64)>,
    /// Pause between a response and the visitor's next request; the latter's intended start is at its end.
    pub think_time: ThinkTime,
}

/// What a visit is by its scenario, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VisitShape {
    /// Its requests.
    pub requests: f64,
    /// How long the visitor pauses in it, in all.
    pub pauses: Duration,
}

impl Sessions {
    /// What a visit is on average, as long as no request of it fails.
    #[must_use]
    pub fn shape(&self) -> VisitShape {
        let by_script = self
            .scripts
            .iter()
            .map(|script| (script.requests.len() as f64, script.weight));
        let by_length = self
            .lengths
            .iter()
            .map(|(length, weight)| (f64::from(*length), *weight));
        let (sum, weights) = by_script
            .chain(by_length.filter(|_| self.scripts.is_empty()))
            .fold((0.0, 0.0), |(sum, weights), (requests, weight)| {
                (sum + weight * requests, weights + weight)
            });
        let requests = if weights > 0.0 { sum / weights } else { 1.0 };
        VisitShape {
            requests,
            pauses: self.think_time.mean().mul_f64((requests - 1.0).max(0.0)),
        }
    }
}

/// A fixed sequence of requests of one visitor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Script {
    /// Name for reports.
    pub name: String,
    /// Share among the scripts, relative to the other weights.
    pub weight: f64,
    /// The requests in order, as indices into the workload's requests.
    pub requests: Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn check(think_time: ThinkTime, expected: Duration) {
        let script = |weight, requests: &[usize]| Script {
            name: "a visit".into(),
            weight,
            requests: requests.into(),
        };
        let sessions = Sessions {
            // Four pauses in three of four visits, none in the others.
            scripts: vec![script(3.0, &[0, 1, 2, 1, 0]), script(1.0, &[0])],
            lengths: vec![(9, 1.0)],
            think_time,
        };
        let shape = sessions.shape();
        assert!((shape.requests - 4.0).abs() < 1e-9, "{shape:?}");
        assert_eq!(shape.pauses, expected);
    }

    #[test]
    fn a_visit_pauses_between_its_requests() {
        check(ThinkTime::None, Duration::ZERO);
        check(ThinkTime::Fixed(S(2)), S(6));
        check(ThinkTime::Exponential { mean: S(1) }, S(3));
        let quantiles = vec![S(0), S(2), S(4), S(12)];
        // Means of 1, 3 and 8 s between them.
        check(ThinkTime::Empirical { quantiles }, S(12));
        assert_eq!(Sessions::default().shape().pauses, Duration::ZERO);
    }
}
