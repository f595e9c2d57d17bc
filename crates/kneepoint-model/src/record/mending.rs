//! In which order several causes are best mended, and what each mending is worth once those before it are done.

use crate::Layer;
use serde::{Deserialize, Serialize};

/// Share of a resource that no mending takes away: no cause leaves nothing.
const LEFT: f64 = 0.05;
/// Rates that differ by less are the same: then it decides what is taken off the resource that binds.
const SAME: f64 = 1e-9;

/// The order of mending at one configuration. Nothing of it is measured: it follows from the shares of the account, and says
/// what to expect of a person who mends one cause after the other.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Mending {
    /// Which configuration.
    pub arm: String,
    /// The causes, the one to begin with first.
    pub steps: Vec<MendingStep>,
}

/// One cause to mend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MendingStep {
    /// Code of its rule.
    pub code: String,
    /// Where it sits.
    pub layer: Layer,
    /// What is wrong.
    pub title: String,
    /// The share of its resource that it takes: of the stack's CPU, or of the time of busy workers.
    pub share: f64,
    /// The limit without it over the limit now, as if it were the only one that is mended.
    pub alone: f64,
    /// The limit without it and without all before it, over the limit without those before it.
    pub after: f64,
}

/// What binds a stack: parts of what there is that are used where it is saturated, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Used {
    /// Of the CPU.
    pub cpu: f64,
    /// Of the workers there can be.
    pub workers: f64,
}

/// What one cause takes: parts from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Taken {
    /// Of the CPU time of a request.
    pub cpu: f64,
    /// Of the time that a request holds a worker.
    pub workers: f64,
}

impl Used {
    /// The rate the stack bears without some causes, relative to what it would bear if it did nothing but what binds now: the
    /// smaller of what the CPU and what the workers allow. Shares of several causes add up, as parts of one whole do.
    fn rate(self, without: Taken) -> f64 {
        let allowed = |used: f64, taken: f64| {
            let left = (1.0 - taken).max(LEFT);
            1.0 / (used.max(LEFT) * left)
        };
        allowed(self.cpu, without.cpu).min(allowed(self.workers, without.workers))
    }

    /// What is taken off both, whichever binds: it decides between causes that leave the rate as it is.
    fn both(self, without: Taken) -> f64 {
        -(1.0 - without.cpu).max(LEFT).ln() - (1.0 - without.workers).max(LEFT).ln()
    }
}

impl Taken {
    fn and(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            workers: self.workers + other.workers,
        }
    }

    fn sound(self) -> Self {
        let sound = |share: f64| {
            if share.is_finite() {
                share.clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        Self {
            cpu: sound(self.cpu),
            workers: sound(self.workers),
        }
    }
}

/// A cause's place in the order: which one, what mending it alone is worth, and what it is worth after those before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MendingTurn {
    /// Which of the causes, from 0.
    pub cause: usize,
    /// The limit without it over the limit now.
    pub alone: f64,
    /// The limit without it and those before it, over the limit without those.
    pub after: f64,
}

/// The order in which causes are best mended: each time what raises the limit most. Two causes on one resource are worth more
/// together than each alone (Amdahl's law); one on a resource that does not bind is worth nothing until the other is mended.
#[must_use]
pub fn mending_order(used: Used, causes: &[Taken]) -> Vec<MendingTurn> {
    let causes: Vec<Taken> = causes.iter().map(|cause| cause.sound()).collect();
    let now = used.rate(Taken::default());
    let mut mended = Taken::default();
    let mut left: Vec<usize> = (0..causes.len()).collect();
    let mut turns = Vec::new();
    while let Some(at) = best(used, mended, &causes, &left) {
        let cause = left.remove(at);
        let before = used.rate(mended);
        mended = mended.and(causes[cause]);
        turns.push(MendingTurn {
            cause,
            alone: used.rate(causes[cause]) / now,
            after: used.rate(mended) / before,
        });
    }
    turns
}

/// Which of those left raises the limit most.
fn best(used: Used, mended: Taken, causes: &[Taken], left: &[usize]) -> Option<usize> {
    let worth = |at: &usize| {
        let with = mended.and(causes[left[*at]]);
        (used.rate(with), used.both(with))
    };
    (0..left.len()).reduce(|best, at| {
        let (known, new) = (worth(&best), worth(&at));
        let better = new.0 > known.0 * (1.0 + SAME);
        let same = new.0 >= known.0 * (1.0 - SAME) && new.1 > known.1;
        if better || same { at } else { best }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cpu(share: f64) -> Taken {
        Taken {
            cpu: share,
            workers: 0.0,
        }
    }

    fn wait(share: f64) -> Taken {
        Taken {
            cpu: 0.0,
            workers: share,
        }
    }

    fn told(used: (f64, f64), causes: &[Taken]) -> Vec<(usize, f64, f64)> {
        let used = Used {
            cpu: used.0,
            workers: used.1,
        };
        let rounded = |ratio: f64| (ratio * 100.0).round() / 100.0;
        mending_order(used, causes)
            .into_iter()
            .map(|turn| (turn.cause, rounded(turn.alone), rounded(turn.after)))
            .collect()
    }

    #[test]
    fn of_two_on_one_resource_the_second_is_worth_more_after_the_first() {
        // A fifth and a half of the CPU: without the half, the fifth is two fifths of what is left.
        assert_eq!(
            told((1.0, 0.2), &[cpu(0.2), cpu(0.5)]),
            [(1, 2.0, 2.0), (0, 1.25, 1.67)]
        );
    }

    #[test]
    fn what_does_not_bind_is_worth_nothing_until_what_binds_is_mended() {
        // All workers wait; the CPU is used to a half.
        assert_eq!(
            told((0.5, 1.0), &[cpu(0.4), wait(0.8)]),
            [(1, 2.0, 2.0), (0, 1.0, 1.67)]
        );
    }

    #[test]
    fn without_causes_there_is_no_order() {
        assert!(told((1.0, 1.0), &[]).is_empty());
        // Nonsense is nothing.
        assert_eq!(told((1.0, 1.0), &[cpu(f64::NAN)]), [(0, 1.0, 1.0)]);
    }

    proptest! {
        #[test]
        fn each_cause_has_one_turn_and_they_multiply_to_the_whole(
            used in (0.05f64..1.0, 0.05f64..1.0),
            causes in prop::collection::vec((0.0f64..1.0, 0.0f64..1.0), 0..7),
        ) {
            let used = Used { cpu: used.0, workers: used.1 };
            let causes: Vec<Taken> = causes.iter().map(|(cpu, workers)| Taken { cpu: *cpu, workers: *workers }).collect();
            let turns = mending_order(used, &causes);
            let mut met: Vec<usize> = turns.iter().map(|turn| turn.cause).collect();
            met.sort_unstable();
            prop_assert_eq!(met, (0..causes.len()).collect::<Vec<_>>());
            let all = causes.iter().fold(Taken::default(), |sum, cause| sum.and(*cause));
            let whole = used.rate(all) / used.rate(Taken::default());
            let product: f64 = turns.iter().map(|turn| turn.after).product();
            prop_assert!((product / whole - 1.0).abs() < 1e-9);
            for turn in &turns {
                // Mending never harms, and no turn is worth more than what the floor leaves.
                prop_assert!(turn.after >= 1.0 - 1e-12 && turn.alone >= 1.0 - 1e-12);
                prop_assert!(turn.after <= 1.0 / LEFT + 1e-9);
            }
            // The first is the best by itself.
            if let Some(first) = turns.first() {
                prop_assert!(turns.iter().all(|turn| turn.alone <= first.alone * (1.0 + 1e-6)));
                prop_assert!((first.alone - first.after).abs() < 1e-9);
            }
        }
    }
}
