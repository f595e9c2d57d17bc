//! What one look of the watch tells.

use crate::report::texts::texts;
use crate::rule::{CheckFinding, Severity};
use crate::snapshot::ServiceKind;

/// The stack at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moment {
    /// When, in seconds since 1970.
    pub at_s: f64,
    /// Every pool of PHP-FPM, in the order of its services.
    pub pools: Vec<PoolMoment>,
    /// Every service.
    pub services: Vec<ServiceMoment>,
    /// Every access log that is followed.
    pub traffic: Vec<TrafficMoment>,
    /// What is wrong now, worst first, and behind it what was wrong a minute ago.
    pub findings: Vec<Watched>,
    /// How many things could not be seen; `kneepoint check` tells which.
    pub blind: usize,
    /// What the watch costs.
    pub cost: OwnCost,
}

texts! {
    Moment { pools, services, traffic, findings; at_s, blind, cost }
    PoolMoment { service, pool, waits; pid, limit, busy, idle, queue }
    ServiceMoment { name; kind, cpu_s, cores, queue }
    TrafficMoment {
        path, service, blind; rate_hz, failed_share, p95_s, requests, in_flight
    }
    Watched { finding; since_s, gone_s }
}

/// A pool of PHP-FPM at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PoolMoment {
    /// The service it belongs to.
    pub service: String,
    /// First process of that service.
    pub pid: u32,
    /// Its name.
    pub pool: String,
    /// Most workers it may have.
    pub limit: Option<u64>,
    /// Workers with a request.
    pub busy: u64,
    /// Workers without one.
    pub idle: u64,
    /// Connections that wait to be accepted, and how many fit.
    pub queue: Option<(u64, u64)>,
    /// What busy workers do, most first: `running`, or the call and the peer as in `recv mysql`.
    pub waits: Vec<(String, u64)>,
}

impl PoolMoment {
    /// What its busy workers do, for people: `mysql 3, computing 1`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let words = self.waits.iter().map(|(label, count)| {
            let what = match label.split_once(' ') {
                Some(("recv", peer)) => peer.to_owned(),
                Some(("connect", peer)) => format!("connecting to {peer}"),
                Some(("send", peer)) => format!("sending to {peer}"),
                _ if label == RUNNING => "computing".to_owned(),
                _ => label.clone(),
            };
            format!("{what} {count}")
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// Share of the workers it may have that are busy.
    #[must_use]
    pub fn busy_share(&self) -> f64 {
        let of = self.limit.unwrap_or(self.busy + self.idle).max(1);
        self.busy as f64 / of as f64
    }
}

/// The label of a worker that is on a core, or ready to run.
pub(super) const RUNNING: &str = "running";

/// A service at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceMoment {
    /// Its name.
    pub name: String,
    /// What program.
    pub kind: ServiceKind,
    /// CPU time of its processes since the watch began, in seconds.
    pub cpu_s: f64,
    /// Cores it used since the look before; `None` at the first.
    pub cores: Option<f64>,
    /// Connections that wait to be accepted by all its listeners, and how many fit.
    pub queue: Option<(u64, u64)>,
}

/// What an access log says of the last seconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrafficMoment {
    /// The log, as its service sees the path.
    pub path: String,
    /// The service that writes it.
    pub service: String,
    /// Lines a second over the last ten seconds; `None` before there were any to count from.
    pub rate_hz: Option<f64>,
    /// The share of them that failed with a status of 500 or more.
    pub failed_share: Option<f64>,
    /// The 95th percentile of their times, in seconds; `None` where the log has no times.
    pub p95_s: Option<f64>,
    /// Lines since the watch began.
    pub requests: u64,
    /// Requests of its service that are in pools of PHP-FPM now: a log tells of them when they are finished.
    pub in_flight: u64,
    /// Why it is not followed.
    pub blind: Option<String>,
}

/// A finding, and how long it has been so.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// What the rule says.
    pub finding: CheckFinding,
    /// Since when it was seen, in seconds since 1970.
    pub since_s: f64,
    /// When it was no longer so.
    pub gone_s: Option<f64>,
}

/// What the watch itself costs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct OwnCost {
    /// CPU time of the look at everything with which it began, in seconds.
    pub first_cpu_s: f64,
    /// How long it has watched since, in seconds.
    pub watched_s: f64,
    /// CPU time it took since, in seconds.
    pub cpu_s: f64,
    /// Time between two looks at the workers, in seconds.
    pub every_s: f64,
    /// How long the last of them took, in seconds.
    pub look_s: f64,
    /// How long the last look at everything took, in seconds.
    pub full_look_s: f64,
    /// How long ago that began, in seconds.
    pub full_look_age_s: f64,
}

impl TrafficMoment {
    /// Whether nothing was finished in the last seconds, though requests are under way.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.rate_hz == Some(0.0) && self.in_flight > 0 && self.blind.is_none()
    }
}

impl OwnCost {
    /// The share of one core it takes; the looks with which it began are not in it. `None` as long as there is too little
    /// to tell a share from.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        /// Seconds \[ours\]: less is one look, and no pause after it.
        const LEAST_S: f64 = 1.0;
        (self.watched_s >= LEAST_S).then(|| self.cpu_s / self.watched_s)
    }
}

impl Moment {
    /// Workers that are busy, and how many there are.
    #[must_use]
    pub fn workers(&self) -> (u64, u64) {
        let busy = self.pools.iter().map(|pool| pool.busy).sum();
        let idle: u64 = self.pools.iter().map(|pool| pool.idle).sum();
        (busy, busy + idle)
    }

    /// Connections that wait to be accepted by pools.
    #[must_use]
    pub fn queued(&self) -> u64 {
        let queues = self.pools.iter().filter_map(|pool| pool.queue);
        queues.map(|(length, _)| length).sum()
    }

    /// How many findings there are now of a severity.
    #[must_use]
    pub fn count(&self, severity: Severity) -> usize {
        let now = self.findings.iter().filter(|one| one.gone_s.is_none());
        now.filter(|one| one.finding.severity == severity).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_in_words() {
        let label = |text: &str, count| (text.to_owned(), count);
        let pool = PoolMoment {
            busy: 7,
            limit: Some(14),
            waits: vec![
                label("recv mysql", 3),
                label("connect 10.0.0.4:6379", 2),
                label(RUNNING, 1),
                label("sleep", 1),
            ],
            ..PoolMoment::default()
        };
        assert_eq!(
            pool.in_words(),
            "mysql 3, connecting to 10.0.0.4:6379 2, computing 1, sleep 1"
        );
        assert_eq!(pool.busy_share(), 0.5);
        let moment = Moment {
            pools: vec![pool],
            ..Moment::default()
        };
        assert_eq!((moment.workers(), moment.queued()), ((7, 7), 0));
    }
}
