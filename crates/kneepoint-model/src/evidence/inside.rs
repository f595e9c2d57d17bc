//! What was seen from within the workers: the calls they make for each request, and the PHP stacks they were met on.

use crate::Place;
use crate::evidence::place::own_of;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a traced call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    /// A file or directory is opened.
    Open,
    /// A path is looked up without being opened: stat, access, readlink.
    Look,
    /// A connection is made.
    Connect,
    /// A query is sent to a database.
    Query,
    /// A command is sent to Redis.
    Command,
    /// A request is sent over HTTP, or a TLS connection is begun.
    Http,
    /// Something else is sent over a connection.
    Send,
    /// A lock on a file is asked for.
    Lock,
    /// The worker sleeps.
    Sleep,
}

impl CallKind {
    /// What one of them is called in a table.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Look => "look up",
            Self::Connect => "connect",
            Self::Query => "query",
            Self::Command => "command",
            Self::Http => "HTTP",
            Self::Send => "send",
            Self::Lock => "lock",
            Self::Sleep => "sleep",
        }
    }
}

/// Calls of one kind about one thing from one place, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedCall {
    /// The request: method and path with identifiers folded (`GET /orders/{n}`).
    pub route: String,
    /// What the call does.
    pub kind: CallKind,
    /// What it is about: a path, a query without its values, the name of a command, `GET http://api.example.org/rates`.
    pub what: String,
    /// The other end of the connection: a layer of the stack or an address; empty where there is none.
    pub peer: String,
    /// The function of PHP itself that made it (`curl_exec`); empty where none was called, as for `require`.
    pub through: String,
    /// The innermost place in PHP code; nothing where none ran: the engine opened the script itself.
    pub place: Option<Place>,
    /// The innermost place in the application's own code; the same as `place` when it is that.
    pub own: Option<Place>,
    /// How often, in all traced requests of the route.
    pub count: u64,
    /// How many of them failed: no such file, refused.
    pub failed: u64,
    /// How often in that one of the requests which had most of them.
    pub most: u64,
    /// Bytes of the answers that were read, in all traced requests of the route; 0 where there is none, or none was seen.
    #[serde(default)]
    pub answer_bytes: u64,
    /// Time until their first bytes came, in us, in all traced requests of the route: the other side's, and a little of the
    /// tracing. 0 where no answer was seen.
    #[serde(default)]
    pub waited_us: u64,
}

impl TracedCall {
    /// The place to name to a person: in the application's own code if there is one.
    #[must_use]
    pub fn named_place(&self) -> Option<&Place> {
        self.own.as_ref().or(self.place.as_ref())
    }
}

/// Traced requests of one route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedRoute {
    /// Method and folded path.
    pub route: String,
    /// How many were traced from their beginning to their end.
    pub requests: u64,
}

/// What workers do for each request, counted call by call at low load while they were traced. Exact as counts; of
/// time it says only how long others took to answer, since tracing stretches a worker's own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CallTrace {
    /// Which configuration: `base`, the name of a variant; empty outside a run.
    #[serde(default)]
    pub arm: String,
    /// PHP and its server interface: `PHP 8.2.35 (fpm-fcgi)`.
    pub php: String,
    /// The routes, most requests first.
    pub routes: Vec<TracedRoute>,
    /// The calls, most first.
    pub calls: Vec<TracedCall>,
    /// What should be known besides.
    pub notes: Vec<String>,
}

/// Calls about one thing, over all routes and places.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSum<'a> {
    /// What they are about.
    pub what: &'a str,
    /// How often a request, on average.
    pub per_request: f64,
    /// How many of them failed a request, on average.
    pub failed_per_request: f64,
    /// The call with the place that made most of them.
    pub most_from: &'a TracedCall,
}

impl CallTrace {
    /// Requests that were traced.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.routes.iter().map(|route| route.requests).sum()
    }

    /// Requests of one route that were traced.
    #[must_use]
    pub fn requests_of(&self, route: &str) -> u64 {
        let of = self.routes.iter().filter(|known| known.route == route);
        of.map(|known| known.requests).sum()
    }

    /// Calls of one kind.
    pub fn of(&self, kind: CallKind) -> impl Iterator<Item = &TracedCall> {
        self.calls.iter().filter(move |call| call.kind == kind)
    }

    /// Calls of one kind that succeeded and that failed, per request; nothing without requests.
    #[must_use]
    pub fn per_request(&self, kind: CallKind) -> Option<(f64, f64)> {
        let requests = self.requests();
        let (count, failed) = self.of(kind).fold((0, 0), |(count, failed), call| {
            (count + call.count, failed + call.failed)
        });
        let each = |calls: u64| calls as f64 / requests as f64;
        (requests > 0).then(|| (each(count.saturating_sub(failed)), each(failed)))
    }

    /// Calls of one kind summed by what they are about, most first.
    #[must_use]
    pub fn sums(&self, kind: CallKind) -> Vec<CallSum<'_>> {
        let requests = self.requests().max(1) as f64;
        let mut sums: BTreeMap<&str, (u64, u64, &TracedCall)> = BTreeMap::new();
        for call in self.of(kind) {
            let sum = sums.entry(&call.what).or_insert((0, 0, call));
            sum.0 += call.count;
            sum.1 += call.failed;
            if call.count > sum.2.count {
                sum.2 = call;
            }
        }
        let mut sums: Vec<CallSum<'_>> = sums
            .into_iter()
            .map(|(what, (count, failed, most_from))| CallSum {
                what,
                per_request: count as f64 / requests,
                failed_per_request: failed as f64 / requests,
                most_from,
            })
            .collect();
        sums.sort_by(|a, b| b.per_request.total_cmp(&a.per_request));
        sums
    }
}

/// Stacks that workers were met on under load. Wall time: a worker that waits is met as often as one that computes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StackProfile {
    /// The phase of the diagnosis: `over`.
    pub phase: String,
    /// Which configuration.
    pub arm: String,
    /// PHP and its server interface.
    pub php: String,
    /// Samples a second of each worker.
    pub rate_hz: u32,
    /// Samples whose stack is the one the worker had.
    pub ok: u64,
    /// Samples whose stack changed while it was read; the outer part counts.
    pub salvaged: u64,
    /// Samples without a stack.
    pub error: u64,
    /// Samples of workers without a request.
    pub idle: u64,
    /// Every place that was seen; a wait stands in brackets, below the function that waits: `[recv db]`.
    pub places: Vec<Place>,
    /// The stacks, with how often each was met.
    pub stacks: Vec<MetStack>,
    /// Who was met together, look after look, where that was asked for. It is there to be judged; no run keeps it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moments: Vec<MetAtOnce>,
    /// What should be known besides.
    pub notes: Vec<String>,
    /// Where the slowest requests were met at the knee, where that was asked for.
    #[serde(default)]
    pub slow: Option<SlowRequests>,
}

/// Where the slowest requests of a load were met, beside all requests of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SlowRequests {
    /// The phase of the diagnosis: `knee`.
    pub phase: String,
    /// How many they are, of how many.
    pub requests: (u64, u64),
    /// The response time of the fastest of them, in ms.
    pub above_ms: f64,
    /// Samples with a stack: of them, and of all requests.
    pub samples: (u64, u64),
    /// The places they were met at, most of them first.
    pub met: Vec<SlowPlace>,
}

/// Where some of the slowest requests were met.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct SlowPlace {
    /// Method and folded path of the requests.
    pub route: String,
    /// The innermost place of the application's own code, or of any.
    pub place: Place,
    /// What the workers waited for: `recv db`; nothing where they did not.
    pub wait: Option<String>,
    /// Samples of the slowest requests.
    pub slow: u64,
    /// Samples of all requests, the slowest included.
    pub all: u64,
}

impl SlowRequests {
    /// Most places that are kept.
    const PLACES: usize = 20;

    /// Sums stacks up by route, place and wait. `slow` are those of the slowest requests, whose places are those of
    /// `all`.
    #[must_use]
    pub fn of(all: &StackProfile, slow: &[MetStack], requests: (u64, u64), above_ms: f64) -> Self {
        let mut places: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for stack in &all.stacks {
            places.entry(Self::key(all, stack)).or_default().1 += stack.count;
        }
        for stack in slow {
            places.entry(Self::key(all, stack)).or_default().0 += stack.count;
        }
        let mut met: Vec<SlowPlace> = places
            .into_iter()
            .filter(|(_, (slow, _))| *slow > 0)
            .map(|((route, place, wait), (slow, all))| SlowPlace {
                route: route.to_owned(),
                place: place.cloned().unwrap_or_default(),
                wait: wait.map(str::to_owned),
                slow,
                all,
            })
            .collect();
        met.sort_by_key(|place| std::cmp::Reverse(place.slow));
        met.truncate(Self::PLACES);
        Self {
            phase: all.phase.clone(),
            requests,
            above_ms,
            samples: (slow.iter().map(|stack| stack.count).sum(), all.samples()),
            met,
        }
    }

    /// What stacks are summed up by: route, place and wait.
    fn key<'a>(
        all: &'a StackProfile,
        stack: &'a MetStack,
    ) -> (&'a str, Option<&'a Place>, Option<&'a str>) {
        let wait = all.wait_of(stack);
        // The wait stands below the function that waits.
        let innermost = || all.places_of(stack).rev().nth(usize::from(wait.is_some()));
        let place = all.own_place_of(stack).or_else(innermost);
        (&stack.route, place, wait)
    }
}

/// A stack and how often it was met.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MetStack {
    /// Method and folded path of the request; empty where it is not known.
    pub route: String,
    /// Positions in [`StackProfile::places`], outermost first.
    pub places: Vec<u32>,
    /// How often.
    pub count: u64,
}

/// The workers that were met at one moment.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct MetAtOnce {
    /// Seconds since the sampling began.
    pub at_s: f64,
    /// Positions in [`StackProfile::stacks`], one for each worker that had a request.
    pub stacks: Vec<u32>,
}

impl StackProfile {
    /// What a worker waits for that is ready to run and has no core.
    pub const NO_CORE: &str = "a core";

    /// Samples with a stack.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.count).sum()
    }

    /// The places of a stack, outermost first.
    pub fn places_of<'a>(
        &'a self,
        stack: &'a MetStack,
    ) -> impl DoubleEndedIterator<Item = &'a Place> + Clone {
        let index = |at: &u32| usize::try_from(*at).ok();
        stack
            .places
            .iter()
            .filter_map(move |at| self.places.get(index(at)?))
    }

    /// The place of a stack to name ([`own_place`]).
    #[must_use]
    pub fn own_place_of<'a>(&'a self, stack: &'a MetStack) -> Option<&'a Place> {
        own_of(self.places_of(stack).rev())
    }

    /// What a stack waits for, when it ends in a wait: `recv db`.
    #[must_use]
    pub fn wait_of<'a>(&'a self, stack: &'a MetStack) -> Option<&'a str> {
        let innermost = self.places_of(stack).next_back()?;
        innermost.function.strip_prefix('[')?.strip_suffix(']')
    }

    /// The stacks as flame graph tools read them: `request;outer;inner COUNT`.
    #[must_use]
    pub fn folded(&self) -> Vec<String> {
        let mut folded: BTreeMap<String, u64> = BTreeMap::new();
        for stack in &self.stacks {
            let places = self.places_of(stack).map(|place| place.function.as_str());
            let route = Some(stack.route.as_str()).filter(|route| !route.is_empty());
            // The format has no way to write these two.
            let names = route.into_iter().chain(places);
            let names: Vec<_> = names
                .map(|name| name.replace(';', ":").replace('\n', " "))
                .collect();
            *folded.entry(names.join(";")).or_default() += stack.count;
        }
        folded
            .into_iter()
            .map(|(stack, count)| format!("{stack} {count}"))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str, file: Option<&str>) -> Place {
        Place {
            function: function.to_owned(),
            file: file.map(str::to_owned),
            line: file.map(|_| 7),
        }
    }

    fn call(route: &str, what: &str, count: u64, failed: u64) -> TracedCall {
        TracedCall {
            route: route.to_owned(),
            kind: CallKind::Open,
            what: what.to_owned(),
            peer: String::new(),
            through: String::new(),
            place: None,
            own: None,
            count,
            failed,
            most: count,
            answer_bytes: 0,
            waited_us: 0,
        }
    }

    #[test]
    fn calls_are_summed_by_what_they_are_about() {
        let trace = CallTrace {
            routes: vec![
                TracedRoute {
                    route: "GET /".to_owned(),
                    requests: 3,
                },
                TracedRoute {
                    route: "GET /a".to_owned(),
                    requests: 1,
                },
            ],
            calls: vec![
                call("GET /", "a.php", 6, 0),
                call("GET /a", "a.php", 2, 0),
                call("GET /", "b.php", 3, 3),
            ],
            ..CallTrace::default()
        };
        assert_eq!(trace.requests(), 4);
        assert_eq!(trace.requests_of("GET /"), 3);
        assert_eq!(trace.per_request(CallKind::Open), Some((2.0, 0.75)));
        assert_eq!(trace.per_request(CallKind::Look), Some((0.0, 0.0)));
        assert_eq!(CallTrace::default().per_request(CallKind::Open), None);
        let sums = trace.sums(CallKind::Open);
        let shown: Vec<_> = sums
            .iter()
            .map(|sum| (sum.what, sum.per_request, sum.failed_per_request))
            .collect();
        assert_eq!(shown, [("a.php", 2.0, 0.0), ("b.php", 0.75, 0.75)]);
        assert_eq!(sums[0].most_from.route, "GET /");
    }

    #[test]
    fn the_slowest_requests_are_summed_by_own_place_and_wait() {
        let all = StackProfile {
            phase: "knee".to_owned(),
            places: vec![
                place("App\\Orders::list", Some("app/Orders.php")),
                place("PDO::query", None),
                place("[recv db]", None),
            ],
            stacks: [(&[0, 1, 2][..], 30), (&[0, 1], 10), (&[1], 60)]
                .map(|(places, count)| MetStack {
                    route: "GET /".to_owned(),
                    places: places.to_vec(),
                    count,
                })
                .into(),
            ..StackProfile::default()
        };
        let slow = [&all.stacks[0], &all.stacks[0], &all.stacks[1]].map(|stack| MetStack {
            count: 1,
            ..stack.clone()
        });
        let slow = SlowRequests::of(&all, &slow, (5, 100), 812.0);
        assert_eq!((slow.samples, slow.phase.as_str()), ((3, 100), "knee"));
        let met: Vec<_> = slow
            .met
            .iter()
            .map(|met| (met.place.at(), met.wait.as_deref(), met.slow, met.all))
            .collect();
        let at = "app/Orders.php:7".to_owned();
        assert_eq!(
            met,
            [(at.clone(), Some("recv db"), 2, 30), (at, None, 1, 10)]
        );
    }

    #[test]
    fn stacks_fold_below_their_request() {
        let profile = StackProfile {
            places: vec![place("main a;b", None), place("[recv db]", None)],
            stacks: vec![
                MetStack {
                    route: "GET /".to_owned(),
                    places: vec![0, 1],
                    count: 2,
                },
                MetStack {
                    route: String::new(),
                    places: vec![0, 9],
                    count: 1,
                },
            ],
            ..StackProfile::default()
        };
        assert_eq!(profile.samples(), 3);
        assert_eq!(
            profile.folded(),
            ["GET /;main a:b;[recv db] 2", "main a:b 1"]
        );
        assert_eq!(profile.wait_of(&profile.stacks[0]), Some("recv db"));
        assert_eq!(profile.wait_of(&profile.stacks[1]), None);
    }
}
