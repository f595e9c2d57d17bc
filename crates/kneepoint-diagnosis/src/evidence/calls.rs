//! What requests do, call by call, for the rules that name a query, a lock or a request to others.

use crate::Evidence;
use kneepoint_model::units::{format_bytes, format_ms};
use kneepoint_model::{CallKind, Evidenced, TracedCall};
use std::collections::BTreeSet;

/// Places, or calls, that a finding lists at most.
pub(crate) const LISTED: usize = 3;
/// Share of the stacks, or of what the calls took, from which on one is listed.
pub(crate) const WORTH_LISTING: f64 = 0.1;

/// Calls about one thing from one place, over all routes.
struct Alike<'a> {
    first: &'a TracedCall,
    routes: BTreeSet<&'a str>,
    count: u64,
    waited_us: u64,
    answer_bytes: u64,
}

impl<'a> Alike<'a> {
    fn of(call: &'a TracedCall) -> Self {
        Self {
            first: call,
            routes: BTreeSet::from([call.route.as_str()]),
            count: call.count,
            waited_us: call.waited_us,
            answer_bytes: call.answer_bytes,
        }
    }
}

/// Puts together what is alike, in the order of the first of each.
fn alike<'a>(calls: impl Iterator<Item = &'a TracedCall>) -> Vec<Alike<'a>> {
    let mut all: Vec<Alike<'_>> = Vec::new();
    for call in calls {
        let is_it = |one: &&mut Alike<'_>| {
            let first = one.first;
            first.what == call.what
                && first.through == call.through
                && first.named_place() == call.named_place()
        };
        match all.iter_mut().find(is_it) {
            Some(one) => {
                one.routes.insert(&call.route);
                one.count += call.count;
                one.waited_us += call.waited_us;
                one.answer_bytes += call.answer_bytes;
            }
            None => all.push(Alike::of(call)),
        }
    }
    all
}

/// The only route, or how many there are.
pub(crate) fn in_words(routes: &BTreeSet<&str>) -> String {
    match (routes.len(), routes.first()) {
        (1, Some(only)) => (*only).to_owned(),
        (many, _) => format!("{many} routes"),
    }
}

impl Evidence {
    /// Whether requests of its route make a call at least half as often as the one that makes it most.
    pub(crate) fn is_usual(&self, call: &TracedCall) -> bool {
        let trace = self.calls.as_ref();
        let requests = trace.map_or(0, |trace| trace.requests_of(&call.route));
        call.count * 2 >= call.most * requests
    }

    /// The most frequent of some traced calls, as lines of a finding.
    pub(crate) fn seen_calls(
        &self,
        kind: CallKind,
        which: impl Fn(&TracedCall) -> bool,
    ) -> Vec<Evidenced> {
        let calls = alike(self.traced(kind).filter(|call| which(call)));
        let told = calls.into_iter().take(LISTED);
        told.map(|call| Evidenced {
            what: self.describe(&call),
            conditions: self.traced_under(),
        })
        .collect()
    }

    /// The calls of a kind for whose answers requests waited longest in all, as lines of a finding.
    pub(crate) fn seen_longest(&self, kind: CallKind) -> Vec<Evidenced> {
        let each = |call: &Alike<'_>| {
            let each_ms = call.waited_us as f64 / 1e3 / call.count.max(1) as f64;
            format!("{} for", format_ms(each_ms))
        };
        self.seen_most(kind, |call| call.waited_us, each)
    }

    /// The calls of a kind whose answers are largest in all, as lines of a finding.
    pub(crate) fn seen_largest(&self, kind: CallKind) -> Vec<Evidenced> {
        let each = |call: &Alike<'_>| {
            let each = format_bytes(call.answer_bytes / call.count.max(1));
            format!("{each} in the answer to")
        };
        self.seen_most(kind, |call| call.answer_bytes, each)
    }

    /// The calls of a kind that have most of something, each begun with words of it.
    fn seen_most(
        &self,
        kind: CallKind,
        much: impl Fn(&Alike<'_>) -> u64,
        words: impl Fn(&Alike<'_>) -> String,
    ) -> Vec<Evidenced> {
        let mut calls = alike(self.traced(kind));
        let all: u64 = calls.iter().map(&much).sum();
        calls.retain(|call| much(call) as f64 > WORTH_LISTING * all as f64);
        calls.sort_by_key(|call| std::cmp::Reverse(much(call)));
        let told = calls.into_iter().take(LISTED);
        told.map(|call| Evidenced {
            what: format!("{} {}", words(&call), self.describe(&call)),
            conditions: self.traced_under(),
        })
        .collect()
    }

    /// Traced calls of a kind, most first.
    pub(crate) fn traced(&self, kind: CallKind) -> impl Iterator<Item = &TracedCall> {
        self.calls.iter().flat_map(move |trace| trace.of(kind))
    }

    /// A traced call in words: `GET http://api.example.org/rates through curl_exec, once in each GET /rates, at ...`.
    pub(crate) fn describe_call(&self, call: &TracedCall) -> String {
        self.describe(&Alike::of(call))
    }

    fn describe(&self, call: &Alike<'_>) -> String {
        let trace = self.calls.as_ref();
        let of_route = |route: &&str| trace.map_or(0, |trace| trace.requests_of(route));
        let requests: u64 = call.routes.iter().map(of_route).sum();
        let through = match call.first.through.as_str() {
            "" => String::new(),
            through => format!(" through {through}"),
        };
        let at = call.first.named_place().map_or_else(
            || "by the engine itself".to_owned(),
            |place| format!("in {place}"),
        );
        let each = match call.routes.len() {
            1 => in_words(&call.routes),
            _ => format!("request of {}", in_words(&call.routes)),
        };
        format!(
            "{}{through}, {} in each {each}, {at}",
            call.first.what,
            times(call.count as f64 / requests.max(1) as f64),
        )
    }

    /// Under which conditions calls were traced.
    pub(crate) fn traced_under(&self) -> String {
        let requests = self.calls.as_ref().map_or(0, |trace| trace.requests());
        format!("in {requests} requests that were traced, one after the other")
    }
}

/// `once`, `twice`, `51 times`, `0.3 times`.
pub(crate) fn times(count: f64) -> String {
    match count {
        count if (0.95..1.05).contains(&count) => "once".to_owned(),
        count if (1.95..2.05).contains(&count) => "twice".to_owned(),
        count if count < 9.5 => format!("{count:.1} times"),
        count => format!("{count:.0} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{place, traced};
    use kneepoint_model::{CallTrace, TracedRoute};

    #[test]
    fn what_every_page_does_is_told_once() {
        let at = || place("Hits::count", "plugins/hits.php", 6);
        let call = |route: &str| traced(route, CallKind::Query, "update hits", at(), 10);
        let route = |route: &str| TracedRoute {
            route: route.to_owned(),
            requests: 10,
        };
        let evidence = Evidence {
            calls: Some(CallTrace {
                routes: vec![route("GET /a"), route("GET /b")],
                calls: vec![call("GET /a"), call("GET /b")],
                ..CallTrace::default()
            }),
            ..Evidence::default()
        };
        let seen = evidence.seen_calls(CallKind::Query, |_| true);
        assert_eq!(
            seen.iter()
                .map(|seen| seen.what.as_str())
                .collect::<Vec<_>>(),
            ["update hits, once in each request of 2 routes, in Hits::count at plugins/hits.php:6"]
        );
    }

    #[test]
    fn a_call_that_one_request_made_often_is_not_usual() {
        let trace = |count| CallTrace {
            routes: vec![TracedRoute {
                route: "GET /".to_owned(),
                requests: 10,
            }],
            calls: vec![TracedCall {
                count,
                most: 30,
                ..traced(
                    "GET /",
                    CallKind::Query,
                    "select ?",
                    place("f", "f.php", 1),
                    1,
                )
            }],
            ..CallTrace::default()
        };
        for (count, usual) in [(300, true), (150, true), (70, false)] {
            let evidence = Evidence {
                calls: Some(trace(count)),
                ..Evidence::default()
            };
            let call = evidence.traced(CallKind::Query).next().expect("a call");
            assert_eq!(evidence.is_usual(call), usual, "{count}");
        }
    }
}
