//! The requests of one thread: who starts when, who waits for a connection, how each ended.
//!
//! Whatever transport they go out on, each gets its outcome in one place.

mod prepared;

pub(crate) use prepared::Prepared;

use crate::arrivals::{Dispatcher, Mix, Shared};
use crate::connection::Backoff;
use crate::in_flight::{Clock, InFlight, InFlightRequest, NONE, RequestRef, nanos};
use crate::measure::{CpuMeter, Examples, Finished, Gauges, Limits, Mailbox, Recorder};
use crate::plan::{LoadPlan, Mode};
use crate::response::{FailedExpectation, Reply, readable};
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
pub(crate) struct RequestLedger<'p> {
    prepared: &'p Prepared,
    pub(crate) clock: Clock,
    pub(crate) dispatcher: Dispatcher<'p>,
    mix: Mix,
    pub(crate) users: Users,
    pub(crate) in_flight: InFlight,
    /// Arrivals that wait for a connection; some may have ended since.
    queue: VecDeque<RequestRef>,
    /// How many of the queue are still waiting.
    waiting: u64,
    backlog_max: u64,
    pub(crate) backoff: Backoff,
    pub(crate) recorder: Recorder,
    pub(crate) examples: Examples,
    cpu: CpuMeter,
}

impl<'p> RequestLedger<'p> {
    /// Thread number `thread`, with its share of arrivals, users and workers.
    pub(crate) fn new(
        plan: &'p LoadPlan,
        prepared: &'p Prepared,
        shared: &'p Shared,
        clock: Clock,
        thread: usize,
    ) -> Self {
        let numbers = plan.numbers(thread);
        let workers = match &plan.mode {
            Mode::Open { .. } => 0,
            Mode::Closed(closed) => numbers.count_below(u64::from(closed.workers)),
        };
        let users = numbers.count_below(u64::from(plan.workload.users));
        let limits = Limits {
            skip: nanos(plan.skip),
            good: nanos(plan.slo.response_time),
            timeout: nanos(plan.slo.timeout),
            slowest: plan.slowest,
        };
        Self {
            prepared,
            clock,
            dispatcher: Dispatcher::new(plan, shared, thread, workers as u32),
            mix: Mix::new(&plan.workload, plan.seed, numbers.stretch()),
            users: Users::new(users as u32).provided(plan, thread),
            in_flight: InFlight::new(limits.timeout)
                .numbered(numbers.stretch() as u64, numbers.apart()),
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
        let arrival = self.dispatcher.take(now, &self.backoff)?;
        self.recorder.arrived(arrival.intended, now);
        let of_session = self
            .dispatcher
            .of_session(arrival, &mut self.mix, &mut self.users);
        let (template, user) = of_session.unwrap_or_else(|| {
            let template = self.mix.draw();
            let session = self.prepared.templates[template as usize].session;
            (template, if session { self.users.take() } else { NONE })
        });
        let request = self
            .in_flight
            .start(arrival.intended, template, user, arrival.vu);
        self.in_flight.get_mut(request.id).queued = true;
        self.queue.push_back(request);
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
    pub(crate) fn first_waiting(&mut self, now: u64) -> Option<RequestRef> {
        while let Some(&front) = self.queue.front() {
            if !self.in_flight.is_live(front) {
                self.queue.pop_front();
            } else if self.in_flight.is_overdue(front.id, now) {
                self.end(front.id, Outcome::Unsent, 0, now);
            } else {
                return Some(front);
            }
        }
        None
    }

    /// The first that waits has a connection.
    pub(crate) fn leave_queue(&mut self) {
        if let Some(request) = self.queue.pop_front() {
            self.waiting -= 1;
            self.in_flight.get_mut(request.id).queued = false;
        }
    }

    /// Puts a request back to the front of the queue.
    pub(crate) fn wait_again(&mut self, request: RequestRef) {
        self.in_flight.get_mut(request.id).queued = true;
        self.queue.push_front(request);
        self.waiting += 1;
    }

    /// Puts a request back to the front of the queue, to go out once more on a new connection.
    pub(crate) fn send_again(&mut self, id: u32) {
        let request = self.in_flight.get_mut(id);
        request.retried = true;
        request.connection = NONE;
        self.recorder.sent_again(request.intended);
        let reference = self.in_flight.reference(id);
        self.wait_again(reference);
    }

    /// A server that accepts connections and drops them unanswered has no room for more. An open loop goes on as its
    /// schedule says; a closed one would only spin, and take the CPU that the stack needs to answer the rest.
    pub(crate) fn dropped_unanswered(&mut self, now: u64) {
        if self.dispatcher.is_closed() {
            self.backoff.refused(now);
        }
    }

    /// Ends every waiting arrival like the one whose attempt to connect they waited for.
    pub(crate) fn end_waiting(&mut self, outcome: Outcome, now: u64) {
        while let Some(waiting) = self.queue.pop_front() {
            if self.in_flight.is_live(waiting) {
                self.end(waiting.id, outcome, 0, now);
            }
        }
    }

    /// Judges a complete response to a request, and tells how that has ended. Its user, if it has one, takes over what the
    /// response gives; of one that is not good, an example is kept.
    pub(crate) fn judge(&mut self, request: &InFlightRequest, reply: &mut Reply<'_>) -> Outcome {
        let template = &self.prepared.templates[request.template as usize];
        let mut failed = match template.accepts(reply.status) {
            true => reply.failed_expectation(),
            false => Some(FailedExpectation::Status),
        };
        if request.user != NONE {
            // A bad response gives cookies like any other; its values are not looked at.
            match failed {
                None => failed = self.users.learn(request.user, reply),
                Some(_) => self.users.learn_cookies(request.user, reply),
            }
        }
        let Some(failed) = failed else {
            return Outcome::Ok;
        };
        let (outcome, status) = (failed.outcome(), reply.status);
        self.examples.add(outcome, status, request.template, || {
            let body = readable(&reply.excerpt);
            let expected = failed.describe(&template.request);
            let (name, what) = (&template.name, outcome.name());
            format!("{name}: {what}, status {status}, {expected}: {body}")
        });
        outcome
    }

    /// Keeps an example of a request that could not be sent.
    pub(crate) fn not_sent(&mut self, template: u32, why: impl FnOnce() -> String) {
        let prepared = self.prepared;
        self.examples.add(Outcome::NoValue, 0, template, || {
            let name = &prepared.templates[template as usize].name;
            format!("{name}: not sent: {}", why())
        });
    }

    /// Ends a request: the one place where an arrival gets its outcome. Tells what it was, and whether its virtual user
    /// goes on and so may keep a connection.
    pub(crate) fn end(
        &mut self,
        id: u32,
        outcome: Outcome,
        status: u16,
        now: u64,
    ) -> (InFlightRequest, bool) {
        let request = self.in_flight.end(id);
        self.recorder.ended(&request, outcome, status, now);
        self.waiting -= u64::from(request.queued);
        let goes_on = self
            .dispatcher
            .ended(&request, outcome, now, &mut self.users);
        (request, goes_on)
    }

    /// Looks at what is left to do.
    pub(crate) fn turn(&mut self, now: u64) -> Turn {
        let next_start = self.dispatcher.next(now);
        self.cpu.observe(now, next_start.is_none());
        Turn {
            now,
            next_start,
            over: next_start.is_none() && self.in_flight.live() == 0,
        }
    }

    /// Hands over what was recorded so far, when it is time to.
    pub(crate) fn publish(&mut self, mailbox: &Mailbox, turn: Turn, connections: usize) {
        let Turn {
            now,
            next_start,
            over,
        } = turn;
        if !over && now < self.recorder.publish_at() {
            return;
        }
        // A response may still bring a request that is intended from now on, but none that was intended before.
        let until = next_start.unwrap_or(self.dispatcher.end()).min(now);
        let floor = next_start.map_or(u64::MAX, |_| until);
        self.recorder.pass(until);
        let gauges = Gauges {
            connections: connections as u64,
            backlog: self.waiting,
        };
        self.recorder
            .publish(mailbox, now, floor, gauges, over.then_some(now));
    }

    /// When there is something to do again. Arrivals within so many nanoseconds of the next leave together with it.
    pub(crate) fn wake_at(&mut self, turn: Turn, span_ns: u64) -> u64 {
        let Turn {
            now, next_start, ..
        } = turn;
        let mut wake = self.recorder.publish_at();
        let together = next_start.and_then(|_| self.dispatcher.coalesce(span_ns, WAIT_NS));
        let mut start = together.or(next_start).unwrap_or(u64::MAX);
        if self.backoff.holds(now) {
            let again = self.backoff.until;
            if self.waiting > 0 {
                wake = wake.min(again);
            }
            // Workers wait for it, too, but not beyond the end of their loop.
            if self.dispatcher.is_closed() && next_start.is_some() {
                start = start.max(again).min(self.dispatcher.end());
            }
        }
        wake = wake.min(start);
        wake.min(self.in_flight.next_deadline().unwrap_or(u64::MAX))
    }

    /// What is left behind.
    pub(crate) fn finish(self) -> Finished {
        Finished {
            cpu_share: self.cpu.share(),
            recorder: self.recorder,
            examples: self.examples,
            backlog_max: self.backlog_max,
            sessions: self.dispatcher.session_counts(),
        }
    }
}
