//! In which calls the worker processes of nginx sleep when they do not wait for events.

use super::workers::{Tally, in_turn, is_titled};
use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::waiting_on::{Doing, Peers};
use kneepoint_linux::process::children;
use kneepoint_model::RunningTier;
use kneepoint_model::metric::EVENT_LOOPS;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "event-loops",
    about: "calls in which the worker processes of nginx sleep instead of waiting for events: a full pipe, a file, a lock",
    requirements: "root (CAP_SYS_PTRACE) to see calls of another user's processes",
    overhead: "about 10 us a process looked at, 10 processes twenty times a second; nothing runs in the processes",
    cadence: Duration::from_millis(50),
    metrics: &[EVENT_LOOPS],
    lane: Lane::Fast,
    open: Open::Tier(|tier| {
        let is_nginx = tier.server.as_str() == "nginx";
        is_nginx.then(|| Box::new(EventLoops::new(tier)) as Box<dyn Probe>)
    }),
};

/// Ticks between two looks for new processes.
const REFRESH: u32 = 20;
/// How the title of a worker process begins; others keep the cache.
const TITLE: &str = "nginx: worker process";

struct EventLoops {
    master: u32,
    peers: Peers,
    pids: Vec<u32>,
    ticks: u32,
    turn: usize,
}

impl EventLoops {
    fn new(tier: &RunningTier) -> Self {
        Self {
            master: tier.pid,
            peers: Peers::of(tier),
            pids: Vec::new(),
            ticks: 0,
            turn: 0,
        }
    }

    fn refresh(&mut self) -> Result<(), Failure> {
        let tick = self.ticks;
        self.ticks = tick.wrapping_add(1);
        if !tick.is_multiple_of(REFRESH) {
            return Ok(());
        }
        let gone = |why| Failure(format!("the first process of nginx is gone: {why}"));
        self.pids = children(self.master).map_err(gone)?;
        self.pids.retain(|pid| is_titled(*pid, TITLE));
        self.peers.retain(&self.pids);
        Ok(())
    }
}

impl Probe for EventLoops {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        self.refresh()?;
        let seen = in_turn(&self.pids, &mut self.turn);
        let seen = seen.map(|pid| self.peers.look(pid));
        sink.family(EVENT_LOOPS, shares(seen));
        Ok(())
    }
}

/// The share of the processes in each call.
fn shares(seen: impl Iterator<Item = Doing>) -> Vec<(String, f64)> {
    let tally = Tally::of(seen);
    let share = |(label, count)| (label, f64::from(count) / f64::from(tally.seen));
    tally.waiting.into_iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_is_in_no_call_and_one_that_is_gone_is_none() {
        let waiting = |label: &str| Doing::Waiting(label.to_owned());
        let seen = [
            waiting("epoll"),
            waiting("send pipe"),
            Doing::Running,
            waiting("send pipe"),
            Doing::Gone,
        ];
        let expected = [("epoll", 0.25), ("send pipe", 0.5)];
        let expected = expected.map(|(label, share)| (label.to_owned(), share));
        assert_eq!(shares(seen.into_iter()), expected);
        assert!(shares([Doing::Gone].into_iter()).is_empty());
    }
}
