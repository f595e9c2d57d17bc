//! One thread of the generator: starts what is due, ends what is overdue, sleeps until something happens.

use crate::arrivals::{ArrivalStream, Mix};
use crate::connection::Pool;
use crate::cookies::Users;
use crate::engine::Prepared;
use crate::examples::Examples;
use crate::flight::{FlightRef, Flights, NONE};
use crate::health::CpuMeter;
use crate::plan::{LoadError, LoadPlan, Mode};
use crate::recorder::{Limits, Outbox, Recorder};
use kneepoint_model::Outcome;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Events taken at once, and arrivals handled before looking for events.
const BATCH: usize = 256;
/// Bytes read at once. One buffer serves all connections of a thread, since parsers keep what they need.
const READ_BYTES: usize = 64 << 10;

/// Nanoseconds since the load began, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) began: Instant,
}

impl Clock {
    pub(crate) fn now(self) -> u64 {
        // Zero stands for "not yet" in a flight's stamps.
        (self.began.elapsed().as_nanos() as u64).max(1)
    }
}

/// Pause before the next connection after one was refused, or dropped unanswered: without it, a closed loop against a dead server
/// would do nothing but connect.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    until: u64,
    delay: u64,
}

impl Backoff {
    const SHORTEST_NS: u64 = 1_000_000;
    const LONGEST_NS: u64 = 50_000_000;

    pub(crate) fn refused(&mut self, now: u64) {
        self.delay = (self.delay * 2).clamp(Self::SHORTEST_NS, Self::LONGEST_NS);
        self.until = now + self.delay;
    }

    pub(crate) fn connected(&mut self) {
        *self = Self::default();
    }

    fn holds(&self, now: u64) -> bool {
        now < self.until
    }
}

/// What decides about new requests.
#[derive(Debug)]
enum Starts<'p> {
    Open {
        stream: ArrivalStream<'p>,
        next: Option<u64>,
        until: u64,
    },
    /// How many workers of the loop are free, and when the loop ends.
    Closed { ready: u32, until: u64 },
}

/// What a thread leaves behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) recorder: Recorder,
    pub(crate) examples: Examples,
    pub(crate) backlog_max: u64,
    pub(crate) cpu_share: f64,
}

/// One thread's state.
#[derive(Debug)]
pub(crate) struct Worker<'p> {
    pub(crate) prepared: &'p Prepared,
    pub(crate) clock: Clock,
    /// No request starts after this time: set when the load is ended early.
    cut: &'p AtomicU64,
    starts: Starts<'p>,
    mix: Mix,
    pub(crate) users: Users,
    pub(crate) epoll: OwnedFd,
    pub(crate) pool: Pool<'p>,
    pub(crate) flights: Flights,
    /// Arrivals that wait for a connection; some may have ended since.
    queue: VecDeque<FlightRef>,
    /// How many of the queue are still waiting.
    waiting: u64,
    backlog_max: u64,
    pub(crate) backoff: Backoff,
    pub(crate) recorder: Recorder,
    pub(crate) examples: Examples,
    pub(crate) buffer: Vec<u8>,
    cpu: CpuMeter,
}

impl<'p> Worker<'p> {
    /// Thread number `thread`, with its share of arrivals, users, connections and workers.
    pub(crate) fn new(
        plan: &'p LoadPlan,
        prepared: &'p Prepared,
        cut: &'p AtomicU64,
        clock: Clock,
        thread: usize,
    ) -> Result<Self, LoadError> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|source| LoadError::System {
                what: "epoll".into(),
                source,
                instead: "close programs that hold many open files, or raise `ulimit -n`",
            })?;
        let share =
            |total: usize| total / plan.threads + usize::from(thread < total % plan.threads);
        let mut connections = share(plan.max_connections);
        let until = plan.mode.duration().as_nanos() as u64;
        let starts = match &plan.mode {
            Mode::Open { schedule, arrivals } => {
                let mut stream = ArrivalStream::new(schedule, *arrivals, thread, plan.threads);
                let next = stream.next();
                Starts::Open {
                    stream,
                    next,
                    until,
                }
            }
            Mode::Closed { workers, .. } => {
                let ready = share(*workers as usize) as u32;
                connections = connections.max(ready as usize);
                Starts::Closed { ready, until }
            }
        };
        let limits = Limits {
            skip: plan.skip.as_nanos() as u64,
            good: plan.slo.response_time.as_nanos() as u64,
            timeout: plan.slo.timeout.as_nanos() as u64,
        };
        Ok(Self {
            prepared,
            clock,
            cut,
            starts,
            mix: Mix::new(&plan.workload, plan.seed, thread),
            users: Users::new(share(plan.workload.users as usize) as u32).provided(plan, thread),
            epoll,
            pool: Pool::new(connections),
            flights: Flights::new(limits.timeout),
            queue: VecDeque::new(),
            waiting: 0,
            backlog_max: 0,
            backoff: Backoff::default(),
            recorder: Recorder::new(limits),
            examples: Examples::default(),
            buffer: vec![0; READ_BYTES],
            cpu: CpuMeter::new(limits.skip),
        })
    }

    /// Sends until every arrival has ended.
    pub(crate) fn run(mut self, outbox: &Outbox) -> Result<Finished, LoadError> {
        // Before the common start, every time would read as 0.
        thread::sleep(self.clock.began.saturating_duration_since(Instant::now()));
        let mut events: Vec<epoll::Event> = Vec::with_capacity(BATCH);
        loop {
            let more_is_due = self.start_due();
            let now = self.clock.now();
            self.end_overdue(now);
            self.serve_queue(now);
            let next_start = self.next_start();
            self.cpu.observe(now, next_start.is_none());
            if now >= self.recorder.publish_at() {
                let floor = match self.starts {
                    Starts::Open { .. } => next_start.unwrap_or(u64::MAX),
                    Starts::Closed { .. } => now,
                };
                self.recorder.publish(outbox, now, floor);
            }
            if next_start.is_none() && self.flights.live() == 0 {
                break;
            }
            let wake = if more_is_due {
                now
            } else {
                self.wake_at(now, next_start)
            };
            self.wait(&mut events, wake.saturating_sub(self.clock.now()))?;
            for event in events.drain(..) {
                self.on_event(event.data.u64(), event.flags);
                // A batch of events takes longer than an arrival may be late.
                self.start_due();
            }
        }
        Ok(Finished {
            cpu_share: self.cpu.share(),
            recorder: self.recorder,
            examples: self.examples,
            backlog_max: self.backlog_max,
        })
    }

    fn wait(&self, events: &mut Vec<epoll::Event>, nanos: u64) -> Result<(), LoadError> {
        let timeout = Timespec {
            tv_sec: (nanos / 1_000_000_000) as i64,
            tv_nsec: (nanos % 1_000_000_000) as _,
        };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(source) => Err(LoadError::System {
                what: "epoll_pwait2".into(),
                source,
                instead: "use Linux 5.11 or later, and a container profile that allows the call",
            }),
        }
    }

    /// When the next request starts: `None` when no more will. While it is not known (in a closed loop a response
    /// decides) or there is none left (a schedule may end in a pause), the end of the load.
    fn next_start(&self) -> Option<u64> {
        let cut = self.cut.load(Ordering::Relaxed);
        let now = self.clock.now();
        match &self.starts {
            Starts::Open { next, until, .. } => {
                let end = (*until).min(cut);
                next.filter(|at| *at <= cut).or((now < end).then_some(end))
            }
            Starts::Closed { ready, until } => {
                let end = (*until).min(cut);
                (now < end).then_some(if *ready > 0 { now } else { end })
            }
        }
    }

    /// Starts what is due, up to a batch. Tells whether more is due.
    fn start_due(&mut self) -> bool {
        for _ in 0..BATCH {
            let now = self.clock.now();
            let cut = self.cut.load(Ordering::Relaxed);
            let intended = match &mut self.starts {
                Starts::Open { stream, next, .. } => match *next {
                    Some(at) if at <= now && at <= cut => {
                        *next = stream.next();
                        at
                    }
                    _ => return false,
                },
                Starts::Closed { ready, until } => {
                    if *ready == 0 || now >= (*until).min(cut) || self.backoff.holds(now) {
                        return false;
                    }
                    *ready -= 1;
                    now
                }
            };
            self.arrive(intended, now);
        }
        true
    }

    fn arrive(&mut self, intended: u64, now: u64) {
        self.recorder.arrived(intended, now);
        let request = self.mix.draw();
        let user = if self.prepared.templates[request as usize].session {
            self.users.take()
        } else {
            NONE
        };
        let flight = self.flights.start(intended, request, user);
        self.flights.get_mut(flight.id).queued = true;
        self.queue.push_back(flight);
        self.waiting += 1;
        self.serve_queue(now);
        self.backlog_max = self.backlog_max.max(self.waiting);
    }

    /// Gives waiting arrivals connections, in order, while there are any.
    fn serve_queue(&mut self, now: u64) {
        while let Some(&front) = self.queue.front() {
            if !self.flights.is_live(front) {
                self.queue.pop_front();
                continue;
            }
            let id = front.id;
            if self.flights.is_overdue(id, now) {
                self.end(id, Outcome::Unsent, 0, now);
                continue;
            }
            let needs_new = self.flights.get(id).retried;
            let idle = if needs_new {
                None
            } else {
                self.pool.take_idle()
            };
            if idle.is_none() && (self.backoff.holds(now) || !self.pool.make_room(needs_new)) {
                return;
            }
            self.queue.pop_front();
            self.waiting -= 1;
            self.flights.get_mut(id).queued = false;
            match idle {
                Some(slot) => self.send(slot, id, now),
                None => self.connect(id, now),
            }
        }
    }

    /// Puts a flight back to the front of the queue, to go out on a new connection.
    pub(crate) fn retry(&mut self, id: u32) {
        let flight = self.flights.get_mut(id);
        flight.retried = true;
        flight.queued = true;
        flight.connection = NONE;
        self.queue.push_front(self.flights.reference(id));
        self.waiting += 1;
    }

    /// A server that accepts connections and drops them unanswered has no room for more. An open loop goes on as its
    /// schedule says; a closed one would only spin, and take the CPU that the stack needs to answer the rest.
    pub(crate) fn dropped_unanswered(&mut self, now: u64) {
        if matches!(self.starts, Starts::Closed { .. }) {
            self.backoff.refused(now);
        }
    }

    /// Ends every waiting arrival like the one whose attempt to connect they waited for.
    pub(crate) fn end_waiting(&mut self, outcome: Outcome, now: u64) {
        while let Some(waiting) = self.queue.pop_front() {
            if self.flights.is_live(waiting) {
                self.end(waiting.id, outcome, 0, now);
            }
        }
    }

    /// Ends what has reached its timeout: what is on a connection with the connection, since the response could
    /// only be thrown away.
    fn end_overdue(&mut self, now: u64) {
        while let Some(id) = self.flights.expired(now) {
            let slot = self.flights.get(id).connection;
            if slot == NONE {
                self.end(id, Outcome::Unsent, 0, now);
            } else {
                self.pool.close(slot);
                self.end(id, Outcome::Timeout, 0, now);
            }
        }
    }

    /// Ends a flight: the one place where an arrival gets its outcome.
    pub(crate) fn end(&mut self, id: u32, outcome: Outcome, status: u16, now: u64) {
        let flight = self.flights.end(id);
        self.recorder.ended(&flight, outcome, status, now);
        self.waiting -= u64::from(flight.queued);
        if flight.user != NONE {
            self.users.give_back(flight.user);
        }
        if let Starts::Closed { ready, .. } = &mut self.starts {
            *ready += 1;
        }
    }

    fn wake_at(&mut self, now: u64, next_start: Option<u64>) -> u64 {
        let mut wake = self.recorder.publish_at();
        let starting = match self.starts {
            Starts::Closed { ready, .. } => ready > 0,
            Starts::Open { .. } => false,
        };
        if self.backoff.holds(now) && (starting || self.waiting > 0) {
            wake = wake.min(self.backoff.until);
        }
        if !(starting && self.backoff.holds(now)) {
            wake = wake.min(next_start.unwrap_or(u64::MAX));
        }
        wake = wake.min(self.flights.next_deadline().unwrap_or(u64::MAX));
        wake.min(self.pool.end_lingering(now).unwrap_or(u64::MAX))
    }
}
