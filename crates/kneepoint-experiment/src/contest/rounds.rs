//! Rounds in which everybody has a turn, and what the differences within them say.

use crate::ab::{AbOptions, AbTest, Measure, Side};
use crate::bench::Canary;
use crate::random::Random;
use kneepoint_model::LoadPoint;
use kneepoint_model::contest::Contestant;
use kneepoint_model::statistics::sequential::ENOUGH;
use std::collections::BTreeMap;
use std::time::Duration;

/// What each contestant served at saturation, by round; and what each and the first did at once.
pub(super) struct Turns {
    by_contestant: Vec<BTreeMap<u32, LoadPoint>>,
    beside_first: Vec<BTreeMap<u32, [LoadPoint; 2]>>,
}

impl Turns {
    pub(super) fn new(contestants: usize) -> Self {
        Self {
            by_contestant: vec![BTreeMap::new(); contestants],
            beside_first: vec![BTreeMap::new(); contestants],
        }
    }

    /// Rounds in which two contestants each had a turn that counts: of the first and whoever has the fewest with it.
    /// One that is gone has none to come.
    pub(super) fn fewest_pairs(&self) -> usize {
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
    pub(super) fn record_both(&mut self, round: u32, other: usize, points: [LoadPoint; 2]) {
        if let Some(rounds) = self.beside_first.get_mut(other) {
            rounds.insert(round, points);
        }
    }

    pub(super) fn record(&mut self, round: u32, contestant: usize, point: &LoadPoint) {
        if let Some(rounds) = self.by_contestant.get_mut(contestant) {
            rounds.insert(round, point.clone());
        }
    }
}

/// The order of a round: each is as likely as any other.
pub(crate) fn shuffled(count: usize, round: u64) -> Vec<usize> {
    let mut random = Random::new(round.wrapping_add(1), 4);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let at = (random.uniform() * (last + 1) as f64) as usize;
        order.swap(last, at.min(last));
    }
    order
}

/// What each contestant serves over the first, by the rounds that both had a turn in. How many rounds there are was set
/// before, and not by what they say.
pub(super) fn differences(contestants: &mut [Contestant], turns: &Turns, conditions: &str) {
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
        measure: Measure::Saturation { workers: 0 },
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
    fn everybody_has_one_turn_a_round_and_the_order_changes() {
        let mut firsts = [0; 3];
        for round in 0..300 {
            let order = shuffled(3, round);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2]);
            firsts[order[0]] += 1;
        }
        assert!(
            firsts.iter().all(|count| (70..130).contains(count)),
            "{firsts:?}"
        );
    }

    #[test]
    fn what_drifts_for_all_is_no_difference() {
        let mut contestants = named(&["a", "same", "half"]);
        let mut turns = Turns::new(3);
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
        let mut turns = Turns::new(2);
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
