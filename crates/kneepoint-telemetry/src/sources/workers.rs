//! What every PHP worker is doing: on a CPU, or waiting in which call on whom.

mod tally;

use crate::proc::{Kept, children, read_once, threads};
use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::waiting_on::{Doing, Peers};
use kneepoint_model::metric::{
    WORKER_STARTS, WORKERS, WORKERS_BLOCKED, WORKERS_BUSY, WORKERS_IDLE, WORKERS_PINNED,
    WORKERS_RUNNING, WORKERS_WAITING,
};
use kneepoint_model::{Endpoint, RunningTier, Workers as Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;
use tally::Tally;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "workers",
    about: "state of the PHP workers: running, or asleep in which call and on which tier; how many are busy where the \
            runtime does not say so itself",
    requirements: "a runtime whose workers are processes or threads; root (CAP_SYS_PTRACE) to see calls and peers of another user's workers; Linux 5.6",
    overhead: "about 10 us a worker looked at, 10 workers twenty times a second; nothing runs in the workers",
    cadence: Duration::from_millis(50),
    metrics: &[
        WORKERS_RUNNING,
        WORKERS_WAITING,
        WORKERS_BLOCKED,
        WORKER_STARTS,
        WORKERS,
        WORKERS_BUSY,
        WORKERS_IDLE,
        WORKERS_PINNED,
    ],
    lane: Lane::Fast,
    open: Open::Tier(|tier| {
        let kind = tier.workers.clone()?;
        Some(Box::new(Workers::new(tier, kind)) as Box<dyn Probe>)
    }),
};

/// Workers looked at in one tick; in larger pools they take turns and stand for the rest.
const AT_ONCE: usize = 10;
/// What is said when the runtime does not run any more.
const GONE: &str = "the runtime's first process is gone";
/// Ticks between two looks for new workers.
const REFRESH: u32 = 4;
/// Pools of FPM that serve no requests of the application: our own probe's, and the one FPM adds for
/// `pm.status_listen`.
pub const NOT_THE_APPLICATION: [&str; 2] = ["kneepoint-probe", "_status"];

struct Workers {
    kind: Kind,
    /// Whether nobody else says how many are busy.
    counts: bool,
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
    fn new(tier: &RunningTier, kind: Kind) -> Self {
        let has_status = |endpoint: &Endpoint| matches!(endpoint, Endpoint::FpmStatus { .. });
        Self {
            kind,
            counts: !tier.endpoints.iter().any(has_status),
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
        let gone = |why| Failure(format!("{GONE}: {why}"));
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
        let now = self.candidates();
        let now = now.map_err(|why| Failure(format!("{GONE}: {why}")))?;
        let before = std::mem::take(&mut self.pids);
        for pid in now {
            let known = before.get(&pid).copied();
            let asked = || match &self.kind {
                Kind::FpmPool => application_worker(pid),
                Kind::Processes { title, .. } => Some(is_titled(pid, title)),
                // Only those are candidates.
                Kind::Threads { .. } => Some(true),
            };
            let Some(ours) = known.or_else(asked) else {
                // A child carries its master's title for a moment after the fork: it is asked again.
                continue;
            };
            self.starts += u64::from(ours && known.is_none() && !first);
            self.pids.insert(pid, ours);
        }
        Ok(())
    }
}

impl Workers {
    /// What may be a worker.
    fn candidates(&self) -> io::Result<Vec<u32>> {
        let mut found = match &self.kind {
            Kind::FpmPool | Kind::Processes { .. } => children(self.master)?,
            Kind::Threads { name, .. } => named_threads(self.master, name)?,
        };
        if matches!(self.kind, Kind::Processes { .. }) {
            // Some masters have a manager between them and the workers.
            let grandchildren = found
                .iter()
                .flat_map(|pid| children(*pid).unwrap_or_default());
            let grandchildren: Vec<u32> = grandchildren.collect();
            found.extend(grandchildren);
        }
        Ok(found)
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
            .map(|pid| named(&self.kind, self.peers.look(*pid)));
        let tally = Tally::of(seen);
        let each = if tally.seen == 0 {
            0.0
        } else {
            pids.len() as f64 / tally.seen as f64
        };
        sink.push(WORKERS_RUNNING, f64::from(tally.running) * each);
        if self.counts {
            // As FPM counts: a worker that a kept connection holds is not free.
            let pinned = f64::from(tally.pinned()) * each;
            let busy = f64::from(tally.busy()) * each + pinned;
            sink.push(WORKERS, pids.len() as f64);
            sink.push(WORKERS_BUSY, busy);
            sink.push(WORKERS_PINNED, pinned);
            sink.push(WORKERS_IDLE, pids.len() as f64 - busy);
        }
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

/// What a worker does, in the words of all runtimes: each waits for requests in a call of its own.
fn named(kind: &Kind, doing: Doing) -> Doing {
    match (kind, doing) {
        (Kind::Processes { idle, .. } | Kind::Threads { idle, .. }, Doing::Waiting(label))
            if idle.contains(&label) =>
        {
            Doing::Waiting("accept".to_owned())
        }
        (_, doing) => doing,
    }
}

/// Whether the title of a process begins so.
fn is_titled(pid: u32, title: &str) -> bool {
    let mut buffer = [0; 256];
    let found = read_once(&format!("/proc/{pid}/cmdline"), &mut buffer);
    found.is_ok_and(|found| found.starts_with(title.as_bytes()))
}

/// The threads of a process whose names are these words and a number. A thread that another starts inherits its name
/// for good where its program does not care (the Go runtime's own): the oldest of a name is meant.
fn named_threads(pid: u32, words: &str) -> io::Result<Vec<u32>> {
    let mut tids = threads(pid)?;
    tids.sort_unstable();
    let mut names = BTreeSet::new();
    let is_first = |tid: &u32| {
        let mut buffer = [0; 32];
        let name = read_once(&format!("/proc/{pid}/task/{tid}/comm"), &mut buffer);
        let number = name
            .ok()
            .and_then(|name| name.strip_prefix(words.as_bytes()));
        let number = number.map(|number| number.trim_ascii_end().to_vec());
        number.is_some_and(|number| {
            !number.is_empty() && number.iter().all(u8::is_ascii_digit) && names.insert(number)
        })
    };
    Ok(tids.into_iter().filter(is_first).collect())
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
