//! Conditions on a load: a metric over a window against a limit.
//!
//! There is one language with two notations. A comparison says `p99<500ms over 10s`; a call, as yandex.tank's autostop
//! writes it, says `quantile(99,500ms,10s)`. A [`Threshold`](threshold::Threshold) is a comparison that must hold and
//! decides the exit code; an [`Autostop`](autostop::Autostop) is a list of conditions in either notation, each of which
//! ends the load once it holds.
//!
//! The two count differently where a request got no good response. In a comparison every failed request is slower than
//! any limit; in a call, as in yandex.tank, only one that timed out or was never sent.

use crate::{LatencyHistogram, Outcome, Second};
use std::time::Duration;

pub mod autostop;
mod reading;
mod text;
pub mod threshold;

use reading::Reading;

/// Which statuses or system errors are meant: digits, and `x` for any digit. It holds for every number that begins so,
/// as in yandex.tank: `5xx` for 500 to 599, `xx` for every number of two digits and more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mask(String);

impl Mask {
    /// Whether a status or error is meant.
    #[must_use]
    pub fn matches(&self, number: u16) -> bool {
        let digits = number.to_string();
        let mut pairs = self.0.bytes().zip(digits.bytes());
        self.0.len() <= digits.len() && pairs.all(|(mask, digit)| mask == b'x' || mask == digit)
    }
}

/// What a condition looks at. The first seven are written as comparisons, the others as calls.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadMetric {
    /// `p95`: a quantile of the response time, in percent. It is that of `Ok` requests, and above every limit when more
    /// requests failed than the quantile leaves room for.
    Quantile(f64),
    /// `mean`: the mean response time of `Ok` requests.
    Mean,
    /// `max`: the longest response time of an `Ok` request.
    Max,
    /// `errors`: the share of requests that failed.
    Errors,
    /// `good` with a percentage: the share of requests that met the SLO's response time.
    GoodShare,
    /// `good` with a rate: the goodput per second.
    Good,
    /// `rate`: requests per second that ended `Ok`.
    Rate,
    /// `time(..)`: the mean response time, as yandex.tank counts.
    TankMean,
    /// `quantile(95,..)`: a quantile of the response time in percent, as yandex.tank counts.
    TankQuantile(f64),
    /// `total_time(300ms,..)`: requests that took longer than this.
    Slower(Duration),
    /// `http(5xx,..)`: responses with such a status.
    Status(Mask),
    /// `net(110,..)`: requests that ended in such a system error (see [`net_code`]).
    SystemError(Mask),
    /// `instances(..)`: busy connections.
    Busy,
    /// `limit(..)`: how long the load has lasted.
    Elapsed,
}

impl LoadMetric {
    /// Whether it is a response time of single seconds: those do not add up.
    fn is_time(&self) -> bool {
        matches!(
            self,
            Self::Quantile(_) | Self::Mean | Self::Max | Self::TankMean | Self::TankQuantile(_)
        )
    }
}

/// How a metric is compared with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparator {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
}

impl Comparator {
    fn holds(self, measured: f64, limit: f64) -> bool {
        match self {
            Self::Below => measured < limit,
            Self::AtMost => measured <= limit,
            Self::Above => measured > limit,
            Self::AtLeast => measured >= limit,
        }
    }

    /// Whether `a` is further from holding than `b`.
    fn is_worse(self, a: f64, b: f64) -> bool {
        match self {
            Self::Below | Self::AtMost => a > b,
            Self::Above | Self::AtLeast => a < b,
        }
    }

    /// What holds whenever this does not.
    fn opposite(self) -> Self {
        match self {
            Self::Below => Self::AtLeast,
            Self::AtMost => Self::Above,
            Self::Above => Self::AtMost,
            Self::AtLeast => Self::Below,
        }
    }
}

/// The limit of a condition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// A time.
    Time(Duration),
    /// A share of all, between 0 and 1.
    Share(f64),
    /// A rate per second, or a number.
    Amount(f64),
}

impl Limit {
    /// The number that a metric is compared with: ms, a share, or so many.
    fn value(self) -> f64 {
        match self {
            Self::Time(limit) => limit.as_nanos() as f64 / 1e6,
            Self::Share(limit) | Self::Amount(limit) => limit,
        }
    }
}

/// The seconds that a condition looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// The whole run.
    Run,
    /// So many seconds in a row, each of them by itself.
    Each(u32),
    /// So many seconds in a row, taken together.
    Together(u32),
}

/// A metric over a window against a limit. Printed in the notation of its metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// What is looked at.
    pub metric: LoadMetric,
    /// How it is compared.
    pub comparison: Comparator,
    /// With what.
    pub limit: Limit,
    /// Over which seconds.
    pub window: Window,
}

impl Condition {
    /// The value that decides over the window, when `comparison` must hold throughout: of seconds by themselves the one
    /// that is furthest from holding. `None` when a second has none, or nothing was measured.
    fn decisive<'r>(
        &self,
        comparison: Comparator,
        mut seconds: impl Iterator<Item = &'r Option<Reading>>,
    ) -> Option<f64> {
        if matches!(self.window, Window::Together(_)) {
            return self.value(seconds.copied().sum::<Option<Reading>>()?);
        }
        let worse = |a: f64, b: f64| if comparison.is_worse(b, a) { b } else { a };
        let first = self.value((*seconds.next()?)?)?;
        seconds.try_fold(first, |so_far, reading| {
            Some(worse(so_far, self.value((*reading)?)?))
        })
    }

    /// What is compared with the limit: a number of requests or connections, or a part of the whole.
    fn value(&self, reading: Reading) -> Option<f64> {
        match (&self.metric, self.limit) {
            (
                LoadMetric::Status(_) | LoadMetric::SystemError(_) | LoadMetric::Busy,
                Limit::Amount(_),
            ) => Some(reading.part),
            _ => (reading.whole > 0.0).then(|| reading.part / reading.whole),
        }
    }
}

/// One second of load, as a condition looks at it.
///
/// Without the histogram, the times of a call are judged by what the quantiles of the record prove, so a load is never
/// ended wrongly but may go on.
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

/// What is wrong with a condition somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{piece}`: {problem}")]
pub struct ConditionError {
    /// What it was to be.
    pub what: &'static str,
    /// The offending piece, as written.
    pub piece: String,
    /// What is wrong and what to write.
    pub problem: String,
}
