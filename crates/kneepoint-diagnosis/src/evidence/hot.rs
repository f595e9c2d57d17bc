//! Where PHP's CPU goes, for the rules that name code: functions, and what a person can switch off as a whole.

use crate::Evidence;
use kneepoint_model::units::format_share;
use kneepoint_model::{Evidenced, MetStack, Owner, OwnerKind, Place, StackProfile};
use std::collections::{BTreeMap, BTreeSet};

/// Stacks from which on shares are worth telling.
pub(crate) const ENOUGH: u64 = 100;

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
    /// The place of the application's own code that it was called from more often than not, where it is not that itself.
    pub(crate) called_from: Option<&'a Place>,
}

/// A plugin, an extension or a module, and the share of the stacks that pass through its code.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HotOwner<'a> {
    /// Which one.
    pub(crate) owner: Owner,
    /// The innermost place in its code that was met most.
    pub(crate) place: &'a Place,
    /// Of the stacks that computed; what it calls counts.
    pub(crate) share: f64,
    /// How many those were.
    pub(crate) of: u64,
    /// The function of PHP itself in which they ended more often than not.
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
    // Rows that have come already are fetched without anybody's help.
    let fetches = function.to_ascii_lowercase().contains("fetch");
    !fetches && ASKS_A_PEER.iter().any(|begin| function.starts_with(begin))
}

/// Stacks of one thing: all of them, by its places, by who called it, and by the function of PHP itself they ended in.
#[derive(Default)]
struct Counted<'a> {
    count: u64,
    places: BTreeMap<&'a Place, u64>,
    callers: BTreeMap<&'a Place, u64>,
    through: BTreeMap<&'a str, u64>,
}

impl<'a> Counted<'a> {
    fn add(&mut self, place: &'a Place, through: Option<&'a str>, count: u64) {
        self.count += count;
        *self.places.entry(place).or_default() += count;
        if let Some(through) = through {
            *self.through.entry(through).or_default() += count;
        }
    }

    /// The place that was met most.
    fn place(&self) -> Option<&'a Place> {
        most(&self.places).map(|(place, _)| place)
    }

    /// What most of the stacks have in common.
    fn common<T: Copy + Ord>(&self, of: &BTreeMap<T, u64>) -> Option<T> {
        let (one, count) = most(of)?;
        (2 * count > self.count).then_some(one)
    }

    fn share(&self, of: u64) -> f64 {
        self.count as f64 / of as f64
    }
}

fn most<T: Copy + Ord>(counts: &BTreeMap<T, u64>) -> Option<(T, u64)> {
    let counts = counts.iter().map(|(one, count)| (*one, *count));
    counts.max_by_key(|(_, count)| *count)
}

/// A stack that computed: its places, outermost first, and the function of PHP itself it ended in.
struct Computing<'a> {
    places: Vec<&'a Place>,
    through: Option<&'a str>,
    count: u64,
}

/// The stacks of workers that neither waited nor asked a peer.
fn computing(profile: &StackProfile) -> impl Iterator<Item = Computing<'_>> {
    profile.stacks.iter().filter_map(|met: &MetStack| {
        let places: Vec<&Place> = profile.places_of(met).collect();
        let innermost = places.last().filter(|place| place.file.is_none());
        let through = innermost.map(|place| place.function.as_str());
        let waits = profile.wait_of(met).is_some() || through.is_some_and(asks_a_peer);
        (!waits).then_some(Computing {
            places,
            through,
            count: met.count,
        })
    })
}

impl Evidence {
    /// The stacks that say where PHP's CPU goes: those of just below the limit, of which R* is made, or those above it where
    /// too few computed there.
    fn code_stacks(&self) -> Option<&StackProfile> {
        let enough = |profile: &&StackProfile| {
            let count: u64 = computing(profile).map(|stack| stack.count).sum();
            count >= ENOUGH
        };
        let knee = self.knee_stacks.as_ref().filter(enough);
        knee.or(self.stacks.as_ref())
    }

    /// Under which conditions they were sampled.
    pub(crate) fn code_sampled_under(&self) -> String {
        self.code_stacks()
            .map_or_else(String::new, |stacks| self.conditions_of(stacks))
    }

    /// The functions in which workers that computed were at work themselves, most first. What PHP's own functions take
    /// is their caller's, except where they ask a peer: that is a wait, whether or not the worker was met asleep.
    pub(crate) fn hot_functions(&self) -> Vec<Hot<'_>> {
        let Some(profile) = self.code_stacks() else {
            return Vec::new();
        };
        let mut of = 0;
        let mut functions: BTreeMap<(&str, &Option<String>), Counted<'_>> = BTreeMap::new();
        for stack in computing(profile) {
            of += stack.count;
            let Some(depth) = stack.places.iter().rposition(|place| place.file.is_some()) else {
                continue;
            };
            let place = stack.places[depth];
            let key = (place.function.as_str(), &place.file);
            let function = functions.entry(key).or_default();
            function.add(place, stack.through, stack.count);
            let callers = &stack.places[..depth];
            let caller = callers.iter().rev().find(|place| place.is_own());
            if let Some(caller) = caller.filter(|_| !place.is_own()) {
                *function.callers.entry(caller).or_default() += stack.count;
            }
        }
        let hot = functions.into_values().filter_map(|it| {
            Some(Hot {
                place: it.place()?,
                share: it.share(of),
                of,
                through: it.common(&it.through),
                called_from: it.common(&it.callers),
            })
        });
        let mut hot: Vec<Hot<'_>> = hot.collect();
        hot.sort_by(|a, b| b.share.total_cmp(&a.share));
        hot
    }

    /// The plugins, extensions and modules whose code workers that computed were in, most first. What such a part calls
    /// is its own: without it, it would not be called.
    pub(crate) fn hot_owners(&self) -> Vec<HotOwner<'_>> {
        let Some(profile) = self.code_stacks() else {
            return Vec::new();
        };
        let mut of = 0;
        let mut owners: BTreeMap<Owner, Counted<'_>> = BTreeMap::new();
        for stack in computing(profile) {
            of += stack.count;
            let mut met = BTreeSet::new();
            for place in stack.places.iter().rev() {
                let owner = place.owner().filter(can_be_switched_off);
                let Some(owner) = owner.filter(|owner| met.insert(owner.clone())) else {
                    continue;
                };
                owners
                    .entry(owner)
                    .or_default()
                    .add(place, stack.through, stack.count);
            }
        }
        let hot = owners.into_iter().filter_map(|(owner, it)| {
            Some(HotOwner {
                owner,
                place: it.place()?,
                share: it.share(of),
                of,
                through: it.common(&it.through),
            })
        });
        let mut hot: Vec<HotOwner<'_>> = hot.collect();
        hot.sort_by(|a, b| b.share.total_cmp(&a.share));
        hot
    }

    /// The share of the stacks that computed which pass through such a place, and how many computed; nothing
    /// where no stacks were sampled.
    pub(crate) fn computing_within(&self, is_it: impl Fn(&Place) -> bool) -> Option<(f64, u64)> {
        let (mut of, mut within) = (0, 0);
        for stack in computing(self.code_stacks()?) {
            of += stack.count;
            if stack.places.iter().any(|place| is_it(place)) {
                within += stack.count;
            }
        }
        (of > 0).then(|| (within as f64 / of as f64, of))
    }

    /// The same for functions whose names begin with one of these.
    pub(crate) fn computing_in(&self, functions: &[&str]) -> Option<(f64, u64)> {
        self.computing_within(|place| is_in(place, functions))
    }

    /// The line of PHP that was met most where workers computed in functions whose names begin with one of these.
    pub(crate) fn seen_computing_in(&self, functions: &[&str]) -> Vec<Evidenced> {
        let Some(profile) = self.code_stacks() else {
            return Vec::new();
        };
        let mut callers: BTreeMap<&Place, u64> = BTreeMap::new();
        for stack in computing(profile) {
            let within = stack
                .places
                .iter()
                .position(|place| is_in(place, functions));
            let caller = within.and_then(|at| stack.places.get(at.checked_sub(1)?));
            if let Some(caller) = caller {
                *callers.entry(caller).or_default() += stack.count;
            }
        }
        let all: u64 = callers.values().sum();
        let seen = most(&callers).map(|(place, count)| Evidenced {
            what: format!(
                "{} of them in {} at {}",
                format_share(count as f64 / all as f64),
                place.function,
                place.at()
            ),
            conditions: self.conditions_of(profile),
        });
        seen.into_iter().collect()
    }
}

/// Whether a place is a function whose name begins with one of these.
fn is_in(place: &Place, functions: &[&str]) -> bool {
    functions
        .iter()
        .any(|begin| place.function.starts_with(begin))
}

/// Whether a person can do without it: what an application is built on, and the theme that calls all the rest, are no such
/// thing.
fn can_be_switched_off(owner: &Owner) -> bool {
    matches!(
        owner.kind,
        OwnerKind::Plugin | OwnerKind::Extension | OwnerKind::Module
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{builtin, met, place};

    fn evidence(places: Vec<Place>, stacks: Vec<MetStack>) -> Evidence {
        Evidence {
            stacks: Some(StackProfile {
                phase: "over".to_owned(),
                rate_hz: 99,
                places,
                stacks,
                ..StackProfile::default()
            }),
            ..Evidence::default()
        }
    }

    fn rates() -> Evidence {
        evidence(
            vec![
                place("main /srv/index.php", "/srv/index.php", 3),
                place("App\\Rates::show", "/srv/app/Rates.php", 31),
                place("Lib\\get", "/srv/vendor/lib/get.php", 8),
                place("App\\Rates::show", "/srv/app/Rates.php", 44),
                builtin("array_map"),
                builtin("[recv 10.0.0.9:80]"),
                builtin("mysqli_query"),
            ],
            vec![
                met("GET /rates", &[0, 1, 2, 5], 90),
                met("GET /", &[0], 4),
                met("GET /rates", &[0, 1, 2], 2),
                met("GET /rates", &[0, 3], 3),
                met("GET /rates", &[0, 1, 4], 1),
                met("GET /rates", &[0, 1, 6], 500),
            ],
        )
    }

    #[test]
    fn hot_functions_are_those_that_compute() {
        let evidence = rates();
        let hot = evidence.hot_functions();
        // A line of the function that was met most: 44 three times, 31 once. Neither who waits for a peer computes, nor
        // whom the database's answer woke.
        assert_eq!(hot[0].place.at(), "/srv/app/Rates.php:44");
        assert_eq!((hot[0].share, hot[0].of), (0.4, 10));
        assert_eq!(hot.len(), 3);
    }

    #[test]
    fn a_function_of_a_package_is_told_with_who_calls_it() {
        let evidence = rates();
        let hot = evidence.hot_functions();
        let package = hot.iter().find(|hot| hot.place.function == "Lib\\get");
        let from = package.and_then(|hot| hot.called_from).map(Place::at);
        assert_eq!(from.as_deref(), Some("/srv/app/Rates.php:31"));
        assert_eq!(hot[0].called_from, None, "it is the application's own");
    }

    #[test]
    fn a_plugin_has_all_that_it_calls_once() {
        let evidence = evidence(
            vec![
                place("main", "index.php", 3),
                place("tree", "lib/plugins/menu/action.php", 9),
                place("io_readFile", "inc/io.php", 100),
                place("main", "lib/tpl/dokuwiki/main.php", 20),
                place("walk", "lib/plugins/menu/action.php", 14),
            ],
            vec![
                met("GET /", &[0, 3, 1, 2], 50),
                met("GET /", &[0, 3, 1, 4, 2], 20),
                met("GET /", &[0, 3], 30),
            ],
        );
        let owners = evidence.hot_owners();
        let shown: Vec<_> = owners
            .iter()
            .map(|hot| (hot.owner.to_string(), hot.place.at(), hot.share))
            .collect();
        assert_eq!(
            shown,
            [(
                "plugin menu".to_owned(),
                "lib/plugins/menu/action.php:9".to_owned(),
                0.7
            )]
        );
    }

    #[test]
    fn the_code_that_counts_is_that_just_below_the_limit() {
        let mut evidence = rates();
        let mut knee = evidence.stacks.clone().expect("stacks");
        "knee".clone_into(&mut knee.phase);
        knee.stacks = vec![met("GET /", &[0], 99)];
        evidence.knee_stacks = Some(knee.clone());
        assert_eq!(evidence.hot_functions()[0].of, 10, "99 are too few");
        knee.stacks[0].count = 100;
        evidence.knee_stacks = Some(knee);
        assert_eq!(evidence.hot_functions()[0].of, 100);
    }

    #[test]
    fn work_within_a_function_counts_wherever_it_ends() {
        let evidence = rates();
        let within = evidence.computing_within(|place| place.function == "App\\Rates::show");
        assert_eq!(within, Some((0.6, 10)));
        assert_eq!(Evidence::default().computing_within(|_| true), None);
    }
}
