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
