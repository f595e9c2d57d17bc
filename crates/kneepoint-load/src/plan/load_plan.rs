//! What to send, where to, how fast, and when to give up.

use crate::plan::error::LoadError;
use crate::plan::limits;
use crate::plan::share::{Numbers, Share};
use crate::plan::stop::StopWhen;
use crate::plan::target::Target;
use kneepoint_model::{
    AbortRule, Arrivals, ClosedLoop, FirstArrival, LatencyHistogram, OutcomeCounts, Schedule,
    Second, Slo, Workload, check_workload, variables,
};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Who decides when a request starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The schedule decides, however slow the server is.
    Open {
        /// The offered rate over time.
        schedule: Schedule,
        /// How arrivals are spread within the rate.
        arrivals: Arrivals,
    },
    /// Each worker starts its next request when its last one has ended.
    Closed(ClosedLoop),
}

impl Mode {
    /// How long new requests start, at most: a closed loop may have made all of its requests earlier.
    #[must_use]
    pub fn duration(&self) -> Duration {
        match self {
            Self::Open { schedule, .. } => schedule.duration(),
            Self::Closed(closed) => closed.duration,
        }
    }

    /// The highest rate that a schedule offers, per second; `None` where the answers decide.
    #[must_use]
    pub fn highest_hz(&self) -> Option<f64> {
        let Self::Open { schedule, .. } = self else {
            return None;
        };
        // A segment is a line: it is highest at one of its ends.
        let ends = schedule.segments.iter().flat_map(|s| [s.from_hz, s.to_hz]);
        Some(ends.fold(0.0, f64::max))
    }
}

/// One stretch of load.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPlan {
    /// Where to.
    pub target: Target,
    /// What.
    pub workload: Workload,
    /// When.
    pub mode: Mode,
    /// Whether each request of a schedule leaves at its own moment. Without, arrivals within a millisecond of one another
    /// leave together, some of them that much before their time, which costs far less CPU; a response time is then
    /// measured from when the request left. HTTP/2 is exact either way.
    pub exact_starts: bool,
    /// Where the first of evenly spaced arrivals of a schedule lies; other modes do not ask.
    pub first: FirstArrival,
    /// The timeout, and the response time that counts as good.
    pub slo: Slo,
    /// Threads that send; connections and users are divided among them.
    pub threads: usize,
    /// Most connections open at once, over all threads. Beyond, arrivals wait with their intended start kept; in
    /// HTTP/2 they share connections first, as far as the server allows. Otherwise a closed loop has at least one for
    /// each worker.
    pub max_connections: usize,
    /// How much of the start is left out of the window that is reported.
    pub skip: Duration,
    /// The network namespace to send from (`/run/netns/NAME` or `/proc/PID/ns/net`).
    pub netns: Option<PathBuf>,
    /// When to end early; `None` never does.
    pub abort: Option<AbortRule>,
    /// What else ends the load early, judged second by second; `None` is nothing.
    pub stop_when: Option<StopWhen>,
    /// Addresses of this host that new connections come from, in turn: each has its own local ports. None leaves the
    /// choice to the system. TCP only, and of the target's family.
    pub source_addresses: Vec<IpAddr>,
    /// How many of the slowest requests are named, by their [`REQUEST_ID`](crate::REQUEST_ID): a request that is to be
    /// known by it elsewhere must carry it.
    pub slowest: usize,
    /// Seed of the mixture. (The seed of Poisson arrivals is theirs.)
    pub seed: u64,
    /// What this generator reached against a null server, per second (see [`crate::ceiling`]).
    pub ceiling_hz: Option<f64>,
    /// Which part of the load is this generator's, where several drive it; `None` is all of it. Threads and connections are
    /// this generator's own either way, all else that the plan says is the whole load's.
    pub share: Option<Share>,
}

impl LoadPlan {
    /// A plan with one thread, 256 connections, nothing skipped or named, and no abort.
    #[must_use]
    pub fn new(target: Target, workload: Workload, mode: Mode) -> Self {
        Self {
            target,
            workload,
            mode,
            exact_starts: false,
            first: FirstArrival::AtStart,
            slo: Slo::default(),
            threads: 1,
            max_connections: 256,
            skip: Duration::ZERO,
            netns: None,
            abort: None,
            stop_when: None,
            source_addresses: Vec::new(),
            slowest: 0,
            seed: 1,
            ceiling_hz: None,
            share: None,
        }
    }

    /// The hosts that its requests name, with their ports and each once: those of their `Host` headers, and the target's
    /// where a request has none. Which site is loaded is for the request to say, and not for the target's address.
    ///
    /// # Errors
    /// A `Host` header holds a variable: nobody can tell which host it names.
    pub fn hosts(&self) -> Result<Vec<&str>, LoadError> {
        let mut hosts: Vec<&str> = Vec::new();
        for request in &self.workload.requests {
            let own = request.headers.iter();
            let own = own.filter(|(name, _)| name.trim().eq_ignore_ascii_case("host"));
            let mut own: Vec<&str> = own.map(|(_, value)| value.trim()).collect();
            if own.is_empty() {
                own.push(self.target.host());
            }
            for host in own {
                let mut pieces = variables::pieces(host);
                if pieces.any(|piece| matches!(piece, variables::Piece::Variable(_))) {
                    return Err(LoadError::Plan {
                        problem: format!(
                            "the header `Host: {host}` holds a variable, so that nobody can tell which host is loaded; \
                             write the host itself"
                        ),
                    });
                }
                if !hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
                    hosts.push(host);
                }
            }
        }
        Ok(hosts)
    }

    /// The numbers that belong to a thread.
    pub(crate) fn numbers(&self, thread: usize) -> Numbers {
        Numbers::of_thread(self.share.as_ref(), thread, self.threads)
    }

    /// Which part of the whole load this generator drives.
    pub(crate) fn fraction(&self) -> f64 {
        self.share.as_ref().map_or(1.0, Share::fraction)
    }

    /// How many of so many things of the whole load are this generator's.
    pub(crate) fn own(&self, all: u64) -> u64 {
        self.share
            .as_ref()
            .map_or(all, |share| share.count_below(all))
    }

    /// The highest rate of requests per second. `None` where the answers decide it: in closed loops and in visits.
    #[must_use]
    pub fn highest_hz(&self) -> Option<f64> {
        let visits = self.workload.sessions.is_some();
        self.mode.highest_hz().filter(|_| !visits)
    }

    /// How many users take turns at the requests that keep cookies or values. `None` where no request does, and where
    /// visits bring users of their own.
    #[must_use]
    pub fn users(&self) -> Option<u32> {
        let mut requests = self.workload.requests.iter();
        let kept = requests.any(|request| request.session || !request.captures.is_empty());
        (kept && self.workload.sessions.is_none()).then_some(self.workload.users)
    }

    /// Refuses what cannot be sent, and numbers beyond what anybody means. It costs little, whatever the numbers are.
    ///
    /// # Errors
    /// What is asked for that cannot be, and what to do instead.
    pub fn check(&self) -> Result<(), LoadError> {
        let wrong = |problem: String| Err(LoadError::Plan { problem });
        if self.threads == 0 || self.threads > 256 {
            return wrong(format!(
                "{} threads; use 1 to 256, one is enough below some 20 000 requests a second",
                self.threads
            ));
        }
        if let Some(share) = &self.share
            && share.slots().len() < self.threads
        {
            return wrong(format!(
                "{} threads for a share of {} slots; use no more threads than slots",
                self.threads,
                share.slots().len()
            ));
        }
        if self.max_connections < self.threads {
            return wrong(format!(
                "{} connections for {} threads; allow at least one per thread",
                self.max_connections, self.threads
            ));
        }
        limits::check_connections(self.max_connections)?;
        limits::check_count("users", self.workload.users.into())?;
        if let Some(all) = self.users()
            && self.own(all.into()) < self.threads as u64
        {
            return wrong(format!(
                "fewer users ({}) than threads ({}); use no more threads than users, or more users",
                self.own(all.into()),
                self.threads
            ));
        }
        limits::check_slowest(self.slowest)?;
        limits::check_time("a start that is left out", self.skip)?;
        limits::check_slo(&self.slo)?;
        match &self.mode {
            Mode::Open { schedule, .. } => limits::check_schedule(schedule)?,
            Mode::Closed(closed) => limits::check_closed_loop(closed)?,
        }
        limits::check_sources(&self.source_addresses, self.target.address())?;
        limits::check_lines(&self.workload, &self.target)?;
        check_workload(&self.workload)?;
        limits::check_sessions(&self.workload)
    }
}

/// How the load is doing, over about the last second.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Progress {
    /// Time since the load began.
    pub elapsed: Duration,
    /// How long new requests start in all.
    pub total: Duration,
    /// Arrivals per second.
    pub rate_hz: f64,
    /// Responses that met the SLO's response time, per second.
    pub goodput_hz: f64,
    /// Median response time of `Ok` requests in ms.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the same.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the same.
    pub p99_ms: Option<f64>,
    /// How the requests that ended in the last second ended.
    pub recent: OutcomeCounts,
    /// Arrivals since the load began.
    pub arrivals: u64,
    /// Requests that have ended since the load began, in whatever way.
    pub ended: u64,
    /// Requests that ended `Ok`, per second.
    pub ok_hz: f64,
    /// How all requests that have ended since the load began ended.
    pub outcomes: OutcomeCounts,
    /// Connections that are open, being opened, or closing.
    pub connections_open: u64,
    /// Arrivals that wait for a connection.
    pub backlog: u64,
    /// The seconds that were completed since progress was last told, in order: those whose every request has ended.
    /// Each second of a load is told once.
    pub completed: Vec<Second>,
    /// Beside each of `completed`, the response times of its `Ok` requests; `None` where none ended so.
    pub completed_response: Vec<Option<Box<LatencyHistogram>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Address, Sessions};

    #[test]
    fn no_thread_is_without_a_user() {
        let mode = Mode::Open {
            schedule: "const(1,1)".parse().expect("a schedule"),
            arrivals: Arrivals::Even,
        };
        let target = Target::http(Address::Unix("/x".into()), "x");
        let mut plan = LoadPlan::new(target, Workload::single("/"), mode);
        let said = |plan: &LoadPlan| plan.check().map_err(|refused| refused.to_string());
        plan.threads = 2;
        plan.workload.users = 1;
        assert_eq!(said(&plan), Ok(()), "no request keeps anything");
        plan.workload.requests[0].session = true;
        let refused = said(&plan).expect_err("one user for two threads");
        assert!(
            refused.contains("fewer users (1) than threads (2)"),
            "{refused}"
        );
        plan.workload.users = 2;
        assert_eq!(said(&plan), Ok(()));
        plan.share = Share::new(vec![0, 2, 3], 4);
        let refused = said(&plan).expect_err("the other user is somebody else's");
        assert!(refused.contains("fewer users (1)"), "{refused}");
        plan.workload.sessions = Some(Sessions {
            lengths: vec![(1, 1.0)],
            ..Sessions::default()
        });
        assert_eq!(said(&plan), Ok(()), "each visit has a user of its own");
    }
}
