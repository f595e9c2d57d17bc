//! Who waits for whom: from what was seen at single moments to the first of each chain, which nobody holds up.

use crate::Place;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What kind of thing is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LockKind {
    /// A file: flock(2) or fcntl(2).
    File,
    /// Rows of a table, or the whole table.
    Row,
    /// A lock of the database that has a name or a number of the application's own.
    Named,
    /// A semaphore of System V, as sem_acquire() takes one.
    Semaphore,
}

/// Somebody who holds a lock, or waits for one, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LockParty {
    /// What tells it from others at that moment: `worker 4711`, `session 17`.
    pub id: String,
    /// The PHP worker behind it, where that is known.
    pub worker: Option<u32>,
    /// What it does, where that is known: a statement without its values, `idle in a transaction`.
    pub doing: String,
    /// Method and folded path of its request, where that is known.
    pub route: String,
    /// The line of PHP it was at, where that is known.
    pub place: Option<Place>,
}

/// One waits for what another holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWait {
    /// Who waits.
    pub waiter: LockParty,
    /// Who holds it.
    pub holder: LockParty,
    /// What kind of thing it is.
    pub kind: LockKind,
    /// What it is called: a path, a table, the name of a lock, a semaphore by its key.
    pub object: String,
}

/// Chains that begin with the same: one that waits for nobody, or a circle.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LockChain {
    /// What kind of thing the first holds.
    pub kind: LockKind,
    /// What it is called.
    pub object: String,
    /// What the first does, where that is known.
    pub doing: String,
    /// Its request, where that is known.
    pub route: String,
    /// The line of PHP it was at, where that is known.
    pub place: Option<Place>,
    /// Of all the time that anybody waited for a lock, the share spent behind it.
    pub share: f64,
    /// Most that were seen one behind the other, the first not counted.
    pub longest: u32,
    /// Whether it is a circle: each of them waits for the next, and nobody is first.
    pub circle: bool,
}

/// Who waited for whom over a stretch of load.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LockChains {
    /// The phase they were seen in.
    pub phase: String,
    /// How many times somebody looked.
    pub looks: u64,
    /// How many waited on average.
    pub waiting: f64,
    /// By what they begin with, the largest share first. The shares add up to 1 where anybody waited.
    pub chains: Vec<LockChain>,
}

impl LockChains {
    /// Those of some kinds, with their share of what waited for those.
    pub fn of<'a>(&'a self, kinds: &'a [LockKind]) -> impl Iterator<Item = (&'a LockChain, f64)> {
        let is_it = |chain: &&LockChain| kinds.contains(&chain.kind);
        let all: f64 = self.chains.iter().filter(is_it).map(|it| it.share).sum();
        let those = self.chains.iter().filter(is_it);
        those.map(move |chain| (chain, chain.share / all.max(f64::MIN_POSITIVE)))
    }
}

/// What chains are told by: what the first holds, and who that is. Where neither its request nor its code is known, it is what
/// it does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct First {
    kind: LockKind,
    object: String,
    route: String,
    /// The function and its file.
    code: Option<(String, Option<String>)>,
    doing: String,
    circle: bool,
}

/// What is counted of chains that begin with the same.
#[derive(Debug, Default)]
struct Tally {
    waited: f64,
    longest: u32,
    /// What the first did, and at which line, by how many waited meanwhile.
    moments: BTreeMap<(String, Option<Place>), f64>,
}

impl Tally {
    fn add(&mut self, seen: Seen<'_>, part: f64) {
        self.waited += part;
        self.longest = self.longest.max(seen.depth);
        let moment = (seen.party.doing.clone(), seen.party.place.clone());
        *self.moments.entry(moment).or_default() += part;
    }

    fn into_chain(self, first: First, waited: f64) -> LockChain {
        let moments = self.moments.into_iter();
        let most = moments.max_by(|a, b| a.1.total_cmp(&b.1));
        let (doing, place) = most.map(|(moment, _)| moment).unwrap_or_default();
        LockChain {
            kind: first.kind,
            object: first.object,
            doing,
            route: first.route,
            place,
            share: self.waited / waited,
            longest: self.longest,
            circle: first.circle,
        }
    }
}

/// From what was seen at each look to chains.
///
/// Everybody who waits counts once a look, behind those of whom it waits, directly or through others, that wait for nobody
/// themselves; in equal parts where they are several. One that waits behind a circle alone counts behind the circle.
#[must_use]
pub fn lock_chains(phase: &str, looks: &[Vec<LockWait>]) -> LockChains {
    let mut firsts: BTreeMap<First, Tally> = BTreeMap::new();
    let mut waited = 0.0;
    for look in looks {
        let graph = Graph::of(look);
        for waiter in graph.behind.keys() {
            waited += 1.0;
            let found = graph.firsts_of(waiter);
            let part = 1.0 / found.len().max(1) as f64;
            for seen in found {
                firsts.entry(seen.first()).or_default().add(seen, part);
            }
        }
    }
    let chains = firsts.into_iter();
    let mut chains: Vec<LockChain> = chains
        .map(|(first, tally)| tally.into_chain(first, waited))
        .collect();
    chains.sort_by(|a, b| b.share.total_cmp(&a.share));
    LockChains {
        phase: phase.to_owned(),
        looks: looks.len() as u64,
        waiting: waited / looks.len().max(1) as f64,
        chains,
    }
}

/// The first of a chain, as one who waits found it.
#[derive(Debug, Clone, Copy)]
struct Seen<'a> {
    wait: &'a LockWait,
    party: &'a LockParty,
    depth: u32,
    circle: bool,
}

impl Seen<'_> {
    fn first(&self) -> First {
        let party = self.party;
        let code = party.place.as_ref();
        let unknown = party.route.is_empty() && code.is_none();
        First {
            kind: self.wait.kind,
            object: self.wait.object.clone(),
            route: party.route.clone(),
            code: code.map(|place| (place.function.clone(), place.file.clone())),
            doing: if unknown {
                party.doing.clone()
            } else {
                String::new()
            },
            circle: self.circle,
        }
    }
}

/// One moment: who waits, and for whom.
struct Graph<'a> {
    behind: BTreeMap<&'a str, Vec<&'a LockWait>>,
}

impl<'a> Graph<'a> {
    fn of(look: &'a [LockWait]) -> Self {
        let mut behind: BTreeMap<&str, Vec<&LockWait>> = BTreeMap::new();
        for wait in look {
            behind.entry(&wait.waiter.id).or_default().push(wait);
        }
        Self { behind }
    }

    /// Those behind whom one waits that wait for nobody, each with how many are between; or the circle, where all that
    /// can be reached wait.
    fn firsts_of(&self, waiter: &'a str) -> Vec<Seen<'a>> {
        let mut met: BTreeSet<&str> = BTreeSet::from([waiter]);
        let mut next: VecDeque<(&str, u32)> = VecDeque::from([(waiter, 1)]);
        let mut firsts: BTreeMap<&str, Seen<'a>> = BTreeMap::new();
        while let Some((id, depth)) = next.pop_front() {
            for &wait in self.behind.get(id).into_iter().flatten() {
                let holder = wait.holder.id.as_str();
                if self.behind.contains_key(holder) {
                    if met.insert(holder) {
                        next.push_back((holder, depth + 1));
                    }
                } else {
                    firsts.entry(holder).or_insert(Seen {
                        wait,
                        party: &wait.holder,
                        depth,
                        circle: false,
                    });
                }
            }
        }
        if firsts.is_empty() {
            return self.circle(&met).into_iter().collect();
        }
        firsts.into_values().collect()
    }

    /// The circle among those that were met, by the first of its members in the order of their names, so that all who wait
    /// behind it name the same.
    fn circle(&self, met: &BTreeSet<&'a str>) -> Option<Seen<'a>> {
        let members = met.iter().filter(|id| self.comes_back_to(id));
        let first = members.clone().next()?;
        let &wait = self.behind.get(first)?.first()?;
        Some(Seen {
            wait,
            party: &wait.waiter,
            depth: u32::try_from(members.count()).unwrap_or(u32::MAX),
            circle: true,
        })
    }

    /// Whether one waits, through others, for itself.
    fn comes_back_to(&self, start: &str) -> bool {
        let mut met: BTreeSet<&str> = BTreeSet::new();
        let mut next = vec![start];
        while let Some(id) = next.pop() {
            for wait in self.behind.get(id).into_iter().flatten() {
                let holder = wait.holder.id.as_str();
                if holder == start {
                    return true;
                }
                if met.insert(holder) {
                    next.push(holder);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn party(id: u32) -> LockParty {
        LockParty {
            id: format!("worker {id}"),
            worker: Some(id),
            route: format!("GET /{id}"),
            ..LockParty::default()
        }
    }

    fn wait(waiter: u32, holder: u32) -> LockWait {
        LockWait {
            waiter: party(waiter),
            holder: party(holder),
            kind: LockKind::File,
            object: "data/stats.json".to_owned(),
        }
    }

    fn told(looks: &[Vec<LockWait>]) -> Vec<(String, f64, u32, bool)> {
        let chains = lock_chains("over", looks).chains.into_iter();
        chains
            .map(|it| (it.route, it.share, it.longest, it.circle))
            .collect()
    }

    #[test]
    fn the_first_of_a_chain_has_all_that_wait_behind_it() {
        // 3 waits for 2, 2 for 1; 5 for 4.
        let look = vec![wait(3, 2), wait(2, 1), wait(5, 4), wait(6, 1)];
        let chains = lock_chains("over", &[look, Vec::new()]);
        assert_eq!((chains.looks, chains.waiting), (2, 2.0));
        let told: Vec<_> = chains
            .chains
            .iter()
            .map(|it| (it.route.as_str(), it.share, it.longest))
            .collect();
        assert_eq!(told, [("GET /1", 0.75, 2), ("GET /4", 0.25, 1)]);
    }

    #[test]
    fn of_several_holders_each_has_its_part() {
        assert_eq!(
            told(&[vec![wait(3, 1), wait(3, 2)]]),
            [
                ("GET /1".to_owned(), 0.5, 1, false),
                ("GET /2".to_owned(), 0.5, 1, false)
            ]
        );
    }

    #[test]
    fn a_circle_is_told_once_with_who_waits_behind_it() {
        let look = vec![wait(1, 2), wait(2, 1), wait(3, 1)];
        assert_eq!(told(&[look]), [("GET /1".to_owned(), 1.0, 2, true)]);
        assert_eq!(
            told(&[vec![wait(7, 7)]]),
            [("GET /7".to_owned(), 1.0, 1, true)]
        );
    }

    #[test]
    fn a_first_that_moves_on_is_one_and_told_where_most_waited() {
        let at = |line| {
            let mut look = vec![wait(2, 1), wait(3, 1)];
            for wait in &mut look {
                wait.holder.doing = format!("in step {line}");
                wait.holder.place = Some(Place {
                    function: "Stats::add".to_owned(),
                    file: Some("lib/stats.php".to_owned()),
                    line: Some(line),
                });
            }
            look
        };
        let mut looks = vec![at(7), at(9), at(9)];
        looks[0].pop();
        let chains = lock_chains("over", &looks).chains;
        assert_eq!(chains.len(), 1, "{chains:?}");
        let at = chains[0].place.as_ref().map(Place::at);
        assert_eq!(at.as_deref(), Some("lib/stats.php:9"));
        assert_eq!(
            (chains[0].doing.as_str(), chains[0].share),
            ("in step 9", 1.0)
        );
    }

    #[test]
    fn nobody_waits_and_nothing_is_told() {
        assert_eq!(
            lock_chains("over", &[]),
            LockChains {
                phase: "over".to_owned(),
                ..LockChains::default()
            }
        );
    }

    #[test]
    fn of_one_kind_the_shares_are_of_that_kind() {
        let mut look = vec![wait(2, 1), wait(3, 1)];
        look[1].waiter.id = "session 9".to_owned();
        look[1].holder.id = "session 8".to_owned();
        look[1].kind = LockKind::Row;
        let chains = lock_chains("over", &[look]);
        let rows: Vec<f64> = chains
            .of(&[LockKind::Row])
            .map(|(_, share)| share)
            .collect();
        assert_eq!(rows, [1.0]);
        assert_eq!(chains.of(&[LockKind::Named]).count(), 0);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_no_circle_runs_for_ever(
            looks in prop::collection::vec(prop::collection::vec((0u32..9, 0u32..9), 0..24), 0..6),
        ) {
            let looks: Vec<Vec<LockWait>> = looks
                .iter()
                .map(|look| look.iter().map(|(waiter, holder)| wait(*waiter, *holder)).collect())
                .collect();
            let chains = lock_chains("over", &looks);
            let waiters: BTreeSet<(usize, &str)> = looks
                .iter()
                .enumerate()
                .flat_map(|(nth, look)| look.iter().map(move |wait| (nth, wait.waiter.id.as_str())))
                .collect();
            let sum: f64 = chains.chains.iter().map(|chain| chain.share).sum();
            let whole = f64::from(u8::from(!waiters.is_empty()));
            prop_assert!((sum - whole).abs() < 1e-9);
            prop_assert!((chains.waiting * looks.len() as f64 - waiters.len() as f64).abs() < 1e-6);
            for chain in &chains.chains {
                prop_assert!(chain.share > 0.0 && chain.longest >= 1);
                // The first of a chain that is no circle waits for nobody in at least one look.
                let free = looks.iter().any(|look| look.iter().all(|wait| wait.waiter.route != chain.route));
                prop_assert!(chain.circle || free);
            }
        }
    }
}
