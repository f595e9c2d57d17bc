//! What every PHP worker is doing: on a CPU, or waiting in which call on whom.

mod tally;
mod which;

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::waiting_on::{Doing, Peers};
use kneepoint_linux::Kept;
use kneepoint_model::metric::{
    WORKER_STARTS, WORKERS, WORKERS_BLOCKED, WORKERS_BUSY, WORKERS_IDLE, WORKERS_PINNED,
    WORKERS_RUNNING, WORKERS_WAITING,
};
use kneepoint_model::{Endpoint, RunningTier, Workers as Kind};
use std::collections::BTreeMap;
use std::time::Duration;
pub(super) use tally::Tally;
use which::{application_worker, candidates};
pub(super) use which::{in_turn, is_titled};

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

/// What is said when the runtime does not run any more.
const GONE: &str = "the runtime's first process is gone";
/// Ticks between two looks for new workers.
const REFRESH: u32 = 4;
/// The pool of our own probe.
const PROBE: &str = "kneepoint-probe";
/// What FPM puts behind the name of a pool to name the one it adds for `pm.status_listen`.
const STATUS: &str = "_status";
/// How the names of pools of FPM end that serve no requests of the application.
pub const NOT_THE_APPLICATION: [&str; 2] = [PROBE, STATUS];

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
        let now = candidates(&self.kind, self.master);
        let now = now.map_err(|why| Failure(format!("{GONE}: {why}")))?;
        let before = std::mem::take(&mut self.pids);
        for pid in now.iter().copied() {
            let known = before.get(&pid).copied();
            let asked = || match &self.kind {
                Kind::FpmPool => application_worker(pid, &now),
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

impl Probe for Workers {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let pids = self.refresh()?;
        sink.push(WORKER_STARTS, self.starts as f64);
        let seen = in_turn(&pids, &mut self.turn);
        let seen = seen.map(|pid| named(&self.kind, self.peers.look(pid)));
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

#[cfg(test)]
mod tests {
    use super::which::AT_ONCE;
    use super::*;
    use std::fs;
    use std::sync::mpsc;
    use std::thread;

    /// Calls of `read` that the calling thread has made.
    fn reads() -> u64 {
        let io = fs::read("/proc/thread-self/io").expect("this thread");
        kneepoint_linux::file::keyed(&io, "syscr:").expect("a count")
    }

    #[test]
    fn of_a_hundred_workers_a_tick_looks_at_ten() {
        let mut ends = Vec::new();
        let workers: Vec<_> = (0..100)
            .map(|index| {
                let (end, wait) = mpsc::channel::<()>();
                ends.push(end);
                let name = format!("counted-{index}");
                let body = move || assert!(wait.recv().is_err(), "an end");
                thread::Builder::new()
                    .name(name)
                    .spawn(body)
                    .expect("a thread")
            })
            .collect();
        let tier = crate::source::tests::tier_without_doors(std::process::id());
        let kind = Kind::Threads {
            name: "counted-".to_owned(),
            idle: Vec::new(),
        };
        let mut probe = Workers::new(&tier, kind);
        let ticks = (0..2 * REFRESH).map(|_| {
            let before = reads();
            let mut sink = Sink::default();
            probe.sample(&mut sink).expect("workers");
            reads() - before
        });
        // A tick that looks for new workers reads all their names.
        let fewest = ticks.min().expect("ticks");
        drop(ends);
        workers
            .into_iter()
            .for_each(|it| it.join().expect("an end"));
        let looked = AT_ONCE as u64;
        assert!((looked..2 * looked).contains(&fewest), "{fewest}");
    }
}
