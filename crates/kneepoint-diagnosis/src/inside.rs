//! What was seen from within the workers, for the rules that name a line of code.

use crate::Evidence;
use kneepoint_model::units::format_share;
use kneepoint_model::{CallKind, Evidenced, MetStack, Place, StackProfile, TracedCall};
use std::collections::BTreeMap;

/// Places that a finding lists at most.
const LISTED: usize = 3;
/// How often a request opens one file from which on it is worth a word.
const REPEATED: f64 = 1.5;
/// Share of the stacks in question from which on a place is listed.
const WORTH_LISTING: f64 = 0.1;

/// A place where workers were met, and in which requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Met<'a> {
    /// Method and folded path; empty where it is not known.
    pub(crate) route: &'a str,
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
        let route = match self.route {
            "" => String::new(),
            route => format!("{route}, "),
        };
        let share = format_share(self.share);
        format!("{route}{}, {share} of {} stacks", self.place, self.of)
    }
}

/// The place of a stack to name to a person.
fn named<'a>(profile: &'a StackProfile, stack: &'a MetStack) -> Option<&'a Place> {
    let mut outwards = profile.places_of(stack).rev();
    profile
        .own_place_of(stack)
        .or_else(|| outwards.find(|place| place.file.is_some()))
}

/// A function of PHP code and the share of the stacks in which it was at work itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Hot<'a> {
    /// The function, with its line that was met most.
    pub(crate) place: &'a Place,
    /// Of the stacks that computed.
    pub(crate) share: f64,
    /// How many those were.
    pub(crate) of: u64,
    /// The function of PHP itself in which it was met more often than not: `password_verify`.
    pub(crate) through: Option<&'a str>,
}

/// Beginnings of functions of PHP itself that send to a peer and wait for its answer. A worker that the answer woke and
/// that waits for a core is met there as if it computed: it waits for the peer.
const ASKS_A_PEER: [&str; 11] = [
    "mysqli",
    "PDO",
    "pg_",
    "Redis",
    "Memcache",
    "curl_",
    "fsockopen",
    "stream_socket",
    "SoapClient",
    "gethostbyname",
    "ldap_",
];

/// Whether a function of PHP itself waits for a peer while it runs.
fn asks_a_peer(function: &str) -> bool {
    ASKS_A_PEER.iter().any(|begin| function.starts_with(begin))
}

/// Stacks of a function: all of them, by its places, and by the function of PHP itself they ended in.
#[derive(Default)]
struct Counted<'a> {
    count: u64,
    places: BTreeMap<&'a Place, u64>,
    through: BTreeMap<&'a str, u64>,
}

impl<'a> Counted<'a> {
    /// The function among so many stacks.
    fn of(self, of: u64) -> Option<Hot<'a>> {
        let (place, _) = self.places.into_iter().max_by_key(|(_, count)| *count)?;
        let most = self.through.into_iter().max_by_key(|(_, count)| *count);
        let through = most.filter(|(_, count)| 2 * count > self.count);
        Some(Hot {
            place,
            share: self.count as f64 / of as f64,
            of,
            through: through.map(|(name, _)| name),
        })
    }
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
        let mut met: BTreeMap<(&str, &Place), u64> = BTreeMap::new();
        for stack in stacks {
            if let Some(place) = named(profile, stack) {
                *met.entry((stack.route.as_str(), place)).or_default() += stack.count;
            }
        }
        let mut met: Vec<Met<'_>> = met
            .into_iter()
            .map(|((route, place), count)| Met {
                route,
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

    /// Of the stacks that wait so, the share that is in a function; `None` when none was sampled.
    pub(crate) fn share_of_waits(&self, wait: &str, function: &str) -> Option<f64> {
        let profile = self.stacks.as_ref()?;
        let (mut all, mut within) = (0, 0);
        for stack in &profile.stacks {
            if profile.wait_of(stack) == Some(wait) {
                all += stack.count;
                let met = profile
                    .places_of(stack)
                    .any(|place| place.function == function);
                within += if met { stack.count } else { 0 };
            }
        }
        (all > 0).then(|| within as f64 / all as f64)
    }

    /// The share of all stacks that pass through a place; `None` when no stacks were sampled.
    pub(crate) fn share_through(&self, place: &Place) -> Option<f64> {
        let profile = self.stacks.as_ref()?;
        let all = profile.samples();
        let through = profile.stacks.iter().filter(|stack| {
            let mut places = profile.places_of(stack);
            places.any(|one| one == place)
        });
        let through: u64 = through.map(|stack| stack.count).sum();
        (all > 0).then(|| through as f64 / all as f64)
    }

    /// The functions in which workers that computed were at work themselves, most first. What PHP's own functions take
    /// is their caller's, except where they ask a peer: that is a wait, whether or not the worker was met asleep.
    pub(crate) fn hot_functions(&self) -> Vec<Hot<'_>> {
        let Some(profile) = &self.stacks else {
            return Vec::new();
        };
        let mut of = 0;
        let mut functions: BTreeMap<(&str, &Option<String>), Counted<'_>> = BTreeMap::new();
        for stack in &profile.stacks {
            let innermost = profile.places_of(stack).next_back();
            let through = innermost.filter(|place| place.file.is_none());
            let through = through.map(|place| place.function.as_str());
            if profile.wait_of(stack).is_some() || through.is_some_and(asks_a_peer) {
                continue;
            }
            of += stack.count;
            let mut outwards = profile.places_of(stack).rev();
            if let Some(place) = outwards.find(|place| place.file.is_some()) {
                let key = (place.function.as_str(), &place.file);
                let function = functions.entry(key).or_default();
                function.count += stack.count;
                *function.places.entry(place).or_default() += stack.count;
                if let Some(through) = through {
                    *function.through.entry(through).or_default() += stack.count;
                }
            }
        }
        let hot = functions.into_values().filter_map(|it| it.of(of));
        let mut hot: Vec<Hot<'_>> = hot.collect();
        hot.sort_by(|a, b| b.share.total_cmp(&a.share));
        hot
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

    /// The most frequent of some traced calls, as lines of a finding.
    pub(crate) fn seen_calls(
        &self,
        kind: CallKind,
        which: impl Fn(&TracedCall) -> bool,
    ) -> Vec<Evidenced> {
        let calls = self.traced(kind).filter(|call| which(call)).take(LISTED);
        calls
            .map(|call| Evidenced {
                what: self.describe_call(call),
                conditions: self.traced_under(),
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
            conditions: self.sampled_under(),
        }]
    }

    /// Traced calls of a kind, most first.
    pub(crate) fn traced(&self, kind: CallKind) -> impl Iterator<Item = &TracedCall> {
        self.calls.iter().flat_map(move |trace| trace.of(kind))
    }

    /// A traced call in words: `GET http://api.example.org/rates through curl_exec, once in each GET /rates, at ...`.
    pub(crate) fn describe_call(&self, call: &TracedCall) -> String {
        let requests = self
            .calls
            .as_ref()
            .map_or(0, |trace| trace.requests_of(&call.route));
        let through = match call.through.as_str() {
            "" => String::new(),
            through => format!(" through {through}"),
        };
        let at = call.named_place().map_or_else(
            || "by the engine itself".to_owned(),
            |place| format!("in {place}"),
        );
        format!(
            "{}{through}, {} in each {}, {at}",
            call.what,
            times(call.count as f64 / requests.max(1) as f64),
            call.route
        )
    }

    /// Under which conditions calls were traced.
    pub(crate) fn traced_under(&self) -> String {
        let requests = self.calls.as_ref().map_or(0, |trace| trace.requests());
        format!("in {requests} requests that were traced, one after the other")
    }

    /// Under which conditions stacks were sampled.
    pub(crate) fn sampled_under(&self) -> String {
        let phase = self.stacks.as_ref().map(|stacks| {
            let phase = self
                .phases
                .iter()
                .find(|phase| phase.kind.name() == stacks.phase);
            let conditions =
                phase.map_or_else(String::new, |phase| format!(", {}", phase.conditions()));
            format!("sampled {} times a second{conditions}", stacks.rate_hz)
        });
        phase.unwrap_or_default()
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
    use crate::test_support::{met, place};

    fn evidence() -> Evidence {
        let stacks = StackProfile {
            phase: "over".to_owned(),
            rate_hz: 99,
            places: vec![
                place("main /srv/index.php", "/srv/index.php", 3),
                place("App\\Rates::show", "/srv/app/Rates.php", 31),
                place("Lib\\get", "/srv/vendor/lib/get.php", 8),
                Place {
                    function: "curl_exec".to_owned(),
                    ..Place::default()
                },
                Place {
                    function: "[recv 10.0.0.9:80]".to_owned(),
                    ..Place::default()
                },
                place("App\\Rates::show", "/srv/app/Rates.php", 44),
                Place {
                    function: "array_map".to_owned(),
                    ..Place::default()
                },
            ],
            stacks: vec![
                met("GET /rates", &[0, 1, 2, 3, 4], 90),
                met("GET /", &[0, 4], 5),
                met("GET /", &[0], 4),
                met("GET /rates", &[0, 1, 2], 2),
                met("GET /rates", &[0, 5], 3),
                met("GET /rates", &[0, 1, 6], 1),
            ],
            ..StackProfile::default()
        };
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
    fn hot_functions_are_those_that_compute() {
        let evidence = evidence();
        let hot = evidence.hot_functions();
        let shown: Vec<_> = hot
            .iter()
            .map(|hot| (hot.place.at(), hot.share, hot.of))
            .collect();
        // A line of the function that was met most: 44 three times, 31 once.
        assert_eq!(shown[0].0, "/srv/app/Rates.php:44");
        assert_eq!((shown[0].1, shown[0].2), (0.4, 10));
        assert_eq!(shown.len(), 3);
    }

    #[test]
    fn a_worker_that_the_database_woke_does_not_compute() {
        let mut evidence = evidence();
        let stacks = evidence.stacks.as_mut().expect("stacks");
        stacks.places.push(Place {
            function: "mysqli_query".to_owned(),
            ..Place::default()
        });
        stacks.stacks.push(met("GET /rates", &[0, 1, 7], 500));
        let hot = evidence.hot_functions();
        assert_eq!((hot[0].share, hot[0].of), (0.4, 10));
    }

    #[test]
    fn a_place_has_the_share_of_the_stacks_that_pass_through_it() {
        let evidence = evidence();
        let at = place("App\\Rates::show", "/srv/app/Rates.php", 31);
        assert_eq!(evidence.share_through(&at), Some(93.0 / 105.0));
        assert_eq!(Evidence::default().share_through(&at), None);
    }
}
