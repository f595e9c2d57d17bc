//! Samples a worker, or all workers of a master, for a while.

pub(crate) mod profile;

use crate::error::ProfilerError;
use crate::process::{Pools, workers};
use crate::record::profile::PhpProfile;
use crate::sample::SampleOutcome;
use crate::sampler::Sampler;
use kneepoint_linux::process;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks for workers that came.
const LOOK: Duration = Duration::from_millis(250);
/// Looks at which a worker may fail to be attached before it is refused.
const TRIES: u32 = 2;
/// Longest sleep: `stop` is looked at in between.
const NAP: Duration = Duration::from_millis(100);

/// What to sample.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// A worker, or a master: then all its workers.
    pub pid: u32,
    /// Of a master of PHP-FPM, the workers of these pools only.
    pub pools: Pools,
    /// Samples a second of each worker; at least 1.
    pub rate_hz: u32,
    /// For how long.
    pub duration: Duration,
    /// Whether stacks begin with their request.
    pub by_request: bool,
    /// Whether the stacks of requests with a name are kept by it (see [`PhpProfile::stacks_of`]), and all stacks by the
    /// moment they were met at.
    pub by_id: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct RecordProgress<'p> {
    /// Time since the first sample.
    pub elapsed: Duration,
    /// What was sampled so far.
    pub profile: &'p PhpProfile,
}

/// Tells what a blocked worker waits for, in a few words (`recv 10.0.0.7:6379`). This crate knows system calls by
/// their number only.
pub type WaitsFor<'w> = dyn FnMut(u32) -> Option<String> + 'w;

/// Samples until the time is over, `stop` is raised, or there is nothing left to sample. `progress` is called about
/// four times a second. A stack of a worker that was blocked in one call while it was read ends in a
/// frame with what `waits_for` says of it, in brackets; that of one that is ready to run and has no core in `[a core]`,
/// where the kernel tells it (`/proc/PID/stack`: root).
///
/// # Errors
/// As [`Sampler::attach`], for the process that was named; a master none of whose workers can be attached gives the
/// error of the first of them.
pub fn record(
    options: &RecordOptions,
    waits_for: &mut WaitsFor<'_>,
    progress: &dyn Fn(&RecordProgress<'_>),
    stop: &AtomicBool,
) -> Result<PhpProfile, ProfilerError> {
    let mut recorder = Recorder::start(options)?;
    let began = Instant::now();
    let cpu_before = cpu_s();
    let period = Duration::from_secs(1) / options.rate_hz.max(1);
    let mut due = began;
    let mut looked = began;
    while !stop.load(Ordering::Relaxed) && began.elapsed() < options.duration {
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            recorder.look_for_workers();
            let elapsed = began.elapsed();
            let profile = &recorder.profile;
            progress(&RecordProgress { elapsed, profile });
        }
        if recorder.attached.is_empty() && !recorder.master {
            recorder
                .profile
                .notes
                .push(format!("process {} has ended", options.pid));
            break;
        }
        if options.by_id {
            let at_s = began.elapsed().as_secs_f64();
            recorder.profile.begin_moment(at_s);
        }
        recorder.sample_all(waits_for);
        due += period;
        let late = due.elapsed().as_nanos() / period.as_nanos();
        let late = u32::try_from(late).unwrap_or(u32::MAX);
        recorder.profile.missed += u64::from(late);
        due += period * late;
        nap_until(due, stop);
    }
    let mut profile = recorder.profile;
    profile.elapsed_s = began.elapsed().as_secs_f64();
    profile.cost_s = cpu_s() - cpu_before;
    Ok(profile)
}

fn nap_until(due: Instant, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::sleep(left.min(NAP));
    }
}

/// CPU time of this thread, in seconds.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The workers that are sampled, and what came of it.
struct Recorder {
    options: RecordOptions,
    sampler: Sampler,
    /// Whether the process that was named is a master that lives: more workers may come.
    master: bool,
    /// Whether its PHP was built for threads. Workers run the program of their master.
    threads: bool,
    attached: BTreeSet<u32>,
    /// How often workers could not be attached: from [`TRIES`] on they are not tried again.
    refusals: BTreeMap<u32, u32>,
    profile: PhpProfile,
}

impl Recorder {
    fn start(options: &RecordOptions) -> Result<Self, ProfilerError> {
        let mut sampler = Sampler::telling_cores();
        let named = sampler.identify(options.pid)?;
        let mut recorder = Self {
            options: options.clone(),
            sampler,
            master: false,
            threads: named.threads,
            attached: BTreeSet::new(),
            refusals: BTreeMap::new(),
            profile: PhpProfile::new(
                match named.sapi.as_str() {
                    "" => format!("PHP {}", named.version),
                    sapi => format!("PHP {} ({sapi})", named.version),
                },
                options.rate_hz,
            )
            .by_id(options.by_id),
        };
        let mut refusal = None;
        for pid in recorder.present()? {
            if let Err(error) = recorder.attach(pid) {
                // That one of several threads runs no PHP tells less than anything else.
                match refusal {
                    None | Some(ProfilerError::OtherThread { .. }) => refusal = Some(error),
                    Some(_) => {}
                }
            }
        }
        match refusal {
            Some(ProfilerError::OtherThread { .. }) if recorder.attached.is_empty() => {
                Err(ProfilerError::OtherThread { pid: options.pid })
            }
            Some(error)
                if recorder.attached.is_empty()
                    && !(recorder.master && matches!(error, ProfilerError::Gone { .. })) =>
            {
                Err(error)
            }
            _ => Ok(recorder),
        }
    }

    /// What may be attached now: the workers of a master, or the process that was named; or their threads.
    fn present(&mut self) -> Result<Vec<u32>, ProfilerError> {
        let children = workers(self.options.pid, &self.options.pools)?;
        // Workers of a pool come with its requests.
        let master = !children.is_empty() || self.options.pools != Pools::All;
        if master && !self.master {
            // It was taken for a worker: those of a master may come with the requests.
            self.attached.clear();
            self.sampler.detach(self.options.pid);
        }
        self.master |= master;
        let processes = if self.master {
            children
        } else {
            vec![self.options.pid]
        };
        Ok(match self.threads {
            // One that is gone has no threads.
            true => processes
                .into_iter()
                .flat_map(|pid| process::threads(pid).unwrap_or_default())
                .collect(),
            false => processes,
        })
    }

    fn attach(&mut self, pid: u32) -> Result<(), ProfilerError> {
        match self.sampler.attach(pid) {
            Ok(_) => {
                self.attached.insert(pid);
                self.profile.workers += 1;
                Ok(())
            }
            Err(error) => {
                // One that begins or ends looks like many things: it counts when it still does at the next look.
                if !matches!(error, ProfilerError::Gone { .. }) {
                    let refusals = self.refusals.entry(pid).or_default();
                    *refusals += 1;
                    if *refusals == TRIES && !matches!(error, ProfilerError::OtherThread { .. }) {
                        self.profile.notes.push(error.to_string());
                    }
                }
                Err(error)
            }
        }
    }

    fn look_for_workers(&mut self) {
        let Ok(present) = self.present() else {
            self.master = false;
            return;
        };
        for pid in present {
            let refusals = self.refusals.get(&pid).copied().unwrap_or(0);
            if !self.attached.contains(&pid) && refusals < TRIES {
                // Why not is in the notes.
                let _ = self.attach(pid);
            }
        }
    }

    fn sample_all(&mut self, waits_for: &mut WaitsFor<'_>) {
        let mut gone = Vec::new();
        for pid in &self.attached {
            let sample = self.sampler.sample(*pid);
            let wait = sample.wait(|| waits_for(*pid));
            if sample.outcome == SampleOutcome::Gone {
                gone.push(*pid);
            }
            self.profile
                .add(&sample, wait.as_deref(), self.options.by_request);
        }
        for pid in gone {
            self.attached.remove(&pid);
            self.sampler.detach(pid);
        }
    }
}
