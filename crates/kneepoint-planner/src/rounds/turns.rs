//! What contestants did in their turns, and what the differences within rounds say.

use crate::ab::{AbMeasure, AbOptions, AbTest, Side};
use crate::bench::Canary;
use kneepoint_model::LoadPoint;
use kneepoint_model::contest::Contestant;
use kneepoint_model::statistics::sequential::ENOUGH;
use std::collections::BTreeMap;
use std::time::Duration;

/// What each contestant served at saturation, by round; and what each and the first did at once.
#[derive(Debug, Clone)]
pub struct RoundResults {
    by_contestant: Vec<BTreeMap<u32, LoadPoint>>,
    beside_first: Vec<BTreeMap<u32, [LoadPoint; 2]>>,
}

impl RoundResults {
    /// Of so many contestants, before the first round.
    #[must_use]
    pub fn new(contestants: usize) -> Self {
        Self {
            by_contestant: vec![BTreeMap::new(); contestants],
            beside_first: vec![BTreeMap::new(); contestants],
        }
    }

    /// Rounds in which two contestants each had a turn that counts: of the first and whoever has the fewest with it.
    /// One that is gone has none to come.
    #[must_use]
    pub fn fewest_pairs(&self) -> usize {
        let Some((first, others)) = self.by_contestant.split_first() else {
            return 0;
        };
        let last = first.keys().next_back();
        let present = others.iter();
        let present = present.filter(|rounds| rounds.keys().next_back() == last);
        let counted = present.map(|rounds| pairs(first, rounds).count());
        counted.min().unwrap_or(usize::MAX)
    }

    /// What the first and another did at once, in this order.
    pub fn record_both(&mut self, round: u32, other: usize, points: [LoadPoint; 2]) {
        if let Some(rounds) = self.beside_first.get_mut(other) {
            rounds.insert(round, points);
        }
    }

    /// What a contestant served at saturation in its turn of a round.
    pub fn record(&mut self, round: u32, contestant: usize, point: &LoadPoint) {
        if let Some(rounds) = self.by_contestant.get_mut(contestant) {
            rounds.insert(round, point.clone());
        }
    }
}

/// What each contestant serves over the first, by the rounds that both had a turn in. How many rounds there are was set
/// before, and not by what they say.
pub fn differences(contestants: &mut [Contestant], turns: &RoundResults, conditions: &str) {
    let Some((first, others)) = turns.by_contestant.split_first() else {
        return;
    };
    let first_name = contestants
        .first()
        .map_or(String::new(), |it| it.name.clone());
    let others = others.iter().zip(turns.beside_first.iter().skip(1));
    for (contestant, (rounds, at_once)) in contestants.iter_mut().skip(1).zip(others) {
        let in_turns: Vec<_> = pairs(first, rounds).collect();
        let mut test = AbTest::new(options(in_turns.len() + at_once.len()));
        for (a, b) in in_turns {
            test.record(Side::A, a, Canary::default());
            test.record(Side::B, b, Canary::default());
        }
        for [a, b] in at_once.values() {
            test.record_both(a, b);
        }
        let mut effect = test.effect(&format!("{} against {first_name}", contestant.name), &[]);
        conditions.clone_into(&mut effect.conditions);
        contestant.against_first = effect.ratio.is_some().then_some(effect);
    }
}

/// The rounds that both had a turn in. A pair of which one step does not count is left out whole, whichever it is.
fn pairs<'t>(
    first: &'t BTreeMap<u32, LoadPoint>,
    other: &'t BTreeMap<u32, LoadPoint>,
) -> impl Iterator<Item = (&'t LoadPoint, &'t LoadPoint)> {
    let both = other.iter();
    let both = both.filter_map(|(round, point)| Some((first.get(round)?, point)));
    both.filter(|(a, b)| a.validity.is_valid() && b.validity.is_valid())
}

fn options(pairs: usize) -> AbOptions {
    AbOptions {
        measure: AbMeasure::Saturation { workers: 0 },
        max_pairs: pairs.max(1),
        min_pairs: pairs.max(1),
        enough: ENOUGH,
        at_once: true,
        not_worse: None,
        step: Duration::from_secs(3),
        rope: 0.02,
        seed: 41,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{Outcome, Verdict};

    fn served(count: u64) -> LoadPoint {
        let mut point = LoadPoint {
            window_s: 1.0,
            arrivals: count,
            ..LoadPoint::default()
        };
        point.outcomes.by_outcome.insert(Outcome::Ok, count);
        point
    }

    fn named(names: &[&str]) -> Vec<Contestant> {
        let named = names.iter().map(|name| Contestant {
            name: (*name).to_owned(),
            ..Contestant::default()
        });
        named.collect()
    }

    #[test]
    fn what_drifts_for_all_is_no_difference() {
        let mut contestants = named(&["a", "same", "half"]);
        let mut turns = RoundResults::new(3);
        for round in 0..10 {
            let speed = 1000 + 100 * u64::from(round);
            let scatter = if round % 2 == 0 { 5 } else { 0 };
            turns.record(round, 0, &served(speed));
            turns.record(round, 1, &served(speed + scatter));
            turns.record(round, 2, &served(speed / 2 + scatter));
        }
        differences(&mut contestants, &turns, "10 rounds");
        let verdict = |at: usize| {
            let effect: &Option<kneepoint_model::Effect> = &contestants[at].against_first;
            effect.as_ref().map(|effect| effect.verdict)
        };
        assert_eq!(verdict(0), None);
        assert_eq!(verdict(1), Some(Verdict::Equivalent));
        assert_eq!(verdict(2), Some(Verdict::Worse));
    }

    #[test]
    fn one_that_died_is_compared_by_the_rounds_it_had() {
        let mut contestants = named(&["a", "b"]);
        let mut turns = RoundResults::new(2);
        for round in 0..10 {
            turns.record(round, 0, &served(1000));
            if round < 2 {
                turns.record(round, 1, &served(1000));
            }
        }
        differences(&mut contestants, &turns, "");
        assert_eq!(contestants[1].against_first, None);
    }
}
