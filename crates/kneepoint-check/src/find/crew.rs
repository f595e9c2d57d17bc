//! Services are looked at side by side, a few at a time. One that hangs in a file system of its container does not keep
//! the others waiting: its thread stays behind, and another takes its place.

use super::Master;
use super::gather::{Gathered, gather};
use crate::files::abreast::{AT_ONCE, THREADS, Until};
use crate::snapshot::ServiceKind;
use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// Looks at services.
pub(super) struct Crew {
    now_s: f64,
    deadline: Instant,
    patience: Duration,
    waiting: VecDeque<Master>,
    running: HashMap<u32, (ServiceKind, Instant)>,
    work: fn(&Master, f64) -> Gathered,
    send: Sender<(u32, Gathered)>,
    receive: Receiver<(u32, Gathered)>,
}

impl Crew {
    pub(super) fn new(now_s: f64, until: Until) -> Self {
        let (send, receive) = channel();
        Self {
            now_s,
            deadline: until.deadline,
            patience: until.patience,
            waiting: VecDeque::new(),
            running: HashMap::new(),
            work: gather,
            send,
            receive,
        }
    }

    /// Has a service looked at.
    pub(super) fn look_at(&mut self, master: Master) {
        self.waiting.push_back(master);
    }

    /// The next of which something is known; `None` when there is none, or no time.
    pub(super) fn next(&mut self) -> Option<(ServiceKind, u32, Gathered)> {
        loop {
            self.begin();
            if self.running.is_empty() {
                return None;
            }
            let now = Instant::now();
            let left = self.deadline.saturating_duration_since(now);
            let wait = match self.waiting.is_empty() {
                true => left,
                false => left.min(self.patience.max(Duration::from_millis(1))),
            };
            if let Ok((pid, gathered)) = self.receive.recv_timeout(wait) {
                if let Some((kind, _)) = self.running.remove(&pid) {
                    return Some((kind, pid, gathered));
                }
            } else if left.is_zero() {
                return None;
            }
        }
    }

    /// Begins with as many as may be looked at at once.
    fn begin(&mut self) {
        let is_quick = |since: &Instant| since.elapsed() < self.patience;
        let mut quick = self
            .running
            .values()
            .filter(|(_, since)| is_quick(since))
            .count();
        while quick < AT_ONCE && self.running.len() < THREADS && Instant::now() < self.deadline {
            let Some(master) = self.waiting.pop_front() else {
                return;
            };
            quick += 1;
            let known = (master.kind, Instant::now());
            self.running.insert(master.process.pid, known);
            let (send, work, now_s) = (self.send.clone(), self.work, self.now_s);
            std::thread::spawn(move || {
                let gathered = work(&master, now_s);
                let _ = send.send((master.process.pid, gathered));
            });
        }
    }

    /// Those of which nothing is known: they were begun with, or there was no time.
    pub(super) fn unfinished(self) -> Vec<(ServiceKind, u32)> {
        let running = self.running.into_iter().map(|(pid, (kind, _))| (kind, pid));
        let waiting = self.waiting.into_iter();
        let waiting = waiting.map(|master| (master.kind, master.process.pid));
        let mut all: Vec<(ServiceKind, u32)> = running.chain(waiting).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ServiceProcess;

    /// One of three never ends.
    fn work(master: &Master, _: f64) -> Gathered {
        if master.process.pid.is_multiple_of(3) {
            std::thread::sleep(Duration::from_secs(600));
        }
        Gathered::Gone
    }

    #[test]
    fn who_hangs_keeps_nobody_from_being_looked_at() {
        let until = crate::files::abreast::Time::from_now(Duration::from_secs(60)).part(1.0);
        let mut crew = Crew::new(0.0, until);
        (crew.work, crew.patience) = (work, Duration::from_millis(50));
        for pid in 0..90 {
            crew.look_at(Master {
                kind: ServiceKind::Nginx,
                process: ServiceProcess {
                    pid,
                    ..ServiceProcess::default()
                },
                workers: Vec::new(),
                parent: None,
            });
        }
        crew.begin();
        assert_eq!(crew.running.len(), AT_ONCE);
        let mut seen = 0;
        while seen < 60 && crew.next().is_some() {
            seen += 1;
        }
        assert_eq!(seen, 60);
        let unfinished = crew.unfinished();
        assert_eq!(unfinished.len(), 30);
        assert!(unfinished.iter().all(|(_, pid)| pid.is_multiple_of(3)));
    }
}
