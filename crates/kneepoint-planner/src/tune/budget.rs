//! How the time of tuning is divided among what is still to come.
//!
//! Before each comparison it is known what follows it: other remedies, leaving out what was kept, another look, the proof. Each
//! costs what such a thing took so far in this run. What the certain parts leave is divided among the comparisons, in pairs;
//! one that ends early leaves more to those after it.

use kneepoint_model::statistics::sequential::MIN_PAIRS;
use std::time::Duration;

/// What parts of tuning take, by what they took so far in this run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Starting a stack, warming it and taking the last one down.
    stand_up: Duration,
    /// One pair of a comparison.
    pair: Duration,
    /// One diagnosis.
    diagnosis: Duration,
}

/// What is still to come.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ToCome {
    /// Remedies to try, the next one among them.
    pub remedies: u32,
    /// Kept changes to leave out once.
    pub left_out: u32,
    /// What looking at the configuration again takes: where its limit is, and what binds.
    pub look_again: Duration,
    /// What the proof takes beside its pairs: limit, and what belongs to it.
    pub proof: Duration,
}

/// Share of tried remedies that are kept, and so are to be left out once. Of what a diagnosis suspects about half wins.
const KEPT: f64 = 0.5;
/// Comparisons of the proof: the restart, and base against best.
const PROOF_COMPARISONS: f64 = 2.0;
/// Most pairs of one comparison.
const MOST_PAIRS: f64 = 24.0;

impl Default for Costs {
    /// Before anything of it was done: what the demo's stack takes on two cores.
    fn default() -> Self {
        Self {
            stand_up: Duration::from_secs(7),
            pair: Duration::from_millis(4500),
            diagnosis: Duration::from_secs(38),
        }
    }
}

impl Costs {
    /// A stack was started.
    pub fn stood_up(&mut self, took: Duration) {
        self.stand_up = toward(self.stand_up, took);
    }

    /// A comparison of so many pairs was made.
    pub fn compared(&mut self, pairs: u32, took: Duration) {
        if pairs > 0 {
            self.pair = toward(self.pair, took / pairs);
        }
    }

    /// A diagnosis was made.
    pub fn diagnosed(&mut self, took: Duration) {
        self.diagnosis = toward(self.diagnosis, took);
    }

    /// What a diagnosis takes.
    #[must_use]
    pub fn diagnosis(&self) -> Duration {
        self.diagnosis
    }

    /// What a comparison with the fewest pairs takes, its stack included.
    #[must_use]
    pub fn shortest_comparison(&self) -> Duration {
        self.stand_up + self.pair * MIN_PAIRS as u32
    }

    /// What so many pairs take.
    #[must_use]
    pub fn pairs_take(&self, pairs: u32) -> Duration {
        self.pair * pairs
    }

    /// What the comparisons of the proof take at least.
    #[must_use]
    pub fn shortest_proof(&self) -> Duration {
        self.shortest_comparison().mul_f64(PROOF_COMPARISONS)
    }

    /// Pairs that the next comparison may take when `left` is divided among it and everything to come; `None` where not even
    /// the fewest that mean something are left.
    #[must_use]
    pub fn pairs(&self, left: Duration, to_come: ToCome) -> Option<usize> {
        let changes = f64::from(to_come.remedies) * (1.0 + KEPT) + f64::from(to_come.left_out);
        let stacks = changes + PROOF_COMPARISONS;
        let certain = self.stand_up.mul_f64(stacks) + to_come.look_again + to_come.proof;
        let each = left.saturating_sub(certain).div_duration_f64(self.pair) / stacks;
        if each >= MIN_PAIRS as f64 {
            return Some(each.min(MOST_PAIRS) as usize);
        }
        // The next one is made as long as the proof of what was kept so far still fits after it.
        let after = to_come.proof + self.shortest_proof();
        (left >= after + self.shortest_comparison()).then_some(MIN_PAIRS)
    }

    /// Pairs of each of so many comparisons, a stack started for each, that fit into this time.
    #[must_use]
    pub fn fit(&self, time: Duration, comparisons: u32) -> usize {
        let pairs = time.saturating_sub(self.stand_up * comparisons);
        (pairs.div_duration_f64(self.pair) / f64::from(comparisons.max(1))) as usize
    }

    /// Pairs of one more comparison beside the proof of what it may find, where no other is to follow; none where fewer fit.
    #[must_use]
    pub fn pairs_alone(&self, left: Duration, proof: Duration) -> usize {
        self.fit(left.saturating_sub(proof + self.shortest_proof()), 1)
    }

    /// Time that more pairs would take until a gain of this share is seen with 80 % power, at the scatter seen so far: what
    /// `pairs` of them could see shrinks with the root of their number. `None` where nothing is known of the scatter.
    #[must_use]
    pub fn until_visible(&self, share: f64, pairs: u32, visible: f64) -> Option<Duration> {
        let known = pairs > 0 && visible.is_finite() && visible > share;
        let times = (visible.ln_1p() / share.ln_1p()).powi(2);
        known.then(|| self.pair.mul_f64(f64::from(pairs) * (times.min(1e4) - 1.0)))
    }
}

/// The newest of what something took counts as much as all before it.
fn toward(known: Duration, took: Duration) -> Duration {
    (known + took) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn costs() -> Costs {
        Costs {
            stand_up: S(6),
            pair: S(5),
            diagnosis: S(40),
        }
    }

    fn to_come(remedies: u32, left_out: u32) -> ToCome {
        ToCome {
            remedies,
            left_out,
            look_again: S(60),
            proof: S(120),
        }
    }

    #[test]
    fn what_the_certain_parts_leave_is_divided_among_all_comparisons() {
        // Five remedies, half of them left out once, and the two of the proof: nine and a half comparisons.
        assert_eq!(costs().pairs(S(180 + 57 + 380), to_come(5, 0)), Some(8));
        // Each that ended early leaves more to the others.
        assert_eq!(costs().pairs(S(180 + 57 + 380), to_come(2, 1)), Some(13));
        assert_eq!(costs().pairs(S(7200), to_come(5, 0)), Some(24));
    }

    #[test]
    fn the_fewest_pairs_are_taken_while_the_proof_still_fits() {
        assert_eq!(costs().pairs(S(230), to_come(5, 0)), Some(MIN_PAIRS));
        assert_eq!(costs().pairs(S(150), to_come(1, 0)), None);
    }

    /// What was left of eight minutes when nothing had been kept, and was not used.
    #[test]
    fn a_comparison_is_made_again_where_it_fits_alone_and_not_among_all() {
        let left = S(215);
        assert_eq!(costs().pairs(left, to_come(3, 0)), Some(MIN_PAIRS));
        // The proof takes 80 s and two comparisons of 21 s; a stack is started, and 87 s are 17 pairs.
        assert_eq!(costs().pairs_alone(left, S(80)), 17);
        assert_eq!(costs().pairs_alone(S(120), S(80)), 0);
    }

    #[test]
    fn costs_follow_what_things_take_in_this_run() {
        let mut costs = costs();
        costs.compared(10, S(100));
        costs.stood_up(S(2));
        costs.diagnosed(S(60));
        costs.compared(0, S(100));
        assert_eq!(
            costs,
            Costs {
                stand_up: S(4),
                pair: Duration::from_millis(7500),
                diagnosis: S(50),
            }
        );
    }

    #[test]
    fn what_would_decide_is_told_where_the_scatter_is_known() {
        let until = |pairs, visible| costs().until_visible(0.05, pairs, visible);
        let ten = until(10, 0.1).expect("known");
        assert!(ten > S(120) && ten < S(180), "{ten:?}");
        assert!(until(10, 0.2).expect("known") > ten);
        assert_eq!(until(0, 0.1), None);
        assert_eq!(until(10, f64::INFINITY), None);
    }
}
