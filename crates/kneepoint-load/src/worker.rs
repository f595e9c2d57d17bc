//! One thread of the generator: starts what is due, ends what is overdue, sleeps until something happens.

use crate::arrivals::Mix;
use crate::connection::Pool;
use crate::cookies::Users;
use crate::engine::Prepared;
use crate::examples::Examples;
use crate::flight::{FlightRef, Flights, NONE};
use crate::health::CpuMeter;
use crate::pause::nanos;
use crate::plan::{LoadError, LoadPlan, Mode};
use crate::ports::HeldPorts;
use crate::recorder::{Gauges, Limits, Outbox, Recorder};
use crate::socket::Sources;
use crate::starts::{Due, Shared, Starts};
use crate::target::Target;
use crate::tls::ThreadTls;
use kneepoint_model::{Outcome, SessionCounts};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::VecDeque;
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
    pub(crate) until: u64,
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

    pub(crate) fn holds(&self, now: u64) -> bool {
        now < self.until
    }
}

/// What a thread leaves behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) recorder: Recorder,
    pub(crate) examples: Examples,
    pub(crate) backlog_max: u64,
    pub(crate) cpu_share: f64,
    pub(crate) sessions: Option<SessionCounts>,
}

/// One thread's state.
#[derive(Debug)]
pub(crate) struct Worker<'p> {
    pub(crate) prepared: &'p Prepared,
    pub(crate) clock: Clock,
    starts: Starts<'p>,
    mix: Mix,
    pub(crate) users: Users,
    pub(crate) epoll: OwnedFd,
    /// The addresses that new connections come from.
    pub(crate) sources: Sources<'p>,
    /// The local ports that are taken by what was closed.
    pub(crate) ports: HeldPorts,
    pub(crate) pool: Pool<'p>,
    /// Whether one who thinks keeps the connection: a browser does, what is behind a web server does not.
    keeps_own: bool,
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
    /// What encrypted connections need; `None` when they are plain.
    pub(crate) tls: Option<ThreadTls>,
    cpu: CpuMeter,
}

impl<'p> Worker<'p> {
    /// Thread number `thread`, with its share of arrivals, users, connections and workers.
    pub(crate) fn new(
        plan: &'p LoadPlan,
        prepared: &'p Prepared,
        shared: &'p Shared,
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
        let workers = match &plan.mode {
            Mode::Open { .. } => 0,
            Mode::Closed(closed) => share(closed.workers as usize),
        };
        let users = share(plan.workload.users as usize) as u32;
        let limits = Limits {
            skip: nanos(plan.skip),
            good: nanos(plan.slo.response_time),
            timeout: nanos(plan.slo.timeout),
        };
        Ok(Self {
            prepared,
            clock,
            starts: Starts::new(plan, shared, thread, workers as u32),
            mix: Mix::new(&plan.workload, plan.seed, thread),
            users: Users::new(users).provided(plan, thread),
            epoll,
            sources: Sources::new(&plan.source_addresses, thread),
            ports: HeldPorts::new(
                &prepared.endpoint,
                plan.source_addresses.len(),
                plan.threads,
            ),
            pool: Pool::new(share(plan.max_connections).max(workers)),
            keeps_own: !matches!(plan.target, Target::FastCgi { .. }),
            flights: Flights::new(limits.timeout),
            queue: VecDeque::new(),
            waiting: 0,
            backlog_max: 0,
            backoff: Backoff::default(),
            recorder: Recorder::new(limits),
            examples: Examples::default(),
            buffer: vec![0; READ_BYTES],
            tls: prepared.secure.as_ref().map(ThreadTls::new),
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
            let next_start = self.starts.next(now);
            self.cpu.observe(now, next_start.is_none());
            let over = next_start.is_none() && self.flights.live() == 0;
            if over || now >= self.recorder.publish_at() {
                self.publish(outbox, now, next_start, over);
            }
            if over {
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
            sessions: self.starts.session_counts(),
        })
    }

    /// Hands over what was recorded so far.
    fn publish(&mut self, outbox: &Outbox, now: u64, next_start: Option<u64>, over: bool) {
        // A response may still bring a request that is intended from now on, but none that was intended before.
        let until = next_start.unwrap_or(self.starts.end()).min(now);
        let floor = if next_start.is_some() {
            until
        } else {
            u64::MAX
        };
        self.recorder.pass(until);
        let gauges = Gauges {
            connections: self.pool.open() as u64,
            backlog: self.waiting,
        };
        self.recorder
            .publish(outbox, now, floor, gauges, over.then_some(now));
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

    /// Starts what is due, up to a batch. Tells whether more is due.
    fn start_due(&mut self) -> bool {
        for _ in 0..BATCH {
            let now = self.clock.now();
            let Some(due) = self.starts.take(now, &self.backoff) else {
                return false;
            };
            self.arrive(due, now);
        }
        true
    }

    fn arrive(&mut self, due: Due, now: u64) {
        self.recorder.arrived(due.intended, now);
        let of_visit = self.starts.of_visit(due, &mut self.mix, &mut self.users);
        let (request, user) = match of_visit {
            Some(of_visit) => of_visit,
            None => {
                let request = self.mix.draw();
                let session = self.prepared.templates[request as usize].session;
                let user = if session { self.users.take() } else { NONE };
                (request, user)
            }
        };
        let flight = self.flights.start(due.intended, request, user, due.member);
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
            let mut idle = self.idle_for(id);
            if idle.is_none() && (self.backoff.holds(now) || !self.pool.make_room(needs_new)) {
                if !needs_new {
                    idle = self.pool.take_longest_kept();
                }
                if idle.is_none() {
                    return;
                }
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

    /// An idle connection for a flight: the one that was kept for its worker or visitor, else the one used last.
    fn idle_for(&mut self, id: u32) -> Option<u32> {
        let flight = self.flights.get(id);
        // The first connection was stale, and others that are as old may be, too.
        if flight.retried {
            return None;
        }
        let kept = self.starts.take_kept(flight.member);
        kept.and_then(|kept| self.pool.take_kept(kept))
            .or_else(|| self.pool.take_idle())
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
        if self.starts.is_closed() {
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
                self.pool.close_first(slot);
                self.end(id, Outcome::Timeout, 0, now);
            }
        }
    }

    /// Ends a flight: the one place where an arrival gets its outcome.
    pub(crate) fn end(&mut self, id: u32, outcome: Outcome, status: u16, now: u64) {
        let flight = self.flights.end(id);
        self.recorder.ended(&flight, outcome, status, now);
        self.waiting -= u64::from(flight.queued);
        let goes_on = self.starts.ended(&flight, outcome, now, &mut self.users);
        if goes_on && self.keeps_own {
            let kept = self.pool.keep(flight.connection);
            self.starts.keep(flight.member, kept);
        }
    }

    fn wake_at(&mut self, now: u64, next_start: Option<u64>) -> u64 {
        let mut wake = self.recorder.publish_at();
        let mut start = next_start.unwrap_or(u64::MAX);
        if self.backoff.holds(now) {
            let again = self.backoff.until;
            if self.waiting > 0 {
                wake = wake.min(again);
            }
            // Workers wait for it, too, but not beyond the end of their loop.
            if self.starts.is_closed() && next_start.is_some() {
                start = start.max(again).min(self.starts.end());
            }
        }
        wake = wake.min(start);
        wake = wake.min(self.flights.next_deadline().unwrap_or(u64::MAX));
        wake.min(self.pool.end_lingering(now).unwrap_or(u64::MAX))
    }
}
