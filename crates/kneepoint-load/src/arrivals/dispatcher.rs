//! Who starts the next request of a thread, and when: the schedule, a worker who is free, or one who has thought.

use crate::arrivals::mix::Mix;
use crate::arrivals::stream::{ArrivalStream, Upcoming};
use crate::arrivals::think_time::Pause;
use crate::arrivals::virtual_users::VirtualUsers;
use crate::connection::{Backoff, Kept};
use crate::in_flight::{InFlightRequest, NONE, nanos};
use crate::plan::{LoadPlan, Mode};
use crate::users::Users;
use kneepoint_model::{ClosedLoop, Outcome, SessionCounts};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the threads of one load share while it runs.
#[derive(Debug)]
pub(crate) struct Shared {
    /// No request starts after this time in nanoseconds: set when the load is ended early.
    pub(crate) cut: AtomicU64,
    /// Requests taken from the bound of a closed loop.
    taken: AtomicU64,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            cut: AtomicU64::new(u64::MAX),
            taken: AtomicU64::new(0),
        }
    }

    fn cut(&self) -> u64 {
        self.cut.load(Ordering::Relaxed)
    }

    fn is_spent(&self, bound: Option<u64>) -> bool {
        bound.is_some_and(|bound| self.taken.load(Ordering::Relaxed) >= bound)
    }

    /// Takes one request; false when there is none left.
    fn take(&self, bound: Option<u64>) -> bool {
        bound.is_none_or(|bound| {
            // Looking first keeps the count from running away once it is spent.
            !self.is_spent(Some(bound)) && self.taken.fetch_add(1, Ordering::Relaxed) < bound
        })
    }
}

/// A request that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Its intended start in nanoseconds.
    pub(crate) intended: u64,
    /// Whose it is, or [`NONE`] where all are alike.
    pub(crate) vu: u32,
}

#[derive(Debug)]
enum Source<'p> {
    /// Every arrival of the schedule is a request.
    Schedule(Upcoming<'p>),
    /// Every arrival of the schedule is a visitor, who comes back after a pause.
    Visitors {
        arrivals: Upcoming<'p>,
        virtual_users: VirtualUsers<'p>,
    },
    /// How many workers are free. They have nothing of their own, so that this is all there is to know.
    Free(u32),
    /// Workers who each have a time, a count or a session of their own.
    Workers(VirtualUsers<'p>),
}

/// What decides about the new requests of one thread.
///
/// Requests start in the order of their intended starts: one who thinks after a response goes on later than that
/// response, and whatever started before it was due by then. Deadlines and seconds rest on this.
#[derive(Debug)]
pub(crate) struct Dispatcher<'p> {
    source: Source<'p>,
    until: u64,
    /// Requests of all threads together after which none starts.
    bound: Option<u64>,
    shared: &'p Shared,
    /// Until when workers are or were last held back because the server refused connections.
    held: u64,
    /// The last intended start of the arrivals that are to leave together.
    together: u64,
    /// The same of those that are leaving.
    released: u64,
}

impl<'p> Dispatcher<'p> {
    /// The starts of thread number `thread`, which in a closed loop has so many workers.
    pub(crate) fn new(plan: &'p LoadPlan, shared: &'p Shared, thread: usize, workers: u32) -> Self {
        let (source, bound) = match &plan.mode {
            Mode::Open { schedule, arrivals } => {
                let numbers = plan.numbers(thread);
                let stream = ArrivalStream::new(schedule, *arrivals, plan.first, &numbers);
                let arrivals = Upcoming::new(stream);
                let source = match plan.workload.sessions {
                    None => Source::Schedule(arrivals),
                    Some(_) => Source::Visitors {
                        arrivals,
                        virtual_users: VirtualUsers::visitors(plan, thread),
                    },
                };
                (source, None)
            }
            Mode::Closed(closed) if is_plain(plan, closed) => {
                (Source::Free(workers), own_bound(plan, closed))
            }
            Mode::Closed(closed) => {
                let virtual_users = VirtualUsers::workers(plan, closed, thread);
                (Source::Workers(virtual_users), own_bound(plan, closed))
            }
        };
        Self {
            source,
            until: nanos(plan.mode.duration()),
            bound,
            shared,
            held: 0,
            together: 0,
            released: 0,
        }
    }

    /// When the load ends, as far as is known.
    pub(crate) fn end(&self) -> u64 {
        self.until.min(self.shared.cut())
    }

    /// Whether responses and not the schedule decide when all requests start.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.source, Source::Free(_) | Source::Workers(_))
    }

    /// When the next request starts: `None` when no more will. While it is not known (a response may decide) or
    /// there is none left (a schedule may end in a pause), the end of the load.
    pub(crate) fn next(&self, now: u64) -> Option<u64> {
        let (cut, end) = (self.shared.cut(), self.end());
        let waits = (now < end).then_some(end);
        let works = || waits.filter(|_| !self.shared.is_spent(self.bound));
        match &self.source {
            Source::Schedule(arrivals) => arrivals.first().filter(|at| *at <= cut).or(waits),
            Source::Visitors {
                arrivals,
                virtual_users,
            } => {
                let arrival = arrivals.first().filter(|at| *at <= cut);
                let back = virtual_users.next().filter(|at| *at < end);
                [arrival, back].into_iter().flatten().min().or(waits)
            }
            Source::Free(free) => works().map(|end| if *free > 0 { now } else { end }),
            Source::Workers(virtual_users) => works()
                .filter(|_| virtual_users.is_working())
                .map(|end| virtual_users.next().map_or(end, |at| at.min(end))),
        }
    }

    /// Puts the arrivals within a span of the next together, to leave when the first has waited for at most `wait_ns`.
    /// Tells when that is. Where responses have a say in what starts, nothing is known of what comes after the next.
    pub(crate) fn coalesce(&mut self, span_ns: u64, wait_ns: u64) -> Option<u64> {
        let cut = self.shared.cut();
        let Source::Schedule(arrivals) = &mut self.source else {
            return None;
        };
        let first = arrivals.first().filter(|at| *at <= cut)?;
        self.together = arrivals.last_within(span_ns)?.min(cut);
        Some(self.together.min(first.saturating_add(wait_ns)))
    }

    /// Takes a request that is due; `None` when there is none now.
    #[inline]
    pub(crate) fn take(&mut self, now: u64, backoff: &Backoff) -> Option<Arrival> {
        let cut = self.shared.cut();
        match &mut self.source {
            Source::Schedule(arrivals) => {
                let intended = arrivals.first().filter(|at| *at <= cut)?;
                if intended <= now {
                    // Those that were put together leave together.
                    self.released = self.together;
                } else if intended > self.released {
                    return None;
                }
                arrivals.advance();
                let vu = NONE;
                Some(Arrival { intended, vu })
            }
            Source::Visitors {
                arrivals,
                virtual_users,
            } => {
                let arrival = arrivals.first().filter(|at| *at <= now && *at <= cut);
                let end = self.until.min(cut);
                let back = virtual_users.next().filter(|at| *at <= now && *at < end);
                if let Some(intended) = back
                    && arrival.is_none_or(|first| intended <= first)
                {
                    let vu = virtual_users.wake()?;
                    return Some(Arrival { intended, vu });
                }
                let intended = arrival?;
                arrivals.advance();
                let vu = virtual_users.arrive();
                Some(Arrival { intended, vu })
            }
            Source::Free(free) => {
                let may = *free > 0 && now < self.until.min(cut) && !backoff.holds(now);
                if !may || !self.shared.take(self.bound) {
                    return None;
                }
                *free -= 1;
                let (intended, vu) = (now, NONE);
                Some(Arrival { intended, vu })
            }
            Source::Workers(virtual_users) => {
                let held = backoff.holds(now);
                self.held = if held {
                    backoff.until
                } else {
                    self.held.min(now).max(backoff.until)
                };
                let wakes = virtual_users.next().filter(|at| *at <= now)?;
                if held || now >= self.until.min(cut) || !self.shared.take(self.bound) {
                    return None;
                }
                let vu = virtual_users.wake()?;
                // A worker that was held back means to send when it may, which is no lateness of the generator.
                let intended = wakes.max(self.held);
                Some(Arrival { intended, vu })
            }
        }
    }

    /// Which request of a session is due, and as which user; `None` when it is one of the mix like any other.
    #[inline]
    pub(crate) fn of_session(
        &mut self,
        arrival: Arrival,
        mix: &mut Mix,
        users: &mut Users,
    ) -> Option<(u32, u32)> {
        if arrival.vu == NONE {
            return None;
        }
        self.virtual_users()?
            .request(arrival.vu, arrival.intended, mix, users)
    }

    /// A request has ended. Tells whether its virtual user goes on and so may keep a connection.
    #[inline]
    pub(crate) fn ended(
        &mut self,
        request: &InFlightRequest,
        outcome: Outcome,
        now: u64,
        users: &mut Users,
    ) -> bool {
        match &mut self.source {
            Source::Schedule(_) => {}
            Source::Free(free) => *free += 1,
            Source::Visitors { virtual_users, .. } | Source::Workers(virtual_users) => {
                // A visitor's user is the session's, from its first request to its last.
                if request.user != NONE && !virtual_users.has_sessions() {
                    users.give_back(request.user);
                }
                return virtual_users.ended(request.vu, outcome == Outcome::Ok, now, users);
            }
        }
        if request.user != NONE {
            users.give_back(request.user);
        }
        false
    }

    /// Remembers the connection that is kept for a virtual user.
    pub(crate) fn keep(&mut self, vu: u32, connection: Option<Kept>) {
        if let Some(virtual_users) = self.virtual_users() {
            virtual_users.keep(vu, connection);
        }
    }

    /// The connection that was kept for a virtual user, if there is one.
    #[inline]
    pub(crate) fn take_kept(&mut self, vu: u32) -> Option<Kept> {
        if vu == NONE {
            return None;
        }
        self.virtual_users()?.take_kept(vu)
    }

    /// What became of the sessions; `None` where there are none.
    pub(crate) fn session_counts(&self) -> Option<SessionCounts> {
        match &self.source {
            Source::Visitors { virtual_users, .. } | Source::Workers(virtual_users) => {
                virtual_users.session_counts()
            }
            Source::Schedule(_) | Source::Free(_) => None,
        }
    }

    fn virtual_users(&mut self) -> Option<&mut VirtualUsers<'p>> {
        match &mut self.source {
            Source::Visitors { virtual_users, .. } | Source::Workers(virtual_users) => {
                Some(virtual_users)
            }
            Source::Schedule(_) | Source::Free(_) => None,
        }
    }
}

/// Whether requests are due at some time. Those of a plain closed loop follow the responses, whenever they come.
pub(crate) fn has_due_times(plan: &LoadPlan) -> bool {
    match &plan.mode {
        Mode::Open { .. } => true,
        Mode::Closed(closed) => !is_plain(plan, closed),
    }
}

/// How many requests of a loop's bound are this generator's: none without a worker to make them.
fn own_bound(plan: &LoadPlan, closed: &ClosedLoop) -> Option<u64> {
    let own = plan.own(closed.workers.into());
    closed
        .requests
        .map(|all| if own == 0 { 0 } else { plan.own(all) })
}

/// Whether the workers of a loop have nothing of their own, so that counting the free ones is enough.
fn is_plain(plan: &LoadPlan, closed: &ClosedLoop) -> bool {
    closed.ramp.is_zero()
        && closed.loops.is_none()
        && Pause::new(&closed.think_time).is_none()
        && plan.workload.sessions.is_none()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::Target;
    use kneepoint_model::{Address, Arrivals, Sessions, ThinkTime, Workload};
    use std::time::Duration;

    /// A plan for a target that is never connected to.
    pub(crate) fn plan(mode: Mode, sessions: Option<Sessions>) -> LoadPlan {
        let target = Target::http(Address::Unix("/x".into()), "x");
        let workload = Workload {
            sessions,
            ..Workload::single("/")
        };
        LoadPlan::new(target, workload, mode)
    }

    fn closed(change: impl FnOnce(&mut ClosedLoop)) -> Mode {
        let mut closed = ClosedLoop::new(2, Duration::from_nanos(1000));
        change(&mut closed);
        Mode::Closed(closed)
    }

    /// Serves every request at once, in `service` nanoseconds each, and returns the intended starts.
    fn served(plan: &LoadPlan, service: u64) -> Vec<u64> {
        let (shared, backoff) = (Shared::new(), Backoff::default());
        let mut dispatcher = Dispatcher::new(plan, &shared, 0, 2);
        let (mut mix, mut users) = (Mix::new(&plan.workload, 1, 0), Users::new(10));
        let mut in_flight = crate::in_flight::InFlight::new(u64::MAX);
        // Ends to come, in order: all take the same time.
        let mut ends = std::collections::VecDeque::new();
        let (mut now, mut seen) = (1, Vec::new());
        for _ in 0..10_000 {
            while let Some(arrival) = dispatcher.take(now, &backoff) {
                seen.push(arrival.intended);
                let session = dispatcher.of_session(arrival, &mut mix, &mut users);
                let (request, user) = session.unwrap_or((0, NONE));
                let request = in_flight.start(arrival.intended, request, user, arrival.vu);
                ends.push_back((now + service, request.id));
            }
            let next = dispatcher.next(now);
            match ends.front().copied() {
                Some((at, id)) if next.is_none_or(|next| at <= next) => {
                    ends.pop_front();
                    now = at;
                    let request = in_flight.end(id);
                    dispatcher.ended(&request, Outcome::Ok, now, &mut users);
                }
                _ => match next {
                    Some(next) => now = next.max(now),
                    None => return seen,
                },
            }
        }
        panic!("it does not end: {seen:?}");
    }

    fn check(plan: &LoadPlan, service: u64, expected: &[u64]) {
        let got = served(plan, service);
        // A time of the schedule may be a nanosecond short of what it is on paper.
        let near = |(a, b): (&u64, &u64)| a.abs_diff(*b) <= 1;
        let same = got.len() == expected.len() && got.iter().zip(expected).all(near);
        assert!(same, "{:?}: {got:?} and not {expected:?}", plan.mode);
    }

    #[test]
    fn free_workers_start_until_the_loop_ends() {
        check(
            &plan(closed(|_| {}), None),
            400,
            &[1, 1, 401, 401, 801, 801],
        );
    }

    #[test]
    fn a_bound_on_requests_is_met_exactly() {
        check(
            &plan(closed(|c| c.requests = Some(3)), None),
            400,
            &[1, 1, 401],
        );
        let with_ramp = closed(|c| {
            c.requests = Some(3);
            c.ramp = Duration::from_nanos(200);
        });
        check(&plan(with_ramp, None), 400, &[0, 100, 401]);
    }

    /// The numbers of requests are dealt out apart from the workers, and nobody could send these.
    #[test]
    fn a_generator_without_a_worker_waits_for_nobody() {
        let mut plan = plan(closed(|c| c.requests = Some(8)), None);
        plan.share = crate::plan::Share::new(vec![3], 4);
        let shared = Shared::new();
        assert_eq!(Dispatcher::new(&plan, &shared, 0, 0).next(0), None);
        plan.share = crate::plan::Share::new(vec![0], 4);
        assert_eq!(Dispatcher::new(&plan, &shared, 0, 1).next(0), Some(0));
    }

    #[test]
    fn workers_start_over_the_ramp_think_and_end_with_their_loops() {
        let mode = closed(|c| {
            c.ramp = Duration::from_nanos(200);
            c.think_time = ThinkTime::Fixed(Duration::from_nanos(50));
            c.loops = Some(2);
        });
        // Worker 0 starts at 0 (and is served from 1 to 31), worker 1 at 100.
        check(&plan(mode, None), 30, &[0, 81, 100, 180]);
    }

    #[test]
    fn nobody_starts_after_the_end() {
        let mode = closed(|c| c.think_time = ThinkTime::Fixed(Duration::from_nanos(900)));
        check(&plan(mode, None), 200, &[0, 0]);
    }

    #[test]
    fn visitors_come_by_schedule_and_come_back_after_their_responses() {
        let mode = Mode::Open {
            // Arrivals at 0, 400 and 800 of 1200 nanoseconds.
            schedule: "const(2500000,0.0000012)".parse().expect("valid"),
            arrivals: Arrivals::Even,
        };
        let sessions = Sessions {
            lengths: vec![(3, 1.0)],
            think_time: ThinkTime::Fixed(Duration::from_nanos(100)),
            ..Sessions::default()
        };
        // The first is served from 1 to 51 and comes back at 151, the others likewise; 1200 is the end.
        check(
            &plan(mode, Some(sessions)),
            50,
            &[0, 151, 301, 400, 550, 700, 800, 950, 1100],
        );
    }

    #[test]
    fn visits_under_way_make_no_request_beyond_the_end_of_the_schedule() {
        let mode = Mode::Open {
            schedule: "const(1000000,0.000001)".parse().expect("valid"),
            arrivals: Arrivals::Even,
        };
        let sessions = Sessions {
            lengths: vec![(9, 1.0)],
            think_time: ThinkTime::Fixed(Duration::from_nanos(300)),
            ..Sessions::default()
        };
        check(&plan(mode, Some(sessions)), 50, &[0, 351, 701]);
    }

    /// Woken when it asks to be, a thread sends all that were put together, and nothing else before its time.
    #[test]
    fn arrivals_close_to_one_another_leave_together() {
        let mode = Mode::Open {
            // One every 200 ns.
            schedule: "const(5000000,0.000002)".parse().expect("valid"),
            arrivals: Arrivals::Even,
        };
        let plan = plan(mode, None);
        let (shared, backoff) = (Shared::new(), Backoff::default());
        let mut dispatcher = Dispatcher::new(&plan, &shared, 0, 0);
        let left = |now, dispatcher: &mut Dispatcher<'_>| {
            let arrivals = std::iter::from_fn(|| dispatcher.take(now, &backoff));
            arrivals
                .map(|arrival| arrival.intended.next_multiple_of(10))
                .collect::<Vec<_>>()
        };
        assert_eq!(left(1, &mut dispatcher), [0]);
        let wake = dispatcher.coalesce(450, 100).expect("there are more");
        assert!(wake.abs_diff(300) <= 1, "{wake}");
        assert_eq!(
            left(199, &mut dispatcher),
            [0; 0],
            "not before the first is due"
        );
        assert_eq!(left(wake, &mut dispatcher), [200, 400, 600]);
        assert_eq!(left(wake, &mut dispatcher), [0; 0]);
        // Close to one another within the wait, none is early.
        let wake = dispatcher.coalesce(250, 300).expect("there are more");
        assert!(wake.abs_diff(1000) <= 1, "{wake}");
        assert_eq!(left(wake + 1, &mut dispatcher), [800, 1000]);
        // Without a span, each leaves at its own moment.
        let wake = dispatcher.coalesce(0, 100).expect("there are more");
        assert!(wake.abs_diff(1200) <= 1, "{wake}");
        assert_eq!(left(wake + 1, &mut dispatcher), [1200]);
    }

    #[test]
    fn a_worker_that_was_held_back_is_not_late() {
        let mode = closed(|c| {
            c.duration = Duration::from_secs(1);
            c.ramp = Duration::from_nanos(20);
        });
        let plan = plan(mode, None);
        let shared = Shared::new();
        let mut dispatcher = Dispatcher::new(&plan, &shared, 0, 2);
        let mut backoff = Backoff::default();
        backoff.refused(100);
        let may = backoff.until;
        assert!(may > 100, "there is a pause");
        assert_eq!(dispatcher.take(100, &backoff), None);
        let first = dispatcher.take(may, &backoff).expect("both are due");
        assert_eq!(first.intended, may);

        // A connection that succeeds in the meantime ends the pause: it is not late then, and not early.
        backoff.refused(may);
        assert_eq!(dispatcher.take(may + 1, &backoff), None);
        backoff.connected();
        let second = dispatcher.take(may + 2, &backoff).expect("the other one");
        assert_eq!(second.intended, may + 2);
    }
}
