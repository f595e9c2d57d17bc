//! Sessions of virtual users: which requests each makes, and what becomes of it.

use crate::arrivals::mix::Mix;
use crate::arrivals::random::{Random, Weighted};
use crate::arrivals::think_time::Pause;
use crate::users::Users;
use kneepoint_model::{Script, SessionCounts, Sessions};

/// How far a session is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Session {
    /// Whose cookies it carries, from its first request to its last.
    pub(crate) user: u32,
    /// Index of the script; without scripts, of the length.
    chosen: u32,
    /// Requests made.
    made: u32,
    /// Requests in all.
    length: u32,
    /// Whether it began in the window.
    counted: bool,
}

impl Session {
    /// Whether every request has been made.
    pub(crate) fn is_over(&self) -> bool {
        self.made >= self.length
    }
}

/// The sessions of one thread.
#[derive(Debug)]
pub(crate) struct ThreadSessions<'p> {
    scripts: &'p [Script],
    lengths: &'p [(u32, f64)],
    /// Among the scripts or, where there are none, the lengths.
    choice: Weighted,
    /// Between a response and the next request of a session.
    pub(crate) pause: Pause<'p>,
    /// Those that begin earlier, in nanoseconds, are not counted.
    skip: u64,
    pub(crate) counts: SessionCounts,
}

impl<'p> ThreadSessions<'p> {
    /// Takes over sessions that the check of the plan has passed.
    pub(crate) fn new(sessions: &'p Sessions, skip: u64) -> Self {
        let choice = if sessions.scripts.is_empty() {
            Weighted::new(sessions.lengths.iter().map(|(_, weight)| *weight))
        } else {
            Weighted::new(sessions.scripts.iter().map(|script| script.weight))
        };
        Self {
            scripts: &sessions.scripts,
            lengths: &sessions.lengths,
            choice,
            pause: Pause::new(&sessions.think_time),
            skip,
            counts: SessionCounts::default(),
        }
    }

    /// Begins a session whose first request is intended at a time.
    pub(crate) fn begin(
        &mut self,
        intended: u64,
        random: &mut Random,
        users: &mut Users,
    ) -> Session {
        let chosen = self.choice.draw(random);
        let length = match self.scripts.get(chosen) {
            Some(script) => script.requests.len() as u32,
            None => self.lengths[chosen].0,
        };
        let counted = intended >= self.skip;
        self.counts.started += u64::from(counted);
        Session {
            user: users.take(),
            chosen: chosen as u32,
            made: 0,
            length,
            counted,
        }
    }

    /// The next request of a session that is not over.
    pub(crate) fn request(&self, session: &mut Session, mix: &mut Mix) -> u32 {
        let request = match self.scripts.get(session.chosen as usize) {
            Some(script) => script.requests[session.made as usize] as u32,
            None => mix.draw(),
        };
        session.made += 1;
        request
    }

    /// A session ends, with whether its last request ended `Ok`. One that could go on is unfinished.
    pub(crate) fn end(&mut self, session: &Session, ok: bool, users: &mut Users) {
        users.give_back(session.user);
        let completed = ok && session.is_over();
        self.counts.completed += u64::from(session.counted && completed);
        self.counts.broken_off += u64::from(session.counted && !ok);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::random::Purpose;
    use kneepoint_model::{Request, ThinkTime, Workload};

    fn workload(sessions: Sessions) -> Workload {
        let requests = ["/a", "/b", "/c"].map(Request::get).into();
        Workload {
            requests,
            sessions: Some(sessions),
            ..Workload::single("/")
        }
    }

    fn script(weight: f64, requests: &[usize]) -> Script {
        Script {
            name: "script".into(),
            weight,
            requests: requests.into(),
        }
    }

    /// Makes 2000 whole sessions by 2 users, one after the other, and returns the requests of each.
    fn session(sessions: Sessions) -> (Vec<Vec<u32>>, SessionCounts) {
        let workload = workload(sessions);
        let sessions = workload.sessions.as_ref().expect("just set");
        let mut sessions = ThreadSessions::new(sessions, 0);
        let mut users = Users::new(2);
        let mut mix = Mix::new(&workload, 1, 0);
        let mut random = Random::new(1, Purpose::Visitors, 0);
        let made = (0..2000).map(|at| {
            let mut session = sessions.begin(at, &mut random, &mut users);
            let mut requests = Vec::new();
            while !session.is_over() {
                requests.push(sessions.request(&mut session, &mut mix));
            }
            sessions.end(&session, true, &mut users);
            requests
        });
        (made.collect(), sessions.counts)
    }

    #[test]
    fn scripts_are_followed_in_order_and_chosen_by_weight() {
        let (first, second): (&[u32], &[u32]) = (&[2, 0, 2], &[1]);
        let sessions = Sessions {
            scripts: vec![script(3.0, &[2, 0, 2]), script(1.0, &[1])],
            ..Sessions::default()
        };
        let (made, counts) = session(sessions);
        assert!(
            made.iter()
                .all(|session| session == first || session == second)
        );
        let often = made.iter().filter(|session| *session == first).count() as f64;
        let sd = (2000.0f64 * 0.75 * 0.25).sqrt();
        assert!((often - 1500.0).abs() < 4.0 * sd, "{often}");
        assert_eq!((counts.started, counts.completed), (2000, 2000));
    }

    #[test]
    fn without_scripts_visits_have_their_lengths_and_the_mix() {
        let sessions = Sessions {
            lengths: vec![(1, 1.0), (4, 1.0)],
            think_time: ThinkTime::None,
            ..Sessions::default()
        };
        let (made, _) = session(sessions);
        assert!(
            made.iter()
                .all(|requests| requests.len() == 1 || requests.len() == 4)
        );
        let all = made.concat();
        let mean = all.len() as f64 / 2000.0;
        // Lengths of 1 and 4 have a standard deviation of 1.5.
        assert!((mean - 2.5).abs() < 4.0 * 1.5 / 2000f64.sqrt(), "{mean}");
        assert!((0..3).all(|request| all.contains(&request)), "the mix");
    }

    #[test]
    fn visits_are_counted_by_how_they_end_and_when_they_began() {
        let sessions = Sessions {
            scripts: vec![script(1.0, &[0, 1])],
            ..Sessions::default()
        };
        let workload = workload(sessions);
        let mut sessions = ThreadSessions::new(workload.sessions.as_ref().expect("just set"), 100);
        let mut users = Users::new(2);
        let mut mix = Mix::new(&workload, 1, 0);
        let mut random = Random::new(1, Purpose::Visitors, 0);
        let mut open: Vec<Session> = [99, 100, 101, 102]
            .map(|at| sessions.begin(at, &mut random, &mut users))
            .into();
        for session in &mut open {
            sessions.request(session, &mut mix);
        }
        sessions.request(&mut open[1], &mut mix);
        sessions.end(&open[0], false, &mut users);
        sessions.end(&open[1], true, &mut users);
        sessions.end(&open[2], false, &mut users);
        let expected = SessionCounts {
            started: 3,
            completed: 1,
            broken_off: 1,
        };
        assert_eq!(sessions.counts, expected);
        assert_eq!(expected.unfinished(), 1);
    }
}
