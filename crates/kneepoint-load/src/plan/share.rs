//! Which part of a load is this generator's, and which part of that a thread's.

use serde::{Deserialize, Serialize};

/// Most slots a load is divided into: a thousand generators with a share each of three digits.
const MOST_SLOTS: u32 = 1 << 17;

/// The part of a load that one of several generators drives.
///
/// Everything a load numbers (arrivals of a schedule, users, workers, rows of a feeder, requests by name) belongs to
/// slots: number *k* to slot *k* modulo [`Self::of`]. A generator has some of the slots; where each slot is somebody's,
/// all of them together are one load, as the threads of one generator are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Parts", into = "Parts")]
pub struct Share {
    /// Ascending.
    slots: Vec<u32>,
    of: u32,
}

/// A share as it is written down.
#[derive(Serialize, Deserialize)]
struct Parts {
    slots: Vec<u32>,
    of: u32,
}

impl From<Share> for Parts {
    fn from(share: Share) -> Self {
        Self {
            slots: share.slots,
            of: share.of,
        }
    }
}

impl TryFrom<Parts> for Share {
    type Error = &'static str;

    fn try_from(parts: Parts) -> Result<Self, Self::Error> {
        Self::new(parts.slots, parts.of)
            .ok_or("a share has at least one slot, each once and below their number")
    }
}

impl Share {
    /// These slots of so many; `None` without a slot, with one twice or one that there is not.
    #[must_use]
    pub fn new(mut slots: Vec<u32>, of: u32) -> Option<Self> {
        slots.sort_unstable();
        let distinct = slots.windows(2).all(|pair| pair[0] < pair[1]);
        let there = slots.last().is_some_and(|last| *last < of);
        (distinct && there && of <= MOST_SLOTS).then_some(Self { slots, of })
    }

    /// The slots, ascending.
    #[must_use]
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// How many slots there are in all.
    #[must_use]
    pub fn of(&self) -> u32 {
        self.of
    }

    /// Which part of the whole it is, from above 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.slots.len() as f64 / f64::from(self.of)
    }

    /// How many of the numbers below a bound belong to it.
    #[must_use]
    pub fn count_below(&self, bound: u64) -> u64 {
        count_below(&self.slots, self.of, bound)
    }
}

fn count_below(slots: &[u32], of: u32, bound: u64) -> u64 {
    let (rounds, rest) = (bound / u64::from(of), bound % u64::from(of));
    let begun = slots.partition_point(|slot| u64::from(*slot) < rest);
    rounds * slots.len() as u64 + begun as u64
}

/// The numbers that belong to one thread: those of its slots, round after round.
#[derive(Debug, Clone)]
pub(crate) struct Numbers {
    /// Ascending; never empty.
    slots: Vec<u32>,
    of: u32,
}

impl Numbers {
    /// Of thread `thread` of so many, which share the slots of a generator; without a share, thread *t* of *T* has the
    /// numbers *k* = *t* (mod *T*).
    pub(crate) fn of_thread(share: Option<&Share>, thread: usize, threads: usize) -> Self {
        let whole = || Self {
            slots: vec![thread as u32],
            of: threads.max(1) as u32,
        };
        let Some(share) = share else {
            return whole();
        };
        Self {
            slots: share
                .slots
                .iter()
                .copied()
                .skip(thread)
                .step_by(threads)
                .collect(),
            of: share.of,
        }
    }

    /// A number that no other thread of the load has here: which stretch of the random numbers is this one's.
    pub(crate) fn stretch(&self) -> usize {
        self.slots[0] as usize
    }

    /// How far apart two numbers of the same slot are.
    pub(crate) fn apart(&self) -> u64 {
        u64::from(self.of)
    }

    /// What the rate of the whole is divided by.
    pub(crate) fn parts(&self) -> f64 {
        f64::from(self.of) / self.slots.len() as f64
    }

    /// How many of the numbers below a bound there are.
    pub(crate) fn count_below(&self, bound: u64) -> u64 {
        count_below(&self.slots, self.of, bound)
    }

    /// The numbers, from the first on.
    pub(crate) fn counter(&self) -> Counter {
        Counter {
            numbers: self.clone(),
            at: 0,
            round: 0,
        }
    }
}

/// Goes through the numbers of a thread, ascending and without an end.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    numbers: Numbers,
    at: usize,
    round: u64,
}

impl Counter {
    /// The next number.
    #[inline]
    pub(crate) fn take(&mut self) -> u64 {
        let number = self
            .round
            .wrapping_add(u64::from(self.numbers.slots[self.at]));
        self.at += 1;
        if self.at == self.numbers.slots.len() {
            self.at = 0;
            self.round = self.round.wrapping_add(u64::from(self.numbers.of));
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_share_that_cannot_be_is_none() {
        assert!(Share::new(vec![], 4).is_none());
        assert!(Share::new(vec![1, 1], 4).is_none());
        assert!(Share::new(vec![4], 4).is_none());
        let share = Share::new(vec![3, 0], 4).expect("two of four");
        assert_eq!(share.slots(), [0, 3]);
        let text = serde_json::to_string(&share).expect("is text");
        assert_eq!(text, r#"{"slots":[0,3],"of":4}"#);
        assert_eq!(
            serde_json::from_str::<Share>(&text).expect("is a share"),
            share
        );
        assert!(serde_json::from_str::<Share>(r#"{"slots":[9],"of":4}"#).is_err());
    }

    proptest! {
        /// Whatever the slots and threads, each number is one thread's, and the counts say how many.
        #[test]
        fn threads_of_shares_have_each_number_once(
            owner in prop::collection::vec(0usize..3, 8..40),
            threads in 1usize..4,
            bound in 0u64..200,
        ) {
            let of = owner.len() as u32;
            let mut seen = Vec::new();
            let mut counted = 0;
            for generator in 0..3 {
                let own = (0..of).filter(|slot| owner[*slot as usize] == generator).collect();
                let Some(share) = Share::new(own, of) else { continue };
                let threads = threads.min(share.slots().len());
                let mut of_threads = 0;
                for thread in 0..threads {
                    let numbers = Numbers::of_thread(Some(&share), thread, threads);
                    let mut counter = numbers.counter();
                    let own: Vec<u64> = std::iter::repeat_with(|| counter.take())
                        .take_while(|number| *number < bound)
                        .collect();
                    prop_assert_eq!(numbers.count_below(bound), own.len() as u64);
                    of_threads += numbers.count_below(bound);
                    seen.extend(own);
                }
                prop_assert_eq!(share.count_below(bound), of_threads);
                counted += of_threads;
            }
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..bound).collect::<Vec<_>>());
            prop_assert_eq!(counted, bound);
        }
    }
}
