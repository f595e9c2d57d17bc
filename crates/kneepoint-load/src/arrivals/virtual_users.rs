//! Virtual users: those who start requests at times of their own. Workers of a closed loop with a pause, a count or a
//! session, and visitors of an open one who come back.

use crate::arrivals::mix::Mix;
use crate::arrivals::random::{Purpose, Random};
use crate::arrivals::sessions::{Session, ThreadSessions};
use crate::arrivals::think_time::Pause;
use crate::connection::Kept;
use crate::in_flight::nanos;
use crate::plan::LoadPlan;
use crate::users::Users;
use kneepoint_model::{ClosedLoop, SessionCounts};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A worker of a closed loop, or a visitor of an open one.
#[derive(Debug, Clone, Copy)]
struct VirtualUser {
    /// Requests it may still make; without a bound, more than it ever will.
    left: u64,
    session: Option<Session>,
    /// The connection that is kept for it.
    connection: Option<Kept>,
}

/// The workers or visitors of one thread, in memory that is used again.
#[derive(Debug)]
pub(crate) struct VirtualUsers<'p> {
    all: Vec<VirtualUser>,
    /// Places of visitors who have left.
    free: Vec<u32>,
    /// When those who think go on, the earliest on top.
    thinking: BinaryHeap<Reverse<(u64, u32)>>,
    /// Workers who may still make requests; visitors are not counted.
    working: u32,
    /// Pause of a worker after a request, or after a session if there are any. Visitors have none: they leave.
    rest: Option<Pause<'p>>,
    sessions: Option<ThreadSessions<'p>>,
    random: Random,
}

impl<'p> VirtualUsers<'p> {
    /// The visitors of an open loop: nobody yet.
    pub(crate) fn visitors(plan: &'p LoadPlan, thread: usize) -> Self {
        let sessions = plan.workload.sessions.as_ref();
        Self {
            all: Vec::new(),
            free: Vec::new(),
            thinking: BinaryHeap::new(),
            working: 0,
            rest: None,
            sessions: sessions.map(|sessions| ThreadSessions::new(sessions, nanos(plan.skip))),
            random: Random::new(plan.seed, Purpose::Visitors, plan.numbers(thread).stretch()),
        }
    }

    /// The workers of a closed loop: worker *i* of *n* begins at *i ramp/n*, and thread *t* of *T* has those with
    /// *i* = *t* (mod *T*).
    pub(crate) fn workers(plan: &'p LoadPlan, closed: &'p ClosedLoop, thread: usize) -> Self {
        let mut virtual_users = Self {
            rest: Some(Pause::new(&closed.think_time)),
            ..Self::visitors(plan, thread)
        };
        let (ramp, workers) = (nanos(closed.ramp), u64::from(closed.workers));
        let numbers = plan.numbers(thread);
        let mut counter = numbers.counter();
        for _ in 0..numbers.count_below(workers) {
            let number = counter.take();
            let begins = u128::from(ramp) * u128::from(number) / u128::from(workers);
            let vu = virtual_users.enter(closed.loops.unwrap_or(u64::MAX));
            virtual_users.thinking.push(Reverse((begins as u64, vu)));
            virtual_users.working += 1;
        }
        virtual_users
    }

    fn enter(&mut self, left: u64) -> u32 {
        let vu = VirtualUser {
            left,
            session: None,
            connection: None,
        };
        match self.free.pop() {
            Some(place) => {
                self.all[place as usize] = vu;
                place
            }
            None => {
                self.all.push(vu);
                self.all.len() as u32 - 1
            }
        }
    }

    /// A visitor comes.
    pub(crate) fn arrive(&mut self) -> u32 {
        self.enter(u64::MAX)
    }

    /// When the next of those who think goes on.
    pub(crate) fn next(&self) -> Option<u64> {
        self.thinking.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the one whose time that is.
    pub(crate) fn wake(&mut self) -> Option<u32> {
        self.thinking.pop().map(|Reverse((_, vu))| vu)
    }

    /// Whether a worker may still make requests.
    pub(crate) fn is_working(&self) -> bool {
        self.working > 0
    }

    /// Whether they run sessions, and are one user from the first request of a session to its last.
    pub(crate) fn has_sessions(&self) -> bool {
        self.sessions.is_some()
    }

    /// A virtual user makes a request. In a session: which one, and as which user.
    pub(crate) fn request(
        &mut self,
        vu: u32,
        intended: u64,
        mix: &mut Mix,
        users: &mut Users,
    ) -> Option<(u32, u32)> {
        let vu = &mut self.all[vu as usize];
        vu.left -= 1;
        let sessions = self.sessions.as_mut()?;
        let session = vu
            .session
            .get_or_insert_with(|| sessions.begin(intended, &mut self.random, users));
        Some((sessions.request(session, mix), session.user))
    }

    /// A virtual user's request has ended. Tells whether it goes on; a visitor who does not has left.
    pub(crate) fn ended(&mut self, id: u32, ok: bool, now: u64, users: &mut Users) -> bool {
        let vu = &mut self.all[id as usize];
        let may_go_on = vu.left > 0;
        let mut pause = self.rest.as_ref();
        if let (Some(sessions), Some(session)) = (&mut self.sessions, vu.session) {
            if ok && !session.is_over() && may_go_on {
                pause = Some(&sessions.pause);
            } else {
                sessions.end(&session, ok, users);
                vu.session = None;
            }
        }
        match pause {
            Some(pause) if may_go_on => {
                let wakes = now.saturating_add(pause.draw(&mut self.random));
                self.thinking.push(Reverse((wakes, id)));
                true
            }
            Some(_) => {
                self.working -= 1;
                false
            }
            None => {
                self.free.push(id);
                false
            }
        }
    }

    /// Remembers the connection that is kept for a virtual user.
    pub(crate) fn keep(&mut self, vu: u32, connection: Option<Kept>) {
        self.all[vu as usize].connection = connection;
    }

    /// The connection that was kept for a virtual user.
    pub(crate) fn take_kept(&mut self, vu: u32) -> Option<Kept> {
        self.all[vu as usize].connection.take()
    }

    /// What became of the sessions.
    pub(crate) fn session_counts(&self) -> Option<SessionCounts> {
        self.sessions.as_ref().map(|sessions| sessions.counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::dispatcher::tests::plan;
    use crate::plan::Mode;
    use kneepoint_model::{Arrivals, Script, Sessions, ThinkTime};
    use std::time::Duration;

    fn closed(change: impl FnOnce(&mut ClosedLoop)) -> Mode {
        let mut closed = ClosedLoop::new(1, Duration::from_secs(1));
        change(&mut closed);
        Mode::Closed(closed)
    }

    fn virtual_users(plan: &LoadPlan, thread: usize) -> VirtualUsers<'_> {
        match &plan.mode {
            Mode::Closed(closed) => VirtualUsers::workers(plan, closed, thread),
            Mode::Open { .. } => VirtualUsers::visitors(plan, thread),
        }
    }

    fn begins(virtual_users: &mut VirtualUsers<'_>) -> Vec<u64> {
        std::iter::from_fn(|| {
            let at = virtual_users.next()?;
            virtual_users.wake().map(|_| at)
        })
        .collect()
    }

    #[test]
    fn workers_begin_evenly_over_the_ramp_whatever_the_threads() {
        for threads in [1, 2, 3] {
            let mode = closed(|c| {
                c.workers = 7;
                c.ramp = Duration::from_nanos(700);
            });
            let mut plan = plan(mode, None);
            plan.threads = threads;
            let mut all: Vec<u64> = (0..threads)
                .flat_map(|thread| begins(&mut virtual_users(&plan, thread)))
                .collect();
            all.sort_unstable();
            assert_eq!(all, [0, 100, 200, 300, 400, 500, 600], "{threads} threads");
        }
    }

    #[test]
    fn a_worker_goes_on_after_its_pause_until_its_loops_are_made() {
        let mode = closed(|c| {
            c.think_time = ThinkTime::Fixed(Duration::from_nanos(50));
            c.loops = Some(2);
        });
        let plan = plan(mode, None);
        let mut virtual_users = virtual_users(&plan, 0);
        let (mut mix, mut users) = (Mix::new(&plan.workload, 1, 0), Users::new(1));
        let worker = virtual_users.wake().expect("one worker");
        assert_eq!(virtual_users.request(worker, 0, &mut mix, &mut users), None);
        // A failure is no reason to stop working.
        assert!(virtual_users.ended(worker, false, 1000, &mut users));
        assert_eq!(virtual_users.next(), Some(1050));
        assert_eq!(virtual_users.wake(), Some(worker));
        virtual_users.request(worker, 1050, &mut mix, &mut users);
        assert!(virtual_users.is_working());
        assert!(!virtual_users.ended(worker, true, 2000, &mut users));
        assert!(!virtual_users.is_working() && virtual_users.next().is_none());
    }

    #[test]
    fn a_worker_is_one_visitor_after_the_other() {
        let sessions = Sessions {
            scripts: vec![Script {
                name: "two".into(),
                weight: 1.0,
                requests: vec![0, 0],
            }],
            think_time: ThinkTime::Fixed(Duration::from_nanos(5)),
            ..Sessions::default()
        };
        let mode = closed(|c| c.think_time = ThinkTime::Fixed(Duration::from_nanos(70)));
        let plan = plan(mode, Some(sessions));
        let mut virtual_users = virtual_users(&plan, 0);
        let (mut mix, mut users) = (Mix::new(&plan.workload, 1, 0), Users::new(3));
        let mut seen = Vec::new();
        for ok in [true, true, false, true] {
            let at = virtual_users.next().expect("it goes on");
            let worker = virtual_users.wake().expect("it goes on");
            let made = virtual_users.request(worker, at, &mut mix, &mut users);
            seen.push((at, made.expect("a session").1));
            assert!(virtual_users.ended(worker, ok, at + 100, &mut users));
        }
        let user = |index: usize| seen[index].1;
        assert_eq!(user(0), user(1), "the same visitor");
        assert!(user(1) != user(2) && user(2) != user(3), "others");
        let times: Vec<u64> = seen.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [0, 105, 275, 445]);
        let counts = virtual_users.session_counts().expect("sessions");
        assert_eq!(
            (counts.started, counts.completed, counts.broken_off),
            (3, 1, 1)
        );
        assert_eq!(counts.unfinished(), 1);
    }

    #[test]
    fn a_visitor_who_leaves_makes_place_for_another() {
        let sessions = Sessions {
            lengths: vec![(1, 1.0)],
            ..Sessions::default()
        };
        let mode = Mode::Open {
            schedule: "const(1,1)".parse().expect("valid"),
            arrivals: Arrivals::Even,
        };
        let plan = plan(mode, Some(sessions));
        let mut virtual_users = virtual_users(&plan, 0);
        let (mut mix, mut users) = (Mix::new(&plan.workload, 1, 0), Users::new(3));
        let first = virtual_users.arrive();
        let other = virtual_users.arrive();
        assert_ne!(first, other);
        virtual_users.request(first, 0, &mut mix, &mut users);
        assert!(!virtual_users.ended(first, true, 10, &mut users));
        assert_eq!(virtual_users.next(), None, "one request was all");
        assert_eq!(virtual_users.arrive(), first);
    }
}
