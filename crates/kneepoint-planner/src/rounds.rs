//! Rounds in which everybody has a turn: who comes when, and what the differences within a round say.

mod claims;
mod turns;

use crate::random::Random;
pub use claims::{StageValues, describe};
pub use turns::{RoundResults, differences};

/// The order of a round: each is as likely as any other.
#[must_use]
pub fn shuffled(count: usize, round: u64) -> Vec<usize> {
    let mut random = Random::new(round.wrapping_add(1), 4);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        let at = (random.uniform() * (last + 1) as f64) as usize;
        order.swap(last, at.min(last));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
