//! What every PHP worker is doing: on a CPU, or waiting in which call on whom.

use crate::proc::{Kept, children, read_once};
use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::waiting_on::{Doing, Peers, is_idle};
use kneepoint_model::metric::{WORKER_STARTS, WORKERS_BLOCKED, WORKERS_RUNNING, WORKERS_WAITING};
use kneepoint_model::{Layer, RunningTier};
use std::collections::BTreeMap;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "workers",
    about: "state of the FPM workers: running, or asleep in which call and on which tier",
    requirements: "FPM; root (CAP_SYS_PTRACE) to see calls and peers of another user's workers; Linux 5.6",
    overhead: "about 10 us a worker looked at, 10 workers twenty times a second; nothing runs in the workers",
    cadence: Duration::from_millis(50),
    metrics: &[
        WORKERS_RUNNING,
        WORKERS_WAITING,
        WORKERS_BLOCKED,
        WORKER_STARTS,
    ],
    lane: Lane::Fast,
    open: Open::Tier(|tier| {
        let fpm = tier.layer == Layer::Php && tier.server.as_str() == "fpm";
        fpm.then(|| Box::new(Workers::new(tier)) as Box<dyn Probe>)
    }),
};

/// Workers looked at in one tick; in larger pools they take turns and stand for the rest.
const AT_ONCE: usize = 10;
/// Ticks between two looks for new workers.
const REFRESH: u32 = 4;
/// Pools of FPM that serve no requests of the application: our own probe's, and the one FPM adds for
/// `pm.status_listen`.
pub const NOT_THE_APPLICATION: [&str; 2] = ["kneepoint-probe", "_status"];

struct Workers {
    master: u32,
    alive: Kept,
    peers: Peers,
    /// By PID: whether it is a worker of the application.
    pids: BTreeMap<u32, bool>,
    ticks: u32,
    starts: u64,
    turn: usize,
}

impl Workers {
    fn new(tier: &RunningTier) -> Self {
        Self {
            master: tier.pid,
            alive: Kept::new("stat"),
            peers: Peers::of(tier),
            pids: BTreeMap::new(),
            ticks: 0,
            starts: 0,
            turn: 0,
        }
    }

    /// Looks for new workers now and then, and returns those there are.
    fn refresh(&mut self) -> Result<Vec<u32>, Failure> {
        let tick = self.ticks;
        self.ticks = tick.wrapping_add(1);
        let gone = |why| Failure(format!("the FPM master is gone: {why}"));
        self.alive.read(self.master, &mut [0; 64]).map_err(gone)?;
        let look = tick.is_multiple_of(REFRESH);
        if look {
            self.find(tick == 0)?;
        }
        let ours = self.pids.iter().filter(|(_, ours)| **ours);
        let ours: Vec<u32> = ours.map(|(pid, _)| *pid).collect();
        if look {
            self.peers.retain(&ours);
        }
        Ok(ours)
    }

    fn find(&mut self, first: bool) -> Result<(), Failure> {
        let now = children(self.master)
            .map_err(|why| Failure(format!("the FPM master is gone: {why}")))?;
        let before = std::mem::take(&mut self.pids);
        for pid in now {
            let known = before.get(&pid).copied();
            let Some(ours) = known.or_else(|| application_worker(pid)) else {
                // A child carries its master's title for a moment after the fork: it is asked again.
                continue;
            };
            self.starts += u64::from(ours && known.is_none() && !first);
            self.pids.insert(pid, ours);
        }
        Ok(())
    }
}

impl Probe for Workers {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let pids = self.refresh()?;
        sink.push(WORKER_STARTS, self.starts as f64);
        let looks = AT_ONCE.min(pids.len());
        let start = self.turn;
        self.turn = (start + looks) % pids.len().max(1);
        let seen = pids
            .iter()
            .cycle()
            .skip(start)
            .take(looks)
            .map(|pid| self.peers.look(*pid));
        let tally = Tally::of(seen);
        let each = if tally.seen == 0 {
            0.0
        } else {
            pids.len() as f64 / tally.seen as f64
        };
        sink.push(WORKERS_RUNNING, tally.running as f64 * each);
        if let Some(share) = tally.blocked_share() {
            sink.push(WORKERS_BLOCKED, share);
        }
        let waiting = tally
            .waiting
            .into_iter()
            .map(|(label, count)| (label, count as f64 * each));
        sink.family(WORKERS_WAITING, waiting.collect());
        Ok(())
    }
}

/// How many of the workers looked at did what.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    seen: u32,
    running: u32,
    waiting: BTreeMap<String, u32>,
}

impl Tally {
    fn of(seen: impl Iterator<Item = Doing>) -> Self {
        let mut tally = Self::default();
        for doing in seen {
            match doing {
                Doing::Running => tally.running += 1,
                Doing::Waiting(label) => *tally.waiting.entry(label).or_default() += 1,
                Doing::Gone => continue,
            }
            tally.seen += 1;
        }
        tally
    }

    /// Asleep in a call as a share of the busy ones; `None` when none is busy.
    fn blocked_share(&self) -> Option<f64> {
        let blocked: u32 = self
            .waiting
            .iter()
            .filter(|(label, _)| !is_idle(label))
            .map(|(_, n)| n)
            .sum();
        let busy = blocked + self.running;
        (busy > 0).then(|| f64::from(blocked) / f64::from(busy))
    }
}

/// Whether a process is a worker of the application; `None` while it has no title of its own.
fn application_worker(pid: u32) -> Option<bool> {
    let mut buffer = [0; 256];
    let title = read_once(&format!("/proc/{pid}/cmdline"), &mut buffer).ok()?;
    pool_of(title).map(|pool| {
        !NOT_THE_APPLICATION
            .iter()
            .any(|other| pool.ends_with(other))
    })
}

/// The pool in the title of a worker: `php-fpm: pool www`.
fn pool_of(title: &[u8]) -> Option<&str> {
    let title = title.split(|b| *b == 0).next()?;
    Some(
        std::str::from_utf8(title)
            .ok()?
            .strip_prefix("php-fpm: pool ")?
            .trim_end(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn waiting(label: &str) -> Doing {
        Doing::Waiting(label.into())
    }

    #[test]
    fn only_workers_with_a_request_can_be_blocked() {
        let tally = Tally::of(
            [
                waiting("accept"),
                waiting("recv web"),
                waiting("recv cache"),
                Doing::Running,
                Doing::Gone,
                waiting("sleep"),
            ]
            .into_iter(),
        );
        assert_eq!((tally.seen, tally.running), (5, 1));
        assert_eq!(tally.blocked_share(), Some(2.0 / 3.0));
        assert_eq!(
            Tally::of([waiting("accept")].into_iter()).blocked_share(),
            None
        );
    }

    #[test]
    fn titles_name_the_pool() {
        assert_eq!(pool_of(b"php-fpm: pool www\0\0\0"), Some("www"));
        assert_eq!(
            pool_of(b"php-fpm: pool kneepoint-probe   "),
            Some("kneepoint-probe")
        );
        assert_eq!(
            pool_of(b"php-fpm: master process (/etc/php-fpm.conf)"),
            None
        );
    }

    proptest! {
        #[test]
        fn no_title_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            pool_of(&bytes);
        }
    }
}
