//! What was seen from within the workers, for the rules that name a line of code.

use crate::Evidence;
use crate::evidence::LOCKS;
use crate::evidence::calls::{LISTED, WORTH_LISTING, in_words, times};
use kneepoint_model::units::format_share;
use kneepoint_model::{CallKind, Evidenced, MetStack, Place, StackProfile, TracedCall};
use std::collections::{BTreeMap, BTreeSet};

/// How often a request opens one file from which on it is worth a word.
const REPEATED: f64 = 1.5;

/// Beginning of the functions of PHP itself that lock a session.
const SESSIONS: &str = "session_";

/// Whether a traced lock is that of a session.
pub(crate) fn is_session_lock(call: &TracedCall) -> bool {
    call.through.starts_with(SESSIONS)
}

/// A function of PHP itself below which busy workers were met, running or waiting.
pub(crate) struct Below<'a> {
    /// Its name.
    pub(crate) function: &'a str,
    /// Of the stacks of busy workers.
    pub(crate) share: f64,
    /// How many those were.
    pub(crate) of: u64,
    /// The place of the application's own code it was called from most.
    pub(crate) from: Option<&'a Place>,
}

/// A place where workers were met, and in which requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Met<'a> {
    /// Method and folded path, or how many there were; empty where none is known.
    pub(crate) route: String,
    /// The place in the application's own code, or else the innermost with a file.
    pub(crate) place: &'a Place,
    /// Of the stacks in question.
    pub(crate) share: f64,
    /// How many stacks were in question.
    pub(crate) of: u64,
}

impl Met<'_> {
    /// `GET /rates, App\Rates::show at app/Rates.php:31, 97 % of 1520 stacks`.
    pub(crate) fn describe(&self) -> String {
        let route = match self.route.as_str() {
            "" => String::new(),
            route => format!("{route}, "),
        };
        let share = format_share(self.share);
        format!("{route}{}, {share} of {} stacks", self.place, self.of)
    }
}

/// The place of a stack to name to a person.
pub(crate) fn named<'a>(profile: &'a StackProfile, stack: &'a MetStack) -> Option<&'a Place> {
    let mut outwards = profile.places_of(stack).rev();
    profile
        .own_place_of(stack)
        .or_else(|| outwards.find(|place| place.file.is_some()))
}

impl Evidence {
    /// Where workers were met in waits of a kind, most first; those that are worth a line only.
    pub(crate) fn met_waiting(&self, of_kind: impl Fn(&str) -> bool) -> Vec<Met<'_>> {
        let Some(profile) = &self.stacks else {
            return Vec::new();
        };
        let waits = |stack: &&MetStack| profile.wait_of(stack).is_some_and(&of_kind);
        let stacks = profile.stacks.iter().filter(waits);
        let of: u64 = stacks.clone().map(|stack| stack.count).sum();
        let mut met: BTreeMap<&Place, (u64, BTreeSet<&str>)> = BTreeMap::new();
        for stack in stacks {
            if let Some(place) = named(profile, stack) {
                let (count, routes) = met.entry(place).or_default();
                *count += stack.count;
                routes.insert(&stack.route);
            }
        }
        let mut met: Vec<Met<'_>> = met
            .into_iter()
            .map(|(place, (count, routes))| Met {
                route: in_words(&routes),
                place,
                share: count as f64 / of as f64,
                of,
            })
            .filter(|met| met.share >= WORTH_LISTING)
            .collect();
        met.sort_by(|a, b| b.share.total_cmp(&a.share));
        met.truncate(LISTED);
        met
    }

    /// Of the stacks in waits of a kind, the share that passes through a function; `None` when none was sampled.
    pub(crate) fn share_of_waits(
        &self,
        of_kind: impl Fn(&str) -> bool,
        function: impl Fn(&str) -> bool,
    ) -> Option<f64> {
        let profile = self.stacks.as_ref()?;
        let (mut all, mut within) = (0, 0);
        for stack in &profile.stacks {
            if profile.wait_of(stack).is_some_and(&of_kind) {
                all += stack.count;
                let mut places = profile.places_of(stack);
                let passes = places.any(|place| function(&place.function));
                within += if passes { stack.count } else { 0 };
            }
        }
        (all > 0).then(|| within as f64 / all as f64)
    }

    /// Of the stacks that wait for a lock, the share in which it is a session's; `None` when none was sampled.
    pub(crate) fn share_of_session_locks(&self) -> Option<f64> {
        self.share_of_waits(
            |wait| LOCKS.contains(&wait),
            |function| function.starts_with(SESSIONS),
        )
    }

    /// What requests lock that is no session, most first.
    pub(crate) fn locked_paths(&self) -> Vec<&str> {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for call in self.traced(CallKind::Lock) {
            if !is_session_lock(call) {
                *counts.entry(call.what.as_str()).or_default() += call.count;
            }
        }
        let mut paths: Vec<(&str, u64)> = counts.into_iter().collect();
        paths.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        paths.into_iter().map(|(path, _)| path).collect()
    }

    /// Of some functions of PHP itself, the one below which busy workers were met most; `None` when they were met below
    /// none.
    pub(crate) fn most_time_below(&self, wanted: impl Fn(&str) -> bool) -> Option<Below<'_>> {
        let profile = self.stacks.as_ref()?;
        let mut of = 0;
        let mut met: BTreeMap<&str, (u64, BTreeMap<&Place, u64>)> = BTreeMap::new();
        for stack in profile.stacks.iter().filter(|one| has_a_core(profile, one)) {
            of += stack.count;
            let mut builtin = profile
                .places_of(stack)
                .filter(|place| place.file.is_none());
            let Some(place) = builtin.find(|place| wanted(&place.function)) else {
                continue;
            };
            let (count, from) = met.entry(&place.function).or_default();
            *count += stack.count;
            if let Some(own) = profile.own_place_of(stack) {
                *from.entry(own).or_default() += stack.count;
            }
        }
        let (function, (count, from)) = met.into_iter().max_by_key(|(_, (count, _))| *count)?;
        Some(Below {
            function,
            share: count as f64 / of.max(1) as f64,
            of,
            from: from
                .into_iter()
                .max_by_key(|(_, count)| *count)
                .map(|(place, _)| place),
        })
    }

    /// The share of the work of busy workers, running and waiting for others, that a traced call takes; `None` when no
    /// stacks were sampled. It is what was met at its place, by its part of all calls of its kind that are made there: often
    /// one function sends every query.
    pub(crate) fn share_of_call(&self, call: &TracedCall) -> Option<f64> {
        let profile = self.stacks.as_ref()?;
        let named = call.named_place()?;
        let (mut all, mut through) = (0, 0);
        for stack in profile.stacks.iter().filter(|one| has_a_core(profile, one)) {
            let is_there = profile.places_of(stack).any(|one| one == named);
            all += stack.count;
            through += if is_there { stack.count } else { 0 };
        }
        let there = self.traced(call.kind).filter(|one| {
            one.route == call.route && one.named_place() == Some(named) && one.place == call.place
        });
        let (calls, waited) = there.fold((0, 0), |(calls, waited), one| {
            (calls + one.count, waited + one.waited_us)
        });
        // By how long they take where that was seen, and else by how many they are.
        let part = match waited {
            0 => call.count as f64 / calls.max(1) as f64,
            waited => call.waited_us as f64 / waited as f64,
        };
        (all > 0).then(|| part * through as f64 / all as f64)
    }

    /// Where workers were met in waits of a kind, as lines of a finding.
    pub(crate) fn seen_waiting(&self, of_kind: impl Fn(&str) -> bool) -> Vec<Evidenced> {
        let met = self.met_waiting(of_kind).into_iter();
        met.map(|met| Evidenced {
            what: format!("waiting there: {}", met.describe()),
            conditions: self.sampled_under(),
        })
        .collect()
    }

    /// How many files requests opened, and which most often, as a line of a finding.
    pub(crate) fn seen_opened(&self) -> Vec<Evidenced> {
        let Some(trace) = self.calls.as_ref().filter(|trace| trace.requests() > 0) else {
            return Vec::new();
        };
        let Some((done, failed)) = trace.per_request(CallKind::Open) else {
            return Vec::new();
        };
        let most = trace
            .sums(CallKind::Open)
            .into_iter()
            .next()
            .filter(|most| most.per_request >= REPEATED)
            .map_or_else(String::new, |most| {
                let at = most
                    .most_from
                    .named_place()
                    .map_or_else(String::new, |place| format!(" in {place}"));
                format!(
                    "; most often {}, {}{at}",
                    most.what,
                    times(most.per_request)
                )
            });
        vec![Evidenced {
            what: format!("{:.0} files opened in each request{most}", done + failed),
            conditions: self.traced_under(),
        }]
    }

    /// Scripts that the engine itself looked up in each request, as OPcache does to see whether they changed; the
    /// application's own `file_exists` is none of them. `None` where no request was traced.
    pub(crate) fn checked_scripts(&self) -> Option<f64> {
        let trace = self.calls.as_ref().filter(|it| it.requests() > 0)?;
        let by_engine = trace
            .of(CallKind::Look)
            .filter(|call| call.through.is_empty());
        let count: u64 = by_engine.map(|call| call.count).sum();
        Some(count as f64 / trace.requests() as f64)
    }

    /// Where the CPU goes, as a line of a finding.
    pub(crate) fn seen_computing(&self) -> Vec<Evidenced> {
        let hot = self.hot_functions();
        let listed = hot
            .iter()
            .take(LISTED)
            .filter(|hot| hot.share >= WORTH_LISTING);
        let listed: Vec<String> = listed
            .map(|hot| format!("{} {}", hot.place, format_share(hot.share)))
            .collect();
        if listed.is_empty() {
            return Vec::new();
        }
        vec![Evidenced {
            what: format!("of the stacks that computed, in {}", listed.join("; in ")),
            conditions: self.code_sampled_under(),
        }]
    }

    /// Under which conditions stacks were sampled.
    pub(crate) fn sampled_under(&self) -> String {
        let stacks = self.stacks.as_ref();
        stacks.map_or_else(String::new, |stacks| self.conditions_of(stacks))
    }

    /// Under which conditions these stacks were sampled.
    pub(crate) fn conditions_of(&self, stacks: &StackProfile) -> String {
        let mut phases = self.phases.iter();
        let phase = phases.find(|phase| phase.kind.name() == stacks.phase);
        let conditions =
            phase.map_or_else(String::new, |phase| format!(", {}", phase.conditions()));
        format!("sampled {} times a second{conditions}", stacks.rate_hz)
    }
}

/// Whether a worker ran or waited for others when it was met: one that only waited for a core did neither.
fn has_a_core(profile: &StackProfile, stack: &MetStack) -> bool {
    profile.wait_of(stack) != Some(StackProfile::NO_CORE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place, sampled, traced};
    use kneepoint_model::CallTrace;

    fn evidence() -> Evidence {
        let stacks = sampled(
            99,
            vec![
                place("main /srv/index.php", "/srv/index.php", 3),
                place("App\\Rates::show", "/srv/app/Rates.php", 31),
                place("Lib\\get", "/srv/vendor/lib/get.php", 8),
                builtin("curl_exec"),
                builtin("[recv 10.0.0.9:80]"),
                place("App\\Rates::show", "/srv/app/Rates.php", 44),
                builtin("array_map"),
            ],
            vec![
                met("GET /rates", &[0, 1, 2, 3, 4], 90),
                met("GET /", &[0, 4], 5),
                met("GET /", &[0], 4),
                met("GET /rates", &[0, 1, 2], 2),
                met("GET /rates", &[0, 5], 3),
                met("GET /rates", &[0, 1, 6], 1),
            ],
        );
        Evidence {
            stacks: Some(stacks),
            ..Evidence::default()
        }
    }

    #[test]
    fn waits_are_named_by_the_applications_own_line() {
        let evidence = evidence();
        let met = evidence.met_waiting(|wait| wait.starts_with("recv"));
        assert_eq!(met.len(), 1, "5 of 95 are not worth a line: {met:?}");
        assert_eq!(
            met[0].describe(),
            "GET /rates, App\\Rates::show at /srv/app/Rates.php:31, 95 % of 95 stacks"
        );
        assert!(evidence.met_waiting(|wait| wait == "flock").is_empty());
    }

    #[test]
    fn a_call_has_the_share_of_the_stacks_that_pass_through_its_place() {
        let evidence = evidence();
        let at = |function: &str, file: &str, line| place(function, file, line);
        let own = at("App\\Rates::show", "/srv/app/Rates.php", 31);
        let call = traced("GET /rates", CallKind::Query, "select ?", own.clone(), 1);
        let share = |evidence: &Evidence, call: &TracedCall| {
            let share = evidence.share_of_call(call)?;
            Some((share * 105.0).round())
        };
        assert_eq!(share(&evidence, &call), Some(93.0));
        assert_eq!(Evidence::default().share_of_call(&call), None);
        // Half of the queries that are sent there.
        let other = traced("GET /rates", CallKind::Query, "select 2", own, 1);
        let halved = Evidence {
            calls: Some(CallTrace {
                calls: vec![call.clone(), other],
                ..CallTrace::default()
            }),
            ..evidence.clone()
        };
        assert_eq!(share(&halved, &call), Some(47.0));
        // How long they take says more than how many they are.
        let mut timed = halved.clone();
        let calls = &mut timed.calls.as_mut().expect("calls").calls;
        (calls[0].waited_us, calls[1].waited_us) = (100, 900);
        let (short, long) = (calls[0].clone(), calls[1].clone());
        assert_eq!(share(&timed, &short), Some(9.0));
        assert_eq!(share(&timed, &long), Some(84.0));
        let longest = timed.seen_longest(CallKind::Query);
        assert_eq!(longest.len(), 1, "a tenth is not worth a line: {longest:?}");
        assert!(
            longest[0].what.starts_with("0.90 ms for select 2"),
            "{longest:?}"
        );
    }

    #[test]
    fn a_place_on_many_routes_is_listed_with_its_whole_share() {
        let mut evidence = evidence();
        let stacks = evidence.stacks.as_mut().expect("stacks");
        stacks.stacks = (0..20)
            .map(|nth| met(&format!("GET /{nth}"), &[0, 1, 4], 5))
            .collect();
        let met = evidence.met_waiting(|wait| wait.starts_with("recv"));
        assert_eq!(
            met.iter().map(Met::describe).collect::<Vec<_>>(),
            ["20 routes, App\\Rates::show at /srv/app/Rates.php:31, 100 % of 100 stacks"]
        );
    }
}
