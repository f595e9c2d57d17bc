//! The stack as it is now, look after look, and cheap enough to stay.
//!
//! What changes from second to second is read every time: what each worker does, accept queues, what access logs gained.
//! What changes seldom (configuration, memory, logs of errors) is read anew only when a file, a first process or a
//! generation of workers changed, and else now and then. Each kind of look has a share of one core ([`pace::Pace`]): the
//! more it costs, the seldomer it comes. So the watch stays below one hundredth of a core by construction, whatever the
//! size of the stack, and says how often it could look.
//!
//! As the check, it sends nothing, writes nothing and stops nobody: what a worker waits for is read from `/proc`.

mod changes;
mod findings;
mod metrics;
mod moment;
mod pace;
mod queues;
mod services;
mod traffic;
mod workers;

pub use metrics::metrics;
pub use moment::{Moment, OwnCost, PoolMoment, ServiceMoment, TrafficMoment, Watched};

use crate::find::{CheckOptions, look};
use crate::report::judge;
use crate::report::texts::Texts as _;
use crate::snapshot::{Blind, Snapshot};
use changes::Changes;
use findings::Findings;
use kneepoint_linux::clock::{process_cpu, thread_cpu};
use pace::Pace;
use queues::Queues;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use services::Services;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant, SystemTime};
use traffic::Traffic;
use workers::Workers;

/// Shares of a core that each kind of look may take; what draws the view comes on top.
const QUICK_SHARE: f64 = 0.004;
const JUDGE_SHARE: f64 = 0.0015;
const CHANGES_SHARE: f64 = 0.001;
const FULL_SHARE: f64 = 0.002;
/// Least times between two looks of a kind.
const JUDGE_EVERY: Duration = Duration::from_secs(5);
const CHANGES_EVERY: Duration = Duration::from_secs(5);
/// How long configuration that did not change is believed.
const FULL_EVERY: Duration = Duration::from_secs(300);

/// What is watched, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    /// What is looked at.
    pub check: CheckOptions,
    /// Least time between two looks at the workers.
    pub every: Duration,
}

/// A watch over the stack that runs.
#[derive(Debug)]
pub struct StackWatch {
    options: WatchOptions,
    began: Instant,
    cpu_before: Duration,
    first_cpu: Duration,
    snapshot: Snapshot,
    scene: Scene,
    findings: Findings,
    quick: Pace,
    judging: Pace,
    seeking: Pace,
    /// Of full looks: not before this, however much changed.
    full: Pace,
    full_at: Instant,
    full_took: Duration,
    /// Something changed since the last full look began, and what.
    stale: Option<String>,
    pending: Option<Receiver<(Snapshot, Duration)>>,
}

/// What follows the parts of a snapshot from look to look.
#[derive(Debug)]
struct Scene {
    workers: Workers,
    queues: Queues,
    services: Services,
    traffic: Traffic,
    changes: Changes,
}

impl Scene {
    fn of(snapshot: &Snapshot, traffic: Traffic, services: Services) -> Self {
        Self {
            workers: Workers::of(snapshot),
            queues: Queues::of(snapshot),
            services: services.following(snapshot),
            traffic: traffic.following(snapshot),
            changes: Changes::of(snapshot),
        }
    }
}

impl StackWatch {
    /// Begins with one full look, which may take as long as its budget.
    #[must_use]
    pub fn begin(options: WatchOptions) -> Self {
        more_files();
        let began = Instant::now();
        let cpu_before = process_cpu();
        let snapshot = look(&options.check);
        let mut full = Pace::new(FULL_SHARE, Duration::from_secs(2));
        let first_cpu = process_cpu().saturating_sub(cpu_before);
        full.took(first_cpu);
        let scene = Scene::of(&snapshot, Traffic::default(), Services::default());
        let mut watch = Self {
            quick: Pace::new(QUICK_SHARE, options.every),
            judging: Pace::new(JUDGE_SHARE, JUDGE_EVERY),
            seeking: Pace::new(CHANGES_SHARE, CHANGES_EVERY),
            full,
            full_at: began,
            full_took: began.elapsed(),
            first_cpu,
            stale: None,
            pending: None,
            findings: Findings::default(),
            options,
            began: Instant::now(),
            cpu_before: process_cpu(),
            snapshot,
            scene,
        };
        watch.judge();
        // What opens the files of each worker is part of the beginning, as is what was read for it.
        watch.scene.workers.look(&mut watch.snapshot);
        watch.first_cpu = process_cpu().saturating_sub(cpu_before);
        (watch.began, watch.cpu_before) = (Instant::now(), process_cpu());
        watch
    }

    /// Whether it found no service.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.snapshot.services.is_empty()
    }

    /// What could not be looked at.
    #[must_use]
    pub fn unseen(&self) -> Vec<Blind> {
        let own = self.snapshot.services.iter().flat_map(|one| &one.blind);
        let all: Vec<Blind> = self.snapshot.blind.iter().chain(own).cloned().collect();
        all.without_secrets().shown()
    }

    /// When the next look is due.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.quick.due()
    }

    /// Has everything be read anew with the next look, whatever it costs.
    pub fn refresh(&mut self) {
        self.full.now();
        self.stale = Some("somebody asked".into());
    }

    /// Looks at what changes from second to second, and at the rest where it is due. What it tells may go to a terminal, a
    /// page or a label as it is.
    pub fn look(&mut self) -> Moment {
        let cpu = thread_cpu();
        let began = Instant::now();
        let pools = self.scene.workers.look(&mut self.snapshot);
        self.scene.queues.look(&mut self.snapshot);
        let traffic = self.scene.traffic.look();
        let services = self.scene.services.look(&self.snapshot);
        let took = began.elapsed();
        self.quick.took(thread_cpu().saturating_sub(cpu));
        self.rest();
        let pools = with_queues(pools, &self.snapshot);
        let moment = Moment {
            at_s: now_s(),
            traffic: with_requests(traffic, &pools, &self.snapshot),
            pools,
            services,
            findings: self.findings.all(),
            blind: judge_blind(&self.snapshot),
            cost: self.cost(took),
        };
        moment.without_secrets().shown()
    }

    /// What is due seldom: has something changed, what do the rules say, is there a new full look.
    fn rest(&mut self) {
        self.take_full_look();
        if self.seeking.is_due() {
            let cpu = thread_cpu();
            let changed = self.scene.changes.since(&self.snapshot);
            self.seeking.took(thread_cpu().saturating_sub(cpu));
            self.stale = changed.or(self.stale.take());
        }
        if self.stale.is_none() && self.full_at.elapsed() > FULL_EVERY {
            self.stale = Some("it was long ago".into());
        }
        if self.stale.is_some() && self.pending.is_none() && self.full.is_due() {
            self.begin_full_look();
        }
        if self.judging.is_due() {
            self.judge();
        }
    }

    fn judge(&mut self) {
        let cpu = thread_cpu();
        let report = judge(&self.snapshot);
        self.findings.are(report.findings, now_s());
        self.judging.took(thread_cpu().saturating_sub(cpu));
    }

    /// Reads everything in a thread of its own: the view goes on meanwhile.
    fn begin_full_look(&mut self) {
        let (send, receive) = channel();
        let options = self.options.check.clone();
        self.stale = None;
        self.full_at = Instant::now();
        let cpu = process_cpu();
        std::thread::spawn(move || {
            let snapshot = look(&options);
            // The looks beside it are in this, too: better too much than too little.
            let _ = send.send((snapshot, process_cpu().saturating_sub(cpu)));
        });
        self.pending = Some(receive);
    }

    fn take_full_look(&mut self) {
        let Some(pending) = &self.pending else { return };
        match pending.try_recv() {
            Ok((snapshot, cpu)) => {
                self.full.took(cpu);
                self.full_took = self.full_at.elapsed();
                self.snapshot = snapshot;
                let traffic = std::mem::take(&mut self.scene.traffic);
                let services = std::mem::take(&mut self.scene.services);
                self.scene = Scene::of(&self.snapshot, traffic, services);
                self.judging.now();
                self.pending = None;
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => self.pending = None,
        }
    }

    fn cost(&self, took: Duration) -> OwnCost {
        let watched = self.began.elapsed();
        let cpu = process_cpu().saturating_sub(self.cpu_before);
        OwnCost {
            first_cpu_s: self.first_cpu.as_secs_f64(),
            watched_s: watched.as_secs_f64(),
            cpu_s: cpu.as_secs_f64(),
            every_s: self.quick.between().as_secs_f64(),
            look_s: took.as_secs_f64(),
            full_look_s: self.full_took.as_secs_f64(),
            full_look_age_s: self.full_at.elapsed().as_secs_f64(),
        }
    }
}

/// A file of each worker stays open: a thousand workers need more than a shell allows. Where it may not be raised, files
/// are opened anew.
fn more_files() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let _ = setrlimit(Resource::Nofile, raised);
}

fn with_queues(mut pools: Vec<PoolMoment>, snapshot: &Snapshot) -> Vec<PoolMoment> {
    for pool in &mut pools {
        let of = snapshot.services.iter().find(|one| one.pid == pool.pid);
        let mut own = of.into_iter().flat_map(|service| &service.pools);
        pool.queue = own
            .find(|one| one.name == pool.pool)
            .and_then(|one| one.queue);
    }
    pools
}

/// Adds to each log what its service handed to pools of PHP-FPM and has not got back: busy workers, and who waits for one.
fn with_requests(
    mut traffic: Vec<TrafficMoment>,
    pools: &[PoolMoment],
    snapshot: &Snapshot,
) -> Vec<TrafficMoment> {
    for log in &mut traffic {
        let asked: Vec<(u32, &str)> = snapshot
            .links_to_pools()
            .filter(|(_, from, _, _)| from.name() == log.service)
            .map(|(_, _, to, pool)| (to.pid, pool.name.as_str()))
            .collect();
        let own = pools
            .iter()
            .filter(|pool| asked.contains(&(pool.pid, pool.pool.as_str())));
        let count = own.map(|pool| pool.busy + pool.queue.map_or(0, |(length, _)| length));
        log.in_flight = count.sum();
    }
    traffic
}

/// How many things could not be seen.
fn judge_blind(snapshot: &Snapshot) -> usize {
    let own = snapshot.services.iter().map(|service| service.blind.len());
    snapshot.blind.len() + own.sum::<usize>()
}

fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::Case;

    #[test]
    fn what_is_in_pools_is_in_flight() {
        let case = Case::healthy();
        let log = |service: usize| TrafficMoment {
            service: case.0.services[service].name(),
            ..TrafficMoment::default()
        };
        let pool = PoolMoment {
            pid: case.0.services[1].pid,
            pool: "www".into(),
            busy: 3,
            queue: Some((2, 511)),
            ..PoolMoment::default()
        };
        let other = PoolMoment {
            pool: "other".into(),
            ..pool.clone()
        };
        let found = with_requests(vec![log(0), log(3)], &[pool, other], &case.0);
        assert_eq!((found[0].in_flight, found[1].in_flight), (5, 0));
    }
}
