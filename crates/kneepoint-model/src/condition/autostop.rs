//! When a load is ended early: the conditions of yandex.tank's autostop, with its semantics.
//!
//! `time(1s,10s) http(5xx,10%,1m) net(110,5%,10s) quantile(95,100ms,10s) instances(80%,30) limit(1m)`: each of these
//! wants *every* second of its window to breach. `total_time(300ms,70%,3s)`, `total_http(5xx,10%,1m)` and
//! `total_net(xx,25,10)` add the seconds of their window up instead (load-engine.md, section 4).

use crate::{LatencyHistogram, Outcome, Second};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

mod text;
mod watch;

/// Which statuses or system errors are meant: digits, and `x` for any digit. It holds for every number that begins so,
/// as in yandex.tank: `5xx` for 500 to 599, `xx` for every number of two digits and more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask(String);

impl Mask {
    /// Whether a status or error is meant.
    #[must_use]
    pub fn matches(&self, number: u16) -> bool {
        let digits = number.to_string();
        let pairs = self.0.bytes().zip(digits.bytes());
        self.0.len() <= digits.len()
            && pairs
                .into_iter()
                .all(|(mask, digit)| mask == b'x' || mask == digit)
    }
}

/// How many are too many.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Level {
    /// So many in a second (in the whole window, for `total_` conditions).
    Count(u64),
    /// This share of all, between 0 and 1.
    Share(f64),
}

/// A condition that ends the load. Windows are in whole seconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// `time(1s,10s)`: the mean response time exceeds `limit` in each second.
    Time {
        /// The limit.
        limit: Duration,
        /// The window.
        seconds: u32,
    },
    /// `quantile(95,100ms,10s)`: the quantile of the response time exceeds `limit` in each second.
    Quantile {
        /// The quantile in percent, 95.
        percent: f64,
        /// The limit.
        limit: Duration,
        /// The window.
        seconds: u32,
    },
    /// `http(5xx,10%,1m)`: so many responses have such a status in each second.
    Http {
        /// Which statuses.
        mask: Mask,
        /// How many are too many; that many are.
        level: Level,
        /// The window.
        seconds: u32,
        /// `total_http`: in the window as a whole.
        total: bool,
    },
    /// `net(110,5%,10s)`: so many requests end in such a system error in each second (see [`net_code`]).
    Net {
        /// Which errors.
        mask: Mask,
        /// How many are too many; that many are.
        level: Level,
        /// The window.
        seconds: u32,
        /// `total_net`: in the window as a whole.
        total: bool,
    },
    /// `total_time(300ms,70%,3s)`: in the window as a whole this share of response times exceeds `limit`.
    TotalTime {
        /// The limit.
        limit: Duration,
        /// The share that is too many, between 0 and 1.
        share: f64,
        /// The window.
        seconds: u32,
    },
    /// `instances(80%,30)`: more than so many connections are busy at the end of each second.
    Instances {
        /// How many, or which share of those allowed.
        level: Level,
        /// The window.
        seconds: u32,
    },
    /// `limit(1m)`: the load has lasted that long.
    Limit {
        /// How long.
        limit: Duration,
    },
}

/// The number by which yandex.tank knows how a request failed: that of the system error, and 777 for a request that
/// was too late to be sent. `None` for a request that got a response.
#[must_use]
pub fn net_code(outcome: Outcome) -> Option<u16> {
    match outcome {
        Outcome::Ok | Outcome::HttpError | Outcome::WrongBody | Outcome::NoValue => None,
        Outcome::Timeout => Some(110),
        Outcome::Refused => Some(111),
        Outcome::Reset => Some(104),
        Outcome::Truncated | Outcome::Protocol | Outcome::Tls => Some(71),
        Outcome::NoLocalPort => Some(99),
        Outcome::Unsent => Some(777),
    }
}

/// One second of load, as autostop looks at it.
///
/// Without the histogram, times are judged by what the quantiles of the record prove, so a stop is never wrong but may
/// not come.
#[derive(Debug, Clone, Copy)]
pub struct Observed<'a> {
    /// The record.
    pub second: &'a Second,
    /// The response times of its `Ok` requests.
    pub response: Option<&'a LatencyHistogram>,
    /// Busy connections at its end, and the most that are allowed.
    pub busy: Option<(u64, u64)>,
}

impl<'a> From<&'a Second> for Observed<'a> {
    fn from(second: &'a Second) -> Self {
        Self {
            second,
            response: None,
            busy: None,
        }
    }
}

/// The conditions of a run, and what they have seen of it so far. Read from text, and printed as such.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Autostop {
    watches: Vec<watch::Watch>,
}

/// Why a load is to be ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Stop {
    /// The condition that held.
    pub condition: Condition,
    /// Seconds from the start to the end of the second that decided.
    pub at_s: f64,
    /// What was seen, with its numbers.
    pub sentence: String,
}

impl Autostop {
    /// Waits for any of some conditions.
    #[must_use]
    pub fn new(conditions: Vec<Condition>) -> Self {
        Self {
            watches: conditions.into_iter().map(watch::Watch::new).collect(),
        }
    }

    /// The conditions, in the order in which they were written.
    pub fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.watches.iter().map(|watch| &watch.condition)
    }

    /// Looks at the next second, and says whether the load is to end. Seconds come in order, each once, whole.
    pub fn push<'a>(&mut self, observed: impl Into<Observed<'a>>) -> Option<Stop> {
        let observed = observed.into();
        let mut stop = None;
        for watch in &mut self.watches {
            // Every condition looks at every second, also when another has held already.
            let own = watch.push(&observed);
            stop = stop.or(own);
        }
        stop
    }
}

impl fmt::Display for Autostop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, condition) in self.conditions().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{condition}")?;
        }
        Ok(())
    }
}

/// What is wrong with a condition somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("autostop: `{piece}`: {problem}")]
pub struct AutostopError {
    /// The offending piece, as written.
    pub piece: String,
    /// What is wrong and what to write.
    pub problem: String,
}

impl FromStr for Autostop {
    type Err = AutostopError;

    fn from_str(text: &str) -> Result<Self, AutostopError> {
        text::conditions(text).map(Self::new)
    }
}

#[cfg(test)]
mod tests;
