//! The requests of one thread, whatever lane they go out on: who starts when, who waits for a connection, and the one
//! place where each gets its outcome.

mod prepared;

pub(crate) use prepared::Prepared;

use crate::arrivals::{Mix, Shared, Starts};
use crate::connection::Backoff;
use crate::in_flight::{Clock, Flight, FlightRef, Flights, NONE, nanos};
use crate::measure::{CpuMeter, Examples, Finished, Gauges, Limits, Outbox, Recorder};
use crate::plan::{LoadPlan, Mode};
use crate::response::{Missed, Reply, readable};
use crate::users::Users;
use kneepoint_model::Outcome;
use std::collections::VecDeque;

/// How long the first of those arrivals that leave together waits for the others: the rest is as much before its time as
/// is left of the span. A tenth
/// of the send lag that is aimed at (load-engine.md, section 3: p99 below 200 us), since waking up needs most of it.
const WAIT_NS: u64 = 20_000;

/// What a thread does next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// The time at which this was decided.
    pub(crate) now: u64,
    /// When the next request starts; `None` when no more will.
    pub(crate) next_start: Option<u64>,
    /// Whether everything has ended.
    pub(crate) over: bool,
}

/// The share of one of several threads in a total: the first ones have one more where it does not divide.
pub(crate) fn share(total: usize, thread: usize, threads: usize) -> usize {
    total / threads + usize::from(thread < total % threads)
}

/// The requests of one thread, and the account of them.
#[derive(Debug)]
pub(crate) struct Traffic<'p> {
    prepared: &'p Prepared,
    pub(crate) clock: Clock,
    pub(crate) starts: Starts<'p>,
    mix: Mix,
    pub(crate) users: Users,
    pub(crate) flights: Flights,
    /// Arrivals that wait for a connection; some may have ended since.
    queue: VecDeque<FlightRef>,
    /// How many of the queue are still waiting.
    waiting: u64,
    backlog_max: u64,
    pub(crate) backoff: Backoff,
    pub(crate) recorder: Recorder,
    pub(crate) examples: Examples,
    cpu: CpuMeter,
}

impl<'p> Traffic<'p> {
    /// Thread number `thread`, with its share of arrivals, users and workers.
    pub(crate) fn new(
        plan: &'p LoadPlan,
        prepared: &'p Prepared,
        shared: &'p Shared,
        clock: Clock,
        thread: usize,
    ) -> Self {
        let workers = match &plan.mode {
            Mode::Open { .. } => 0,
            Mode::Closed(closed) => share(closed.workers as usize, thread, plan.threads),
        };
        let users = share(plan.workload.users as usize, thread, plan.threads);
        let limits = Limits {
            skip: nanos(plan.skip),
            good: nanos(plan.slo.response_time),
            timeout: nanos(plan.slo.timeout),
            slowest: plan.slowest,
        };
        Self {
            prepared,
            clock,
            starts: Starts::new(plan, shared, thread, workers as u32),
            mix: Mix::new(&plan.workload, plan.seed, thread),
            users: Users::new(users as u32).provided(plan, thread),
            flights: Flights::new(limits.timeout).of_thread(thread, plan.threads),
            queue: VecDeque::new(),
            waiting: 0,
            backlog_max: 0,
            backoff: Backoff::default(),
            recorder: Recorder::new(limits),
            examples: Examples::default(),
            cpu: CpuMeter::new(limits.skip),
        }
    }

    /// Lets the next request that is due wait for a connection. Tells when that was; `None` when none is due now.
    pub(crate) fn admit(&mut self) -> Option<u64> {
        let now = self.clock.now();
        let due = self.starts.take(now, &self.backoff)?;
        self.recorder.arrived(due.intended, now);
        let of_visit = self.starts.of_visit(due, &mut self.mix, &mut self.users);
        let (request, user) = of_visit.unwrap_or_else(|| {
            let request = self.mix.draw();
            let session = self.prepared.templates[request as usize].session;
            (request, if session { self.users.take() } else { NONE })
        });
        let flight = self.flights.start(due.intended, request, user, due.member);
        self.flights.get_mut(flight.id).queued = true;
        self.queue.push_back(flight);
        self.waiting += 1;
        Some(now)
    }

    /// Notes how many wait, once those who found a connection have left.
    pub(crate) fn note_backlog(&mut self) {
        self.backlog_max = self.backlog_max.max(self.waiting);
    }

    /// Whether any arrival waits for a connection.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The first arrival that waits. Those whose time is over end on the way.
    pub(crate) fn first_waiting(&mut self, now: u64) -> Option<FlightRef> {
        while let Some(&front) = self.queue.front() {
            if !self.flights.is_live(front) {
                self.queue.pop_front();
            } else if self.flights.is_overdue(front.id, now) {
                self.end(front.id, Outcome::Unsent, 0, now);
            } else {
                return Some(front);
            }
        }
        None
    }

    /// The first that waits has a connection.
    pub(crate) fn leave_queue(&mut self) {
        if let Some(flight) = self.queue.pop_front() {
            self.waiting -= 1;
            self.flights.get_mut(flight.id).queued = false;
        }
    }

    /// Puts a flight back to the front of the queue.
    pub(crate) fn wait_again(&mut self, flight: FlightRef) {
        self.flights.get_mut(flight.id).queued = true;
        self.queue.push_front(flight);
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

    /// Judges a complete response to a flight, and tells how that has ended. Its user, if it has one, takes over what the
    /// response gives; of one that is not good, an example is kept.
    pub(crate) fn judge(&mut self, flight: &Flight, reply: &mut Reply<'_>) -> Outcome {
        let template = &self.prepared.templates[flight.request as usize];
        let mut missed = match template.accepts(reply.status) {
            true => reply.missed(),
            false => Some(Missed::Status),
        };
        if flight.user != NONE {
            // A bad response gives cookies like any other; its values are not looked at.
            match missed {
                None => missed = self.users.learn(flight.user, reply),
                Some(_) => self.users.learn_cookies(flight.user, reply),
            }
        }
        let Some(missed) = missed else {
            return Outcome::Ok;
        };
        let (outcome, status) = (missed.outcome(), reply.status);
        self.examples.add(outcome, status, flight.request, || {
            let body = readable(&reply.excerpt);
            let expected = missed.describe(&template.request);
            let (name, what) = (&template.name, outcome.name());
            format!("{name}: {what}, status {status}, {expected}: {body}")
        });
        outcome
    }

    /// Ends a flight: the one place where an arrival gets its outcome. Tells what it was, and whether the member whose
    /// it was goes on and so may keep a connection.
    pub(crate) fn end(
        &mut self,
        id: u32,
        outcome: Outcome,
        status: u16,
        now: u64,
    ) -> (Flight, bool) {
        let flight = self.flights.end(id);
        self.recorder.ended(&flight, outcome, status, now);
        self.waiting -= u64::from(flight.queued);
        let goes_on = self.starts.ended(&flight, outcome, now, &mut self.users);
        (flight, goes_on)
    }

    /// Looks at what is left to do.
    pub(crate) fn turn(&mut self, now: u64) -> Turn {
        let next_start = self.starts.next(now);
        self.cpu.observe(now, next_start.is_none());
        Turn {
            now,
            next_start,
            over: next_start.is_none() && self.flights.live() == 0,
        }
    }

    /// Hands over what was recorded so far, when it is time to.
    pub(crate) fn publish(&mut self, outbox: &Outbox, turn: Turn, connections: usize) {
        let Turn {
            now,
            next_start,
            over,
        } = turn;
        if !over && now < self.recorder.publish_at() {
            return;
        }
        // A response may still bring a request that is intended from now on, but none that was intended before.
        let until = next_start.unwrap_or(self.starts.end()).min(now);
        let floor = next_start.map_or(u64::MAX, |_| until);
        self.recorder.pass(until);
        let gauges = Gauges {
            connections: connections as u64,
            backlog: self.waiting,
        };
        self.recorder
            .publish(outbox, now, floor, gauges, over.then_some(now));
    }

    /// When there is something to do again. Arrivals within so many nanoseconds of the next leave together with it.
    pub(crate) fn wake_at(&mut self, turn: Turn, span_ns: u64) -> u64 {
        let Turn {
            now, next_start, ..
        } = turn;
        let mut wake = self.recorder.publish_at();
        let together = next_start.and_then(|_| self.starts.gather(span_ns, WAIT_NS));
        let mut start = together.or(next_start).unwrap_or(u64::MAX);
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
        wake.min(self.flights.next_deadline().unwrap_or(u64::MAX))
    }

    /// What is left behind.
    pub(crate) fn finish(self) -> Finished {
        Finished {
            cpu_share: self.cpu.share(),
            recorder: self.recorder,
            examples: self.examples,
            backlog_max: self.backlog_max,
            sessions: self.starts.session_counts(),
        }
    }
}
