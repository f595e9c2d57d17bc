//! Looks into the workers of PHP-FPM: the stacks they are met on under load, and what each request does.
//!
//! All passes are of help only; where they cannot be made, the diagnosis goes on without them and says so.

mod locks;

use crate::error::ExperimentError;
use crate::testbed::Testbed;
use kneepoint_model::{
    Address, CallTrace, Layer, LoadPoint, Place, RunningTier, SlowRequests, StackProfile,
};
use kneepoint_planner::bench::{Bench, Step};
use kneepoint_profiler::{
    CpuProfile, PhpProfile, Pools, RecordOptions, TraceOptions, TraceProgress, record, sample_cpu,
    trace,
};
use kneepoint_telemetry::{LockWatch, NOT_THE_APPLICATION, Waits};
pub(crate) use locks::{Look, of_load};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Samples a second of all workers together, where they are not more than forty: at about 100 us each, 4 % of a core.
const SAMPLES_HZ: u64 = 400;
/// Samples a second of one worker, at least and at most.
const RATE_HZ: (u64, u64) = (10, 99);
/// The pools of FPM that serve the application.
const APPLICATION: Pools = Pools::Except(&NOT_THE_APPLICATION);
/// Longest time of one profile, should nobody end it.
const LONGEST: Duration = Duration::from_secs(120);
/// Requests of a trace, and how long they are asked for one after the other.
const TRACED: u64 = 40;
const TRACE_TIME: Duration = Duration::from_secs(6);
/// What the tracing takes at most, with what is prepared for it.
pub(crate) const TRACE_TAKES: Duration = Duration::from_secs(8);

/// Does something while the kernel samples what the CPUs do. `tiers` are the tiers with the first process of each.
pub fn with_cpu<T>(tiers: &[(Layer, u32)], drive: impl FnOnce() -> T) -> (T, Looked<CpuProfile>) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| sample_cpu(tiers, &stop));
        let driven = drive();
        stop.store(true, Ordering::Relaxed);
        let profile = match sampler.join() {
            Ok(profile) => profile.map_err(|error| error.to_string()),
            Err(_) => Err("the sampler of the CPUs failed".to_owned()),
        };
        (driven, profile)
    })
}

/// The PHP-FPM of an arm.
pub struct Fpm {
    tier: RunningTier,
    root: PathBuf,
    workers: u64,
}

/// What a pass came to, or in words why it could not be made.
pub type Looked<T> = Result<T, String>;

impl Fpm {
    /// Of an arm; `None` when another runtime serves it.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn of(testbed: &Testbed, arm: &str) -> Result<Option<Self>, ExperimentError> {
        let pool = testbed.stack(arm)?.tier(Layer::Php);
        let pool = pool.and_then(|tier| tier.pool.as_ref());
        let workers = pool.map_or(1, |pool| pool.max_workers);
        let fpm = testbed.fpm(arm)?;
        Ok(fpm.map(|(tier, root)| Self {
            tier,
            root,
            workers,
        }))
    }

    /// Does something while the stacks of all workers are sampled.
    pub fn sampled<T>(&self, drive: impl FnOnce() -> T) -> (T, Looked<PhpProfile>) {
        let rate = (SAMPLES_HZ / self.workers.max(1)).clamp(RATE_HZ.0, RATE_HZ.1);
        let options = RecordOptions {
            pid: self.tier.pid,
            pools: APPLICATION,
            rate_hz: u32::try_from(rate).unwrap_or(1),
            duration: LONGEST,
            by_request: true,
            by_id: true,
        };
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let sampler = scope.spawn(|| {
                let mut waits = Waits::of(&self.tier);
                record(&options, &mut |pid| waits.look(pid), &|_| {}, &stop)
            });
            let driven = drive();
            stop.store(true, Ordering::Relaxed);
            let profile = match sampler.join() {
                Ok(profile) => profile.map_err(|error| error.to_string()),
                Err(_) => Err("the sampler failed".to_owned()),
            };
            (driven, profile)
        })
    }

    /// Does something while somebody looks who waits for whose lock, and into the workers that hold one: what was seen at
    /// each look.
    pub fn watching_locks<T>(
        &self,
        tiers: &[RunningTier],
        drive: impl FnOnce() -> T,
    ) -> (T, Looked<Vec<Look>>) {
        let Some(watch) = LockWatch::of(tiers) else {
            return (drive(), Ok(Vec::new()));
        };
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let watcher = scope.spawn(|| locks::watch(watch, &stop));
            let driven = drive();
            stop.store(true, Ordering::Relaxed);
            let looks = match watcher.join() {
                Ok(looks) => looks.map(|looks| self.shorten_waits(looks)),
                Err(_) => Err("the watch over locks failed".to_owned()),
            };
            (driven, looks)
        })
    }

    /// Paths within the application from its directory on.
    fn shorten_waits(&self, mut looks: Vec<Look>) -> Vec<Look> {
        for wait in looks.iter_mut().flat_map(|look| &mut look.waits) {
            shorten(&self.root, &mut wait.object);
            for party in [&mut wait.waiter, &mut wait.holder] {
                party
                    .place
                    .iter_mut()
                    .for_each(|place| shorten_place(&self.root, place));
            }
        }
        looks
    }

    /// What was sampled, for the record of a run. With names of slow requests, also where those were met.
    pub fn record(
        &self,
        profile: PhpProfile,
        (phase, label): (&str, &str),
        load: &LoadPoint,
    ) -> StackProfile {
        let slowest = &load.slowest;
        let of_slowest = profile.stacks_of(slowest.iter().map(|request| request.id.as_str()));
        let mut record = self.shorten_places(profile.into_record(phase, label));
        if let Some(fastest) = slowest.last() {
            let requests = (slowest.len() as u64, load.arrivals);
            record.slow = Some(SlowRequests::of(
                &record,
                &of_slowest,
                requests,
                fastest.response_ms,
            ));
        }
        record
    }

    /// Drives requests one after the other and traces them.
    ///
    /// # Errors
    /// The arm is gone or the load cannot be driven.
    pub fn traced(
        &self,
        testbed: &mut Testbed,
        arm: &str,
        label: &str,
    ) -> Result<Looked<CallTrace>, ExperimentError> {
        let options = TraceOptions {
            pid: self.tier.pid,
            pools: APPLICATION,
            requests: TRACED,
            duration: LONGEST,
        };
        let stop = AtomicBool::new(false);
        let (driven, traced) = thread::scope(|scope| {
            let tracer = scope.spawn(|| trace(&options, &TraceProgress::default(), &stop));
            // What is measured meanwhile is of no use: tracing stretches it.
            let step = Step::saturating("diagnose: trace", 1, TRACE_TIME, 91);
            let driven = testbed.measure(arm, &step);
            stop.store(true, Ordering::Relaxed);
            (driven, tracer.join())
        });
        driven?;
        Ok(match traced {
            Ok(traced) => traced
                .map(|trace| self.named(trace, label))
                .map_err(|error| error.to_string()),
            Err(_) => Err("the tracer failed".to_owned()),
        })
    }

    /// Paths within the application from its directory on: an arm has a directory of its own.
    fn shorten_places(&self, mut profile: StackProfile) -> StackProfile {
        for place in &mut profile.places {
            shorten_place(&self.root, place);
        }
        profile
    }

    /// The same, with the tiers of the stack in place of their addresses.
    fn named(&self, mut trace: CallTrace, label: &str) -> CallTrace {
        label.clone_into(&mut trace.arm);
        let waits = Waits::of(&self.tier);
        for call in &mut trace.calls {
            shorten(&self.root, &mut call.what);
            for place in call.place.iter_mut().chain(&mut call.own) {
                shorten_place(&self.root, place);
            }
            if let Ok(address) = call.peer.parse::<Address>() {
                call.peer = waits.name(&address);
            }
        }
        trace
    }
}

fn shorten_place(root: &Path, place: &mut Place) {
    shorten(root, &mut place.function);
    place.file.iter_mut().for_each(|file| shorten(root, file));
}

fn shorten(root: &Path, text: &mut String) {
    let root = format!("{}/", root.display());
    if text.contains(&root) {
        *text = text.replace(&root, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_application() {
        for (text, expected) in [
            ("/lab/app/public/index.php", "public/index.php"),
            ("require_once /lab/app/boot.php", "require_once boot.php"),
            ("/usr/share/php/a.php", "/usr/share/php/a.php"),
            ("/lab/apple/a.php", "/lab/apple/a.php"),
        ] {
            let mut text = text.to_owned();
            shorten(Path::new("/lab/app"), &mut text);
            assert_eq!(text, expected);
        }
    }
}
