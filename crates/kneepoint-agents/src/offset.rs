//! What another machine's clock says when ours says something, from messages there and back.
//!
//! A message takes some time, and none of its ways takes less than none. So the answer that came at *t1* of the other clock to a
//! question that left at *t0* of ours bounds the offset from above, *t1 - t0*, and the one that left there at *t2* and was
//! here at *t3* from below, *t2 - t3*. Over some rounds, the least upper and the greatest lower bound are what is known: the
//! estimate is the middle, and cannot be wrong by more than half of the rest, however unlike the two ways are.

/// The four stamps of one round in nanoseconds: the first and the last of our clock, the others of the other one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) asked: u64,
    pub(crate) heard: u64,
    pub(crate) answered: u64,
    pub(crate) back: u64,
}

/// The other clock minus ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Offset {
    pub(crate) ns: i64,
    /// How wrong that can be.
    pub(crate) within_ns: u64,
}

/// What some rounds tell; nothing without one.
pub(crate) fn estimate(rounds: &[Round]) -> Option<Offset> {
    let difference = |a: u64, b: u64| a.wrapping_sub(b) as i64;
    let at_most = rounds.iter().map(|r| difference(r.heard, r.asked)).min()?;
    let at_least = rounds
        .iter()
        .map(|r| difference(r.answered, r.back))
        .max()?;
    let middle = (i128::from(at_most) + i128::from(at_least)) / 2;
    Some(Offset {
        ns: middle as i64,
        // Rounds that contradict one another (a clock drifts) are wrong by about as much as they do.
        within_ns: at_most.abs_diff(at_least).div_ceil(2),
    })
}

/// The longest way there and back of some rounds, in nanoseconds.
pub(crate) fn longest_way(rounds: &[Round]) -> u64 {
    let way = |r: &Round| {
        let there = r.back.saturating_sub(r.asked);
        there.saturating_sub(r.answered.saturating_sub(r.heard))
    };
    rounds.iter().map(way).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever the ways take, the truth lies within the bound, and no round makes it worse.
        #[test]
        fn the_truth_lies_within_the_bound(
            offset in -1_000_000_000_000i64..1_000_000_000_000,
            ways in prop::collection::vec((0u64..5_000_000, 0u64..1_000_000, 0u64..5_000_000), 1..20),
        ) {
            let mut now = 10_000_000_000_000u64;
            let mut rounds = Vec::new();
            let mut bound = u64::MAX;
            for (there, held, back) in ways {
                let heard = (now + there).wrapping_add_signed(offset);
                let round = Round { asked: now, heard, answered: heard + held, back: now + there + held + back };
                now = round.back + 20_000_000;
                rounds.push(round);
                let told = estimate(&rounds).expect("there is a round");
                prop_assert!(told.ns.abs_diff(offset) <= told.within_ns + 1, "{told:?}");
                prop_assert!(told.within_ns <= bound);
                bound = told.within_ns;
                prop_assert!(longest_way(&rounds) >= there + back);
            }
        }
    }

    #[test]
    fn nobody_who_answered_is_nobody_known() {
        assert_eq!(estimate(&[]), None);
    }
}
