//! What a stretch of load measured, and whether the generator can be believed.

mod abort_rule;
pub mod histogram;
mod visits;

pub use abort_rule::AbortRule;

use crate::{LatencyHistogram, Slo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How one request ended. Every arrival of the schedule ends in exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// A response that met its expectations (in time or not: that is the SLO's business).
    Ok,
    /// A response with an unexpected status.
    HttpError,
    /// A response with the right status and a header or body that fails its expectation (GEN-04), or without a value
    /// that is to be captured.
    WrongBody,
    /// Not complete when its timeout ended it, counted from the intended start.
    Timeout,
    /// Still waiting for a connection when the load ended or its timeout came: never sent.
    Unsent,
    /// The connection was refused, or the backlog of a Unix socket was full.
    Refused,
    /// Reset or closed before the first byte of a response.
    Reset,
    /// Closed in the middle of a response.
    Truncated,
    /// The generator had no local port left (EADDRNOTAVAIL): its own limit, not the server's.
    NoLocalPort,
    /// Something that is not the protocol.
    Protocol,
    /// The TLS handshake failed or an alert ended the connection: a certificate that is not trusted, no common
    /// version.
    Tls,
    /// Never sent: a value it needs was not captured, or cannot stand where it is needed.
    NoValue,
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 12] = [
        Self::Ok,
        Self::HttpError,
        Self::WrongBody,
        Self::Timeout,
        Self::Unsent,
        Self::Refused,
        Self::Reset,
        Self::Truncated,
        Self::NoLocalPort,
        Self::Protocol,
        Self::Tls,
        Self::NoValue,
    ];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::HttpError => "http error",
            Self::WrongBody => "wrong body",
            Self::Timeout => "timeout",
            Self::Unsent => "unsent",
            Self::Refused => "refused",
            Self::Reset => "reset",
            Self::Truncated => "truncated",
            Self::NoLocalPort => "no local port",
            Self::Protocol => "protocol error",
            Self::Tls => "tls error",
            Self::NoValue => "no value",
        }
    }
}

/// How many requests ended how.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OutcomeCounts {
    /// Count by outcome; an outcome that did not occur may be absent.
    pub by_outcome: BTreeMap<Outcome, u64>,
    /// Responses by HTTP status (the FastCGI `Status` header where there is no nginx).
    pub by_status: BTreeMap<u16, u64>,
}

impl OutcomeCounts {
    /// Requests that ended so.
    #[must_use]
    pub fn of(&self, outcome: Outcome) -> u64 {
        self.by_outcome.get(&outcome).copied().unwrap_or(0)
    }

    /// All requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.by_outcome.values().sum()
    }

    /// Requests that did not end `Ok`.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.total() - self.of(Outcome::Ok)
    }

    /// Adds all of another count.
    pub fn merge(&mut self, other: &Self) {
        for (outcome, count) in &other.by_outcome {
            *self.by_outcome.entry(*outcome).or_default() += count;
        }
        for (status, count) in &other.by_status {
            *self.by_status.entry(*status).or_default() += count;
        }
    }
}

/// One second of a stretch of load, by intended start.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Second {
    /// Seconds since the load began, at this second's start.
    pub at_s: f64,
    /// Arrivals the schedule put into this second.
    pub offered: u64,
    /// How they ended.
    pub outcomes: OutcomeCounts,
    /// Of them, good within the SLO's response time.
    pub good: u64,
    /// Median response time of the `Ok` ones in ms.
    pub p50_ms: Option<f64>,
    /// 90th percentile of the response time of the `Ok` ones in ms.
    pub p90_ms: Option<f64>,
    /// 95th percentile of the response time of the `Ok` ones in ms.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the response time of the `Ok` ones in ms.
    pub p99_ms: Option<f64>,
    /// Largest response time of the `Ok` ones in ms.
    pub max_ms: Option<f64>,
}

/// The generator's evidence about itself (load-engine.md section 3.8; method.md section 6).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Health {
    /// Arrivals sent in time as a share of those the schedule asked for.
    pub achieved_share: f64,
    /// Median of (sent or queued at the engine) minus intended, in ms: how late the generator itself was.
    pub send_lag_p50_ms: f64,
    /// 99th percentile of the same.
    pub send_lag_p99_ms: f64,
    /// Most arrivals that waited for a connection at any moment.
    pub backlog_max: u64,
    /// The generator's CPU time as a share of one core, over the window.
    pub cpu_share: f64,
    /// Requests per second this generator reached against a null server before the run; `None` when not measured.
    pub ceiling_hz: Option<f64>,
    /// Steal time of the machine over the window, as a share of all cores.
    pub steal_share: Option<f64>,
    /// CPU time of programs that are neither the stack's nor this one, as a share of all cores; `None` where nobody
    /// looked. It never makes a step invalid: whoever judges the step weighs it.
    #[serde(default)]
    pub foreign_share: Option<f64>,
    /// The same in the second in which it was most; `None` where nobody looked that often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_peak_share: Option<f64>,
    /// CPU time in which a core had nothing to run, as a share of all cores; `None` where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_share: Option<f64>,
}

impl Health {
    /// Share of the machine's CPU below which what others used of it is not worth a word: a kernel and the usual services
    /// of a machine of two cores take up to half of it.
    pub const QUIET: f64 = 0.05;
    /// The most of the machine that others are taken to have kept from the stack: with more, what is left says little.
    const MOST_KEPT: f64 = 0.9;
    /// What a single second may be counted wrong by, CPU time being told in ticks of 10 ms for each core and kind: the most
    /// that others used in one of some seconds lies above their mean by as much without anybody's doing.
    const PEAK_ERROR: f64 = 0.05;

    /// Share of the machine's CPU time that others did not use and its host did not keep: what there was for the stack, the
    /// generator and idling. 1 where nobody looked.
    #[must_use]
    pub fn available_share(&self) -> f64 {
        self.left_by(self.foreign_share.unwrap_or(0.0))
    }

    /// The same in the second in which others used most, where somebody looked that often: a twentieth of the requests of a
    /// step may be late, and one crowded second makes more of them late than that. It says at which rate the SLO holds, as
    /// [`Self::available_share`] says how much is served.
    #[must_use]
    pub fn available_at_worst(&self) -> f64 {
        let mean = self.foreign_share.unwrap_or(0.0);
        let peak = self
            .foreign_peak_share
            .filter(|peak| *peak > mean + Self::PEAK_ERROR);
        self.left_by(peak.unwrap_or(mean))
    }

    fn left_by(&self, others: f64) -> f64 {
        let kept = others + self.steal_share.unwrap_or(0.0);
        1.0 - kept.clamp(0.0, Self::MOST_KEPT)
    }
}

/// Whether a number may be used.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "verdict")]
pub enum Validity {
    /// Every gate held.
    #[default]
    Valid,
    /// A gate did not hold: the step is invalid, never slow.
    Invalid {
        /// Which gates, with the numbers and what to do, a sentence each.
        because: Vec<String>,
    },
}

impl Validity {
    /// True when every gate held.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        matches!(self, Self::Valid)
    }
}

/// What became of the visits that began in the window ([`crate::Sessions`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SessionCounts {
    /// Visits that began: their first request's intended start is in the window.
    pub started: u64,
    /// Of them, those whose every request ended `Ok`.
    pub completed: u64,
    /// Of them, those that ended early because a request failed.
    pub broken_off: u64,
}

impl SessionCounts {
    /// Visits that were still under way when the load ended.
    #[must_use]
    pub fn unfinished(&self) -> u64 {
        self.started
            .saturating_sub(self.completed + self.broken_off)
    }

    /// Adds all of another count.
    pub fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.completed += other.completed;
        self.broken_off += other.broken_off;
    }
}

/// One of several generators that drove a load together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GeneratorPart {
    /// Its name.
    pub name: String,
    /// Its part of the load, from 0 to 1.
    pub share: f64,
    /// Its arrivals in the window, as far as they are known.
    pub arrivals: u64,
    /// How far its start can lie from that of another, in ms, by what is known of their clocks.
    pub start_within_ms: f64,
    /// What it says of itself. Of one that was lost, only how much of its share is known to have been driven.
    pub health: Health,
    /// Why its part is not what it was to be, as a sentence; `None` where it is.
    pub said: Option<String>,
}

/// A request by its name, as it was sent in `X-Request-Id`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SlowRequest {
    /// The name, unique within the load.
    pub id: String,
    /// Its response time in ms; of one that timed out, at least the timeout.
    pub response_ms: f64,
}

/// A stretch of load at one offered rate with everything needed to judge it. Times are response times from
/// the intended start unless they say service.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LoadPoint {
    /// Offered rate by schedule, mean over the window, per second. In a closed loop, and where visitors make several
    /// requests each, what was offered is decided while the load runs: the requests of the window, per second.
    pub offered_hz: f64,
    /// Closed-loop workers; `None` for an open loop.
    pub closed_workers: Option<u32>,
    /// Length of the window in seconds (after what was skipped at the start).
    pub window_s: f64,
    /// Arrivals in the window; every one of them is in `outcomes`.
    pub arrivals: u64,
    /// How they ended.
    pub outcomes: OutcomeCounts,
    /// Arrivals that were `Ok` within the SLO's response time.
    pub good: u64,
    /// Response times of `Ok` requests (from the intended start).
    pub response: LatencyHistogram,
    /// Service times of `Ok` requests (from the send).
    pub service: LatencyHistogram,
    /// Response times of requests that failed (a timeout counts with at least its timeout).
    pub failed_response: LatencyHistogram,
    /// Connections the generator opened in the window.
    pub connections_opened: u64,
    /// Requests that went out once more on a new connection: their kept one had been closed without a byte of an answer.
    #[serde(default)]
    pub sent_again: u64,
    /// Bytes of responses, as on the wire.
    pub bytes_received: u64,
    /// Per second of intended start.
    pub seconds: Vec<Second>,
    /// CPU time in ms that the stack's processes took for each request that ended `Ok`, over the whole step; `None` where
    /// nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// The slowest requests of the window that were named, slowest first; empty where none was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<SlowRequest>,
    /// What the generator says of itself: of several, sums, and of what cannot be added the worst.
    pub health: Health,
    /// Each of several generators; empty where there was one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorPart>,
    /// Whether the step counts.
    pub validity: Validity,
    /// A few examples of what went wrong: first bytes of wrong responses, system errors, FastCGI stderr.
    pub examples: Vec<String>,
    /// What the plan left unchecked and a reader must know of, a sentence each: certificates that were not verified.
    #[serde(default)]
    pub doubts: Vec<String>,
    /// True when the step was ended early because it was hopeless.
    pub aborted: bool,
    /// What became of the visits; `None` where every request stands for itself.
    #[serde(default)]
    pub sessions: Option<SessionCounts>,
    /// Visits that were to begin by the schedule, mean over the window, per second; `None` in a closed loop, where every
    /// request stands for itself, and in runs of versions that did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visits_offered_hz: Option<f64>,
    /// Why a stop rule ended the load early, as a sentence; `None` when none did.
    #[serde(default)]
    pub stopped_because: Option<String>,
}

impl LoadPoint {
    /// Requests that met the SLO's response time, per second.
    #[must_use]
    pub fn goodput_hz(&self) -> f64 {
        if self.window_s > 0.0 {
            self.good as f64 / self.window_s
        } else {
            0.0
        }
    }

    /// Requests that ended `Ok`, per second.
    #[must_use]
    pub fn throughput_hz(&self) -> f64 {
        if self.window_s > 0.0 {
            self.outcomes.of(Outcome::Ok) as f64 / self.window_s
        } else {
            0.0
        }
    }

    /// Bytes of a response that ended `Ok`, on average; those of others count as their part. `None` where none did.
    #[must_use]
    pub fn response_bytes(&self) -> Option<f64> {
        let served = self.outcomes.of(Outcome::Ok);
        (served > 0 && self.bytes_received > 0).then(|| self.bytes_received as f64 / served as f64)
    }

    /// Requests that ended `Ok`, those of what is skipped at the start among them.
    #[must_use]
    pub fn served_in_all(&self) -> u64 {
        let of_second = |second: &Second| second.outcomes.of(Outcome::Ok);
        self.seconds.iter().map(of_second).sum()
    }

    /// Arrivals that violated the SLO's response time or failed.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.arrivals.saturating_sub(self.good)
    }

    /// Those of them that failed before the SLO's response time was over: they were refused, and not late.
    #[must_use]
    pub fn refused(&self, slo: &Slo) -> u64 {
        let goal_us = slo.response_time.as_micros() as u64;
        let failed = &self.failed_response;
        failed.count() - failed.count_above_us(goal_us)
    }

    /// The violating share F (method.md section 1); 0 without arrivals.
    #[must_use]
    pub fn violating_share(&self) -> f64 {
        if self.arrivals == 0 {
            0.0
        } else {
            self.violations() as f64 / self.arrivals as f64
        }
    }

    /// Share of arrivals that failed; 0 without arrivals.
    #[must_use]
    pub fn error_share(&self) -> f64 {
        if self.arrivals == 0 {
            0.0
        } else {
            self.outcomes.failed() as f64 / self.arrivals as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Health;

    #[test]
    fn there_is_of_the_machine_what_others_and_its_host_left() {
        let health = Health {
            foreign_share: Some(0.2),
            steal_share: Some(0.05),
            foreign_peak_share: Some(0.5),
            ..Health::default()
        };
        assert!((health.available_share() - 0.75).abs() < 1e-9);
        assert!((health.available_at_worst() - 0.45).abs() < 1e-9);
        // What a second is counted wrong by is nobody's doing.
        let even = Health {
            foreign_peak_share: Some(0.24),
            ..health
        };
        assert!((even.available_at_worst() - 0.75).abs() < 1e-9);
        assert!((Health::default().available_at_worst() - 1.0).abs() < 1e-9);
    }
}
