//! Users: their cookies, what they captured, their rows of the feeders.
//!
//! One jar shared by all would serialise the load on one session lock.

pub(crate) mod cookies;
mod feeder;

use crate::in_flight::NONE;
use crate::plan::{LoadPlan, Numbers};
use crate::request::{RequestId, Values};
use crate::response::{FailedExpectation, Reply};
use cookies::Jar;
use feeder::Rows;
use kneepoint_model::ValueSource;
use kneepoint_model::Workload;
use std::cell::OnceCell;
use std::collections::VecDeque;

/// A captured value, in memory that is used again.
#[derive(Debug, Default, Clone)]
struct Captured {
    there: bool,
    bytes: Vec<u8>,
}

/// What one user has.
#[derive(Debug, Default, Clone)]
struct User {
    jar: Jar,
    /// By the number of the value; values beyond the end were never captured.
    captured: Vec<Captured>,
    /// Indices of rows, one per feeder; empty until they are needed.
    rows: Vec<u32>,
}

impl User {
    fn forget(&mut self) {
        self.jar.clear();
        self.captured
            .iter_mut()
            .for_each(|value| value.there = false);
        self.rows.clear();
    }
}

/// What the next request of a user is made of.
#[derive(Debug)]
pub(crate) struct VariableValues<'u> {
    user: &'u User,
    rows: &'u Rows,
    number: u64,
    /// Made where it is asked for: most requests carry none.
    id: OnceCell<RequestId>,
}

impl<'u> VariableValues<'u> {
    /// The value of the `Cookie` header; empty without cookies.
    pub(crate) fn cookies(&self) -> &'u str {
        self.user.jar.line()
    }
}

impl Values for VariableValues<'_> {
    fn value(&self, source: ValueSource) -> Option<&[u8]> {
        match source {
            ValueSource::Captured(number) => {
                let value = self.user.captured.get(number)?;
                value.there.then_some(value.bytes.as_slice())
            }
            ValueSource::Column { feeder, column } => {
                let row = *self.user.rows.get(feeder)?;
                self.rows.value(feeder, row, column)
            }
            ValueSource::RequestId => {
                let id = self.id.get_or_init(|| RequestId::of(self.number));
                Some(id.as_bytes())
            }
        }
    }
}

/// The users of one thread. A user who is free serves next, in turn; when all are busy, the turn goes on among
/// the busy ones, like a visitor with two tabs, since the schedule and not the server decides when to start.
///
/// Without visits a user stays who he is: he keeps his cookies, his rows and what he captured. With visits somebody
/// new comes each time, who has nothing yet and shares nothing: there are as many as visits are under way.
#[derive(Debug)]
pub(crate) struct Users {
    all: Vec<User>,
    in_flight: Vec<u32>,
    free: VecDeque<u32>,
    turn: u32,
    visits: bool,
    rows: Rows,
    /// Whoever sends a request that belongs to no user: he takes rows for it alone.
    nobody: User,
    scratch: Vec<u8>,
}

impl Users {
    pub(crate) fn new(count: u32) -> Self {
        let count = count.max(1);
        Self {
            all: vec![User::default(); count as usize],
            in_flight: vec![0; count as usize],
            free: (0..count).collect(),
            turn: 0,
            visits: false,
            rows: Rows::new(&[], 0, &Numbers::of_thread(None, 0, 1)),
            nobody: User::default(),
            scratch: Vec::new(),
        }
    }

    /// The same users with the feeders of a plan, as one of its threads has them.
    pub(crate) fn provided(self, plan: &LoadPlan, thread: usize) -> Self {
        let workload = &plan.workload;
        Self {
            visits: workload.sessions.is_some(),
            rows: Rows::new(&workload.feeders, plan.seed, &plan.numbers(thread)),
            ..self
        }
    }

    /// A single user of a workload, who goes through it once.
    pub(crate) fn rehearsing(workload: &Workload) -> Self {
        Self {
            visits: workload.sessions.is_some(),
            rows: Rows::new(&workload.feeders, 0, &Numbers::of_thread(None, 0, 1)),
            ..Self::new(1)
        }
    }

    /// Whose turn it is.
    pub(crate) fn take(&mut self) -> u32 {
        let user = match self.free.pop_front() {
            Some(user) => user,
            // Two visitors with one jar would undo each other's login.
            None if self.visits => {
                self.all.push(User::default());
                self.in_flight.push(0);
                self.all.len() as u32 - 1
            }
            None => {
                self.turn = (self.turn + 1) % self.all.len() as u32;
                self.turn
            }
        };
        self.in_flight[user as usize] += 1;
        user
    }

    /// One request of the user has ended, or his visit.
    pub(crate) fn give_back(&mut self, user: u32) {
        let in_flight = &mut self.in_flight[user as usize];
        *in_flight -= 1;
        if *in_flight == 0 {
            self.free.push_back(user);
            if self.visits {
                self.all[user as usize].forget();
            }
        }
    }

    pub(crate) fn jar(&self, user: u32) -> &Jar {
        &self.all[user as usize].jar
    }

    /// Takes over the cookies of a response of the user.
    pub(crate) fn learn_cookies(&mut self, user: u32, reply: &Reply<'_>) {
        let jar = &mut self.all[user as usize].jar;
        reply.cookies.iter().for_each(|cookie| jar.store(cookie));
    }

    /// What the next request of a user, or of nobody, is made of, by its number; and a buffer for whoever writes it.
    pub(crate) fn values_for(
        &mut self,
        user: u32,
        number: u64,
    ) -> (VariableValues<'_>, &mut Vec<u8>) {
        let user = if user == NONE {
            self.rows.take(&mut self.nobody.rows);
            &self.nobody
        } else {
            let user = &mut self.all[user as usize];
            if user.rows.is_empty() {
                self.rows.take(&mut user.rows);
            }
            user
        };
        let values = VariableValues {
            user,
            rows: &self.rows,
            number,
            id: OnceCell::new(),
        };
        (values, &mut self.scratch)
    }

    /// Takes over what a response of the user gives: its cookies and its values. Tells which value was not there; it
    /// is not there for later requests either.
    pub(crate) fn learn(&mut self, user: u32, reply: &mut Reply<'_>) -> Option<FailedExpectation> {
        self.learn_cookies(user, reply);
        let User { jar, captured, .. } = &mut self.all[user as usize];
        reply.take_values(
            |name| jar.get(name),
            |number, value| {
                if captured.len() <= number {
                    captured.resize_with(number + 1, Captured::default);
                }
                let kept = &mut captured[number];
                kept.there = value.is_some();
                kept.bytes.clear();
                kept.bytes.extend_from_slice(value.unwrap_or_default());
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Mode, Target};
    use crate::response::Expectations;
    use kneepoint_model::VariableNames;
    use kneepoint_model::{Address, Arrivals, Capture, CaptureFrom, Feeder, RowOrder, Sessions};
    use proptest::prelude::*;

    fn check(headers: &[&str], line: &str) {
        let mut jar = Jar::default();
        headers.iter().for_each(|h| jar.store(h.as_bytes()));
        assert_eq!(jar.line(), line, "{headers:?}");
    }

    #[test]
    fn cookies_are_kept_replaced_and_deleted() {
        check(
            &["PHPSESSID=a1; path=/; HttpOnly", "xsrf=\"q=\"; Max-Age=60"],
            "PHPSESSID=a1; xsrf=\"q=\"",
        );
        check(&["a=1", "b=2", "a=3"], "b=2; a=3");
        check(
            &[
                "a=1",
                "a=deleted; expires=Thu, 01-Jan-1970 00:00:01 GMT; Max-Age=0",
            ],
            "",
        );
        check(&["nonsense", "=x", "a=1\u{1}"], "");
    }

    #[test]
    fn users_take_turns_and_are_shared_only_when_all_are_busy() {
        let mut users = Users::new(2);
        let (first, second) = (users.take(), users.take());
        assert_ne!(first, second);
        let third = users.take();
        users.give_back(first);
        users.give_back(second);
        users.give_back(third);
        let next = [users.take(), users.take()];
        assert_ne!(next[0], next[1], "everybody is free again, once");
    }

    /// A workload with a feeder of two rows and a request that captures a header.
    fn plan() -> LoadPlan {
        let target = Target::http(Address::Unix("/x".into()), "x");
        let mut workload = Workload::single("/");
        workload.requests[0].captures = vec![Capture {
            name: "csrf".into(),
            from: CaptureFrom::Header("X-CSRF".into()),
        }];
        workload.feeders = vec![Feeder {
            name: "users".into(),
            columns: vec!["name".into()],
            order: RowOrder::InTurn,
            rows: ["ann", "bob"].map(|name| vec![name.to_owned()]).into(),
        }];
        LoadPlan::new(
            target,
            workload,
            Mode::Open {
                schedule: "const(1,1)".parse().expect("valid"),
                arrivals: Arrivals::Even,
            },
        )
    }

    /// The captured value, the row and the cookies of a user's next request.
    fn values(users: &mut Users, user: u32) -> String {
        let (values, _) = users.values_for(user, 7);
        assert_eq!(
            values.value(ValueSource::RequestId),
            Some(b"kneepoint-7".as_slice())
        );
        let cookies = values.cookies();
        let show = |source| {
            let value = values.value(source).unwrap_or(b"-");
            String::from_utf8_lossy(value).into_owned()
        };
        let row = show(ValueSource::Column {
            feeder: 0,
            column: 0,
        });
        format!("{} {row} {cookies}", show(ValueSource::Captured(0)))
    }

    fn learn(users: &mut Users, user: u32, headers: &[(&str, &str)]) -> bool {
        let plan = plan();
        let names = VariableNames::new(&plan.workload);
        let expectations = Expectations::new(&plan.workload.requests[0], &names);
        let mut reply = Reply::default();
        reply.begin(expectations.as_ref(), true);
        for (name, value) in headers {
            reply.on_header(name, value.as_bytes());
        }
        users.learn(user, &mut reply).is_none()
    }

    #[test]
    fn users_keep_what_they_learn_and_their_row() {
        let mut users = Users::new(2).provided(&plan(), 0);
        let (ann, bob) = (users.take(), users.take());
        assert_eq!(values(&mut users, ann), "- ann ");
        assert_eq!(values(&mut users, bob), "- bob ");
        assert!(learn(
            &mut users,
            ann,
            &[("x-csrf", "t1"), ("set-cookie", "s=1")]
        ));
        users.give_back(ann);
        users.give_back(bob);
        assert_eq!(users.take(), ann);
        assert_eq!(values(&mut users, ann), "t1 ann s=1");
        assert_eq!(values(&mut users, bob), "- bob ");
        // What a response does not give is not there, however often it was before.
        assert!(!learn(&mut users, ann, &[]));
        assert_eq!(values(&mut users, ann), "- ann s=1");
    }

    #[test]
    fn a_visit_begins_with_nothing_and_the_next_row() {
        let mut plan = plan();
        plan.workload.sessions = Some(Sessions::default());
        let mut users = Users::new(1).provided(&plan, 0);
        let visitor = users.take();
        assert_eq!(values(&mut users, visitor), "- ann ");
        assert!(learn(
            &mut users,
            visitor,
            &[("x-csrf", "t1"), ("set-cookie", "s=1")]
        ));
        assert_eq!(values(&mut users, visitor), "t1 ann s=1");
        users.give_back(visitor);
        let next = users.take();
        assert_eq!(values(&mut users, next), "- bob ");
    }

    #[test]
    fn a_request_of_nobody_takes_a_row_for_itself() {
        let mut users = Users::new(1).provided(&plan(), 0);
        let values = ["- ann ", "- bob ", "- ann "].map(|_| values(&mut users, NONE));
        assert_eq!(values, ["- ann ", "- bob ", "- ann "]);
    }

    proptest! {
        #[test]
        fn no_header_breaks_the_next_request(headers in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
            let mut jar = Jar::default();
            headers.iter().for_each(|h| jar.store(h));
            prop_assert!(jar.line().bytes().all(|b| b >= b' ' && b != 0x7f));
        }
    }
}
