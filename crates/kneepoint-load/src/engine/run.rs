//! Runs a load plan: threads that send, and one that watches them.

use crate::arrivals::{Shared, has_due_times};
use crate::connection::{namespace, socket};
use crate::engine::priority;
use crate::engine::transport::Transport;
use crate::in_flight::Clock;
use crate::ledger::Prepared;
use crate::measure::{Completed, Finished, Mailbox, Tally};
use crate::plan::{HttpVersion, LoadError, LoadPlan, Mode, Progress};
use kneepoint_linux::CpuTicks;
use kneepoint_model::LoadPoint;
use kneepoint_model::autostop::Observed;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How often progress is told.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);
/// How often the stop flag is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Time for all threads to be at their posts before the load begins.
const HEAD_START: Duration = Duration::from_millis(5);
/// An early end is announced this much ahead, so that every thread stops at the same intended start.
const CUT_AHEAD: Duration = Duration::from_millis(5);
/// File descriptors beside connections: epoll, standard streams, files of the program itself.
const OTHER_FILES: u64 = 64;

/// The load generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct Engine;

impl Engine {
    /// Runs a plan to its end, and waits at most the timeout for what is under way then. Every request that starts
    /// ends in exactly one outcome. Sessions that are under way then make no further request.
    ///
    /// A closed loop that has made all of its requests ends there, and its window with the last response.
    ///
    /// `progress` is called about five times a second from the calling thread, and once more at the end with the
    /// seconds completed then. When `stop` becomes true, or the plan's abort rule or stop rule speaks, no further
    /// request starts and what was measured so far is returned.
    ///
    /// # Errors
    /// The plan asks for something impossible, or the system refuses what the generator needs. Requests that
    /// fail are not errors but outcomes.
    pub fn run(
        plan: &LoadPlan,
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<LoadPoint, LoadError> {
        let soon = || Some(Instant::now() + HEAD_START);
        let point = Self::run_from(plan, &soon, progress, stop)?;
        point.ok_or_else(|| LoadError::Plan {
            problem: "no moment to begin at; run it again".into(),
        })
    }

    /// The same from a moment that somebody else names. `when` is asked once every thread is at its post; it may take
    /// its time, and where it names none, nothing is sent and there is no point.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_from(
        plan: &LoadPlan,
        when: &dyn Fn() -> Option<Instant>,
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<Option<LoadPoint>, LoadError> {
        plan.check()?;
        allow_files(std::slice::from_ref(plan))?;
        let prepared = Prepared::new(plan)?;
        let run = Run {
            plan,
            prepared: &prepared,
            mailboxes: (0..plan.threads).map(|_| Mailbox::default()).collect(),
            shared: Shared::new(),
        };
        run.execute(when, progress, stop)
    }
}

/// One execution of a plan.
struct Run<'p> {
    plan: &'p LoadPlan,
    prepared: &'p Prepared,
    mailboxes: Vec<Mailbox>,
    shared: Shared,
}

impl Run<'_> {
    fn execute(
        &self,
        when: &dyn Fn() -> Option<Instant>,
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
    ) -> Result<Option<LoadPoint>, LoadError> {
        thread::scope(|scope| {
            let (ready, readiness) = mpsc::channel();
            let mut starts = Vec::new();
            let mut handles = Vec::new();
            for number in 0..self.plan.threads {
                let ready = ready.clone();
                let (start, begin) = mpsc::channel::<Instant>();
                starts.push(start);
                handles.push(scope.spawn(move || self.send(number, &ready, &begin)));
            }
            drop(ready);
            readiness
                .iter()
                .take(self.plan.threads)
                .collect::<Result<Vec<()>, LoadError>>()?;
            let Some(began) = when() else {
                // Threads whose start does not come have nothing to do.
                return Ok(None);
            };
            starts.iter().for_each(|start| {
                // A thread that is gone has said why already, or panics when it is joined.
                let _ = start.send(began);
            });
            let done = || handles.iter().all(thread::ScopedJoinHandle::is_finished);
            let watched = self.watch(began, progress, stop, done);
            let finished = handles
                .into_iter()
                .map(|handle| match handle.join() {
                    Ok(finished) => finished,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
                .collect::<Result<Vec<Option<Finished>>, LoadError>>()?;
            let finished = finished.into_iter().flatten().collect();
            Ok(Some(self.conclude(watched, finished)))
        })
    }

    /// The life of a sending thread. It reports that it is ready, waits for the common start, and sends.
    fn send(
        &self,
        number: usize,
        ready: &mpsc::Sender<Result<(), LoadError>>,
        begin: &mpsc::Receiver<Instant>,
    ) -> Result<Option<Finished>, LoadError> {
        let made = prepare_thread(self.plan).and_then(|()| {
            let clock = Clock {
                began: Instant::now(),
            };
            Transport::new(self.plan, self.prepared, &self.shared, clock, number)
        });
        let transport = match made {
            Ok(transport) => transport,
            Err(error) => {
                let _ = ready.send(Err(error));
                return Ok(None);
            }
        };
        let _ = ready.send(Ok(()));
        // No start comes when another thread could not get ready.
        let Ok(began) = begin.recv() else {
            return Ok(None);
        };
        transport
            .run(Clock { began }, &self.mailboxes[number])
            .map(Some)
    }

    /// Watches the sending threads until they have finished.
    fn watch(
        &self,
        began: Instant,
        progress: &(dyn Fn(&Progress) + Sync),
        stop: &AtomicBool,
        done: impl Fn() -> bool,
    ) -> Watched {
        let mut watched = Watched {
            tally: Tally::new(self.plan.threads),
            aborted: false,
            stopped_because: None,
            began: None,
            ended: None,
        };
        let mut tell_at = PROGRESS_EVERY;
        while !done() {
            thread::sleep(LOOK_EVERY);
            let now = began.elapsed();
            if watched.began.is_none() && now >= self.plan.skip {
                watched.began = CpuTicks::read();
            }
            if watched.ended.is_none() && now >= self.ends_at() {
                watched.ended = CpuTicks::read();
            }
            if stop.load(Ordering::Relaxed) {
                self.end_early(now);
            }
            if now >= tell_at {
                tell_at = now + PROGRESS_EVERY;
                watched.tally.collect(&self.mailboxes, now);
                let completed = watched.tally.newly_completed();
                self.judge(&mut watched, &completed, now);
                progress(&watched.tally.progress(self.plan, now, completed));
            }
        }
        let now = began.elapsed();
        watched.ended = watched.ended.or_else(CpuTicks::read);
        watched.tally.collect(&self.mailboxes, now);
        watched.tally.pass(self.ended_at(&watched.tally));
        let completed = watched.tally.newly_completed();
        progress(&watched.tally.progress(self.plan, now, completed));
        watched
    }

    /// Ends the load early if a rule says so.
    fn judge(&self, watched: &mut Watched, completed: &[Completed], now: Duration) {
        if now >= self.ends_at() {
            return;
        }
        if watched.tally.is_hopeless(self.plan) {
            watched.aborted = true;
            self.end_early(now);
        }
        let Some(rule) = &self.plan.stop_when else {
            return;
        };
        let busy = (watched.tally.busy(), self.plan.max_connections as u64);
        for second in completed {
            if watched.stopped_because.is_none() {
                watched.stopped_because = rule.second(&Observed {
                    second: &second.record,
                    response: second.response.as_deref(),
                    busy: Some(busy),
                });
            }
        }
        if watched.stopped_because.is_some() {
            self.end_early(now);
        }
    }

    /// Lets no request start that is due later than a moment from now.
    fn end_early(&self, now: Duration) {
        let cut = (now + CUT_AHEAD).as_nanos() as u64;
        let unset = u64::MAX;
        let _ = self
            .shared
            .cut
            .compare_exchange(unset, cut, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// When the last request starts, as far as is known.
    fn ends_at(&self) -> Duration {
        let cut = Duration::from_nanos(self.shared.cut.load(Ordering::Relaxed));
        self.plan.mode.duration().min(cut)
    }

    /// When the load was over: a closed loop may have made all of its requests before its time.
    fn ended_at(&self, tally: &Tally) -> Duration {
        match &self.plan.mode {
            Mode::Open { .. } => self.ends_at(),
            Mode::Closed(_) => tally
                .ended_at()
                .map_or(self.ends_at(), |ended| ended.min(self.ends_at())),
        }
    }

    fn conclude(&self, watched: Watched, finished: Vec<Finished>) -> LoadPoint {
        let steal = watched.began.zip(watched.ended);
        let ended_at = self.ended_at(&watched.tally);
        let mut point = watched.tally.finish(self.plan, finished, ended_at, steal);
        point.aborted = watched.aborted;
        point.stopped_because = watched.stopped_because;
        point
    }
}

/// What the watching thread saw.
struct Watched {
    tally: Tally,
    aborted: bool,
    /// What the stop rule said.
    stopped_because: Option<String>,
    /// The machine's time when the window began and ended.
    began: Option<CpuTicks>,
    ended: Option<CpuTicks>,
}

/// Brings the calling thread into the plan's namespace, checks what it is to send from, and makes its timers exact.
fn prepare_thread(plan: &LoadPlan) -> Result<(), LoadError> {
    namespace::enter(plan.netns.as_deref())?;
    for source in &plan.source_addresses {
        socket::check_source(*source)?;
    }
    // The transport for one request at a time asks for it by itself once it is woken late.
    if plan.target.version() == HttpVersion::Http2 && has_due_times(plan) {
        priority::wake_first();
    }
    priority::exact_timers();
    Ok(())
}

/// How many files plans that run at once have open: a connection each, and what a thread waits on.
fn connections(plans: &[LoadPlan]) -> usize {
    let of_one = |plan: &LoadPlan| {
        let workers = match &plan.mode {
            Mode::Closed(closed) => closed.workers as usize,
            Mode::Open { .. } => 0,
        };
        plan.max_connections.max(workers) + plan.threads
    };
    plans.iter().map(of_one).sum()
}

/// Raises the limit of open files to what the connections of plans need which run at once.
pub(super) fn allow_files(plans: &[LoadPlan]) -> Result<(), LoadError> {
    let connections = connections(plans);
    let needed = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(LoadError::Plan {
            problem: format!(
                "{connections} connections need {needed} open files and this process may have {}; \
                 allow fewer connections or raise `ulimit -Hn`",
                limit.maximum.unwrap_or(0)
            ),
        });
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|source| LoadError::System {
        what: format!("raising the limit of open files to {needed}"),
        source,
        instead: "allow fewer connections, or raise `ulimit -n` before the start",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Target;
    use kneepoint_model::{Address, ClosedLoop, Workload};

    #[test]
    fn loads_at_once_need_the_files_of_both() {
        let plan = |workers| {
            let mode = Mode::Closed(ClosedLoop::new(workers, Duration::from_secs(1)));
            let target = Target::http(Address::Unix("/x".into()), "test");
            let mut plan = LoadPlan::new(target, Workload::single("/"), mode);
            plan.max_connections = 100;
            plan.threads = 1;
            plan
        };
        let both = [plan(2), plan(300)];
        assert_eq!(connections(&both[..1]), 101);
        assert_eq!(connections(&both), 101 + 301);
    }
}
