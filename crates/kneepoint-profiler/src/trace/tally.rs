//! Counts what requests did.

use kneepoint_model::{CallKind, CallTrace, Place, TracedCall, TracedRoute, own_place};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Most different calls that are told apart.
const DIFFERENT: usize = 20_000;

/// A call with its place: what is counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Act {
    pub(super) kind: CallKind,
    pub(super) what: String,
    pub(super) peer: String,
    through: String,
    place: Option<Place>,
    own: Option<Place>,
}

impl Act {
    /// A call that was made from a stack, outermost place first.
    pub(super) fn new(kind: CallKind, what: String, peer: String, stack: &[Place]) -> Self {
        let through = stack.last().filter(|place| place.file.is_none());
        Self {
            kind,
            what,
            peer,
            through: through.map_or_else(String::new, |place| place.function.clone()),
            place: stack
                .iter()
                .rev()
                .find(|place| place.file.is_some())
                .cloned(),
            own: own_place(stack).cloned(),
        }
    }
}

/// How often something was done, and how often it failed.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    count: u64,
    failed: u64,
    most: u64,
    answer_bytes: u64,
    waited: Duration,
}

/// What one request did so far.
#[derive(Debug, Default)]
pub(super) struct Doing {
    /// Its route, when it is known.
    pub(super) route: Option<String>,
    acts: HashMap<Act, Counted>,
}

impl Doing {
    /// Counts a call.
    pub(super) fn add(&mut self, act: Act, failed: bool) {
        let counted = self.acts.entry(act).or_default();
        counted.count += 1;
        counted.failed += u64::from(failed);
    }

    /// So many bytes of the answer to a call were read, after so long a wait for the first.
    pub(super) fn answered(&mut self, act: &Act, bytes: u64, waited: Duration) {
        if let Some(counted) = self.acts.get_mut(act) {
            counted.answer_bytes += bytes;
            counted.waited += waited;
        }
    }
}

/// What all requests did.
#[derive(Debug, Default)]
pub(super) struct Tally {
    routes: BTreeMap<String, u64>,
    acts: HashMap<(String, Act), Counted>,
    left_out: u64,
}

impl Tally {
    /// Requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.routes.values().sum()
    }

    /// Adds a request that was traced from its beginning to its end. One whose route was never told was none: the
    /// worker looked for work.
    pub(super) fn add(&mut self, doing: Doing) {
        let Some(route) = doing.route else {
            return;
        };
        *self.routes.entry(route.clone()).or_default() += 1;
        for (act, one) in doing.acts {
            let key = (route.clone(), act);
            if self.acts.len() >= DIFFERENT && !self.acts.contains_key(&key) {
                self.left_out += one.count;
                continue;
            }
            let sum = self.acts.entry(key).or_default();
            sum.count += one.count;
            sum.failed += one.failed;
            sum.most = sum.most.max(one.count);
            sum.answer_bytes += one.answer_bytes;
            sum.waited += one.waited;
        }
    }

    /// What it comes to, most first.
    pub(super) fn finish(self, php: String, mut notes: Vec<String>) -> CallTrace {
        if self.left_out > 0 {
            notes.push(format!(
                "{} calls were left out: there were more than {DIFFERENT} different ones",
                self.left_out
            ));
        }
        let routes = self.routes.into_iter();
        let mut routes: Vec<_> = routes
            .map(|(route, requests)| TracedRoute { route, requests })
            .collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.requests));
        let calls = self.acts.into_iter();
        let mut calls: Vec<_> = calls
            .map(|((route, act), sum)| TracedCall {
                route,
                kind: act.kind,
                what: act.what,
                peer: act.peer,
                through: act.through,
                place: act.place,
                own: act.own,
                count: sum.count,
                failed: sum.failed,
                most: sum.most,
                answer_bytes: sum.answer_bytes,
                waited_us: u64::try_from(sum.waited.as_micros()).unwrap_or(u64::MAX),
            })
            .collect();
        // The same requests give the same list.
        calls.sort_by(|a, b| {
            let rest = |call: &TracedCall| (call.kind, call.what.clone(), call.place.clone());
            b.count
                .cmp(&a.count)
                .then_with(|| a.route.cmp(&b.route))
                .then_with(|| rest(a).cmp(&rest(b)))
        });
        CallTrace {
            arm: String::new(),
            php,
            routes,
            calls,
            notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str, file: Option<&str>) -> Place {
        Place {
            function: function.to_owned(),
            file: file.map(str::to_owned),
            line: file.map(|_| 5),
        }
    }

    fn open(what: &str) -> Act {
        let stack = [
            place("App\\a", Some("/srv/a.php")),
            place("Lib\\b", Some("/srv/vendor/b.php")),
            place("fopen", None),
        ];
        Act::new(CallKind::Open, what.to_owned(), String::new(), &stack)
    }

    #[test]
    fn requests_are_summed_by_route_with_the_most_of_one() {
        let mut tally = Tally::default();
        for (route, opens) in [("GET /", 1), ("GET /", 3), ("GET /b", 1)] {
            let mut doing = Doing {
                route: Some(route.to_owned()),
                ..Doing::default()
            };
            (0..opens).for_each(|nth| doing.add(open("cfg"), nth == 2));
            tally.add(doing);
        }
        let mut nothing = Doing::default();
        nothing.add(open("cfg"), false);
        tally.add(nothing);
        assert_eq!(tally.requests(), 3);
        let trace = tally.finish("PHP".to_owned(), Vec::new());
        let routes: Vec<_> = trace
            .routes
            .iter()
            .map(|r| (r.route.as_str(), r.requests))
            .collect();
        assert_eq!(routes, [("GET /", 2), ("GET /b", 1)]);
        let first = &trace.calls[0];
        assert_eq!((first.count, first.failed, first.most), (4, 1, 3));
        assert_eq!(first.through, "fopen");
        let shown = |place: &Option<Place>| place.as_ref().map(Place::at);
        assert_eq!(shown(&first.place).as_deref(), Some("/srv/vendor/b.php:5"));
        assert_eq!(shown(&first.own).as_deref(), Some("/srv/a.php:5"));
    }

    #[test]
    fn no_more_is_kept_than_fits_and_what_is_left_out_is_said() {
        let mut tally = Tally::default();
        let mut doing = Doing {
            route: Some("GET /".to_owned()),
            ..Doing::default()
        };
        (0..DIFFERENT + 5).for_each(|nth| doing.add(open(&nth.to_string()), false));
        tally.add(doing);
        let trace = tally.finish("PHP".to_owned(), Vec::new());
        assert_eq!(trace.calls.len(), DIFFERENT);
        assert!(
            trace.notes[0].starts_with("5 calls were left out"),
            "{:?}",
            trace.notes
        );
    }
}
