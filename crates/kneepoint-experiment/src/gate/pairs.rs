//! Interleaved pairs until the loss is clear: the present application and the one before it take turns at saturation,
//! in random order within a pair, and after each pair the confidence sequence of the loss is judged against the share
//! that may be lost.
//!
//! The pairs are those of method.md section 2 (hot-hot interleaving, screening by throughput at saturation), and so is
//! the anytime-valid test. What differs from [`crate::ab`] is the question: not whether there is a difference, but
//! whether it is larger than a share, so the test stops where the confidence sequence leaves that share, not zero.

use crate::ab::{Side, order_bit};
use crate::bench::Step;
use kneepoint_model::gate::{Claim, judge, loss_of_ln};
use kneepoint_model::statistics::sequential::{
    MIN_PAIRS, confidence_sequence, mean_and_sd, smallest_visible,
};
use kneepoint_model::units::{format_rate, format_share};
use kneepoint_model::{GateVerdict, Interval, LoadPoint, Outcome};
use std::time::Duration;

/// What is compared, and how much effort it may take.
#[derive(Debug, Clone, PartialEq)]
pub struct PairOptions {
    /// Largest share of the throughput that may be lost, 0.05.
    pub max_loss: f64,
    /// Closed-loop workers: as many as fill the larger pool.
    pub workers: u32,
    /// Pairs after which it gives up.
    pub max_pairs: usize,
    /// Length of one step.
    pub step: Duration,
    /// Seed of the order and the requests.
    pub seed: u64,
}

/// What the comparison wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum PairMove {
    /// Measure this step on this side ([`Side::A`] is the baseline) and hand the result to [`GatePairs::record`].
    Measure(Side, Step),
    /// It is clear, or it will not become so.
    Done,
}

/// The comparison as a state machine.
#[derive(Debug, Clone)]
pub struct GatePairs {
    options: PairOptions,
    /// Throughput of the sides of the pair that is under way, per second.
    pending: (Option<f64>, Option<f64>),
    /// (throughput of the baseline, throughput now) of each valid pair, per second.
    pairs: Vec<(f64, f64)>,
    voided: usize,
}

/// Share of pairs that may be void before it gives up (method.md, ab_test).
const VOID_SHARE: f64 = 0.2;

impl GatePairs {
    /// A comparison with these options.
    #[must_use]
    pub fn new(options: PairOptions) -> Self {
        Self {
            options,
            pending: (None, None),
            pairs: Vec::new(),
            voided: 0,
        }
    }

    /// What to measure next.
    #[must_use]
    pub fn next_move(&self) -> PairMove {
        if self.is_over() {
            return PairMove::Done;
        }
        let pair = (self.pairs.len() + self.voided) as u64;
        let side = match self.pending {
            (None, None) if before_first(self.options.seed, pair) => Side::A,
            (None, None) | (Some(_), None) => Side::B,
            (None | Some(_), Some(_)) => Side::A,
        };
        let purpose = format!(
            "gate: pair {} {}",
            pair + 1,
            if side == Side::A { "before" } else { "now" }
        );
        let seed = self.options.seed.wrapping_mul(1000).wrapping_add(pair);
        let step = Step::saturating(&purpose, self.options.workers, self.options.step, seed);
        PairMove::Measure(side, step)
    }

    /// Takes in a measured step. One that is invalid for the generator's own reasons voids its pair, whichever side it
    /// was.
    pub fn record(&mut self, side: Side, point: &LoadPoint) {
        if !point.validity.is_valid() {
            self.pending = (None, None);
            self.voided += 1;
            return;
        }
        // One more than counted, so that a side that serves nothing compares as bad and not as undefined.
        let throughput =
            (point.outcomes.of(Outcome::Ok) as f64 + 1.0) / point.window_s.max(f64::MIN_POSITIVE);
        match side {
            Side::A => self.pending.0 = Some(throughput),
            Side::B => self.pending.1 = Some(throughput),
        }
        if let (Some(before), Some(now)) = self.pending {
            self.pairs.push((before, now));
            self.pending = (None, None);
        }
    }

    fn is_over(&self) -> bool {
        self.pairs.len() >= self.options.max_pairs
            || self.voided as f64 > 2.0 + VOID_SHARE * self.options.max_pairs as f64
            || self.verdict() != GateVerdict::Inconclusive
    }

    /// ln(throughput now / throughput before) of each pair.
    fn differences(&self) -> Vec<f64> {
        self.pairs
            .iter()
            .map(|(before, now)| (now / before).ln())
            .collect()
    }

    /// The loss so far; unbounded while there are too few pairs.
    #[must_use]
    pub fn loss(&self) -> Interval {
        let differences = self.differences();
        let ln = confidence_sequence(&differences).unwrap_or_else(|| Interval {
            low: f64::NEG_INFINITY,
            estimate: differences.iter().sum::<f64>() / differences.len().max(1) as f64,
            high: f64::INFINITY,
        });
        loss_of_ln(&ln)
    }

    fn verdict(&self) -> GateVerdict {
        if self.pairs.len() < MIN_PAIRS {
            GateVerdict::Inconclusive
        } else {
            judge(&self.loss(), self.options.max_loss)
        }
    }

    /// What the pairs say, once [`PairMove::Done`]; before that, what is known so far.
    #[must_use]
    pub fn claim(&self) -> Claim {
        Claim {
            quantity: "throughput at saturation".to_owned(),
            before_hz: None,
            now_hz: None,
            loss: self.loss(),
            verdict: self.verdict(),
            conditions: self.conditions(),
        }
    }

    /// `14 pairs of 3 s steps with 32 closed-loop workers, interleaved; 209/s and 190/s on average; the loss of a pair
    /// scatters by 2.1 %, the smallest visible one is 1.6 %`.
    fn conditions(&self) -> String {
        let differences = self.differences();
        let mut text = format!(
            "{} pairs of {} s steps with {} closed-loop workers, interleaved",
            self.pairs.len(),
            self.options.step.as_secs_f64(),
            self.options.workers,
        );
        if self.voided > 0 {
            text.push_str(&format!(", {} more void", self.voided));
        }
        if differences.len() > 1 {
            let mean = |side: fn(&(f64, f64)) -> f64| {
                format_rate(self.pairs.iter().map(side).sum::<f64>() / self.pairs.len() as f64)
            };
            text.push_str(&format!(
                "; {} before and {} now on average; a pair scatters by {}, the smallest visible loss is {}",
                mean(|pair| pair.0),
                mean(|pair| pair.1),
                format_share(mean_and_sd(&differences).1),
                format_share(-(-smallest_visible(&differences)).exp_m1()),
            ));
        }
        text
    }

    /// Share of the most pairs there can be that are done, for progress.
    #[must_use]
    pub fn progress(&self) -> f64 {
        self.pairs.len() as f64 / self.options.max_pairs.max(1) as f64
    }
}

/// Whether a pair begins with the application as it was: by chance in one pair, the other way round in the next. What the
/// first step of a pair has over the second is no loss then; a coin for each of eight pairs often falls six to two.
fn before_first(seed: u64, pair: u64) -> bool {
    order_bit(seed, pair / 2) != (pair % 2 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Validity;
    use kneepoint_model::statistics::special::normal_quantile;

    /// Two sides of this throughput, whose steps scatter by `sd` and drift together.
    struct Sides {
        before_hz: f64,
        now_hz: f64,
        sd: f64,
        state: u64,
        steps: u32,
    }

    impl Sides {
        fn new(lost: f64, sd: f64, seed: u64) -> Self {
            Self {
                before_hz: 400.0,
                now_hz: 400.0 * (1.0 - lost),
                sd,
                state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
                steps: 0,
            }
        }

        fn normal(&mut self) -> f64 {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            normal_quantile(((self.state >> 11) as f64 + 0.5) / (1u64 << 53) as f64)
        }

        fn measure(&mut self, side: Side, step: &Step) -> LoadPoint {
            self.steps += 1;
            let drift = 0.2 * (f64::from(self.steps) / 40.0).sin();
            let middle = if side == Side::A {
                self.before_hz
            } else {
                self.now_hz
            };
            let hz = middle * (drift + self.sd * self.normal()).exp();
            let window_s = (step.duration - step.skip).as_secs_f64();
            let mut point = LoadPoint {
                window_s,
                ..LoadPoint::default()
            };
            let served = (hz * window_s) as u64;
            point.outcomes.by_outcome.insert(Outcome::Ok, served);
            point
        }
    }

    fn options(seed: u64) -> PairOptions {
        PairOptions {
            max_loss: 0.05,
            workers: 32,
            max_pairs: 30,
            step: Duration::from_secs(3),
            seed,
        }
    }

    fn run(sides: &mut Sides, seed: u64) -> GatePairs {
        let mut pairs = GatePairs::new(options(seed));
        while let PairMove::Measure(side, step) = pairs.next_move() {
            let point = sides.measure(side, &step);
            pairs.record(side, &point);
        }
        pairs
    }

    fn verdicts(lost: f64, sd: f64) -> [u32; 3] {
        let mut counts = [0; 3];
        for seed in 0..400 {
            let ended = run(&mut Sides::new(lost, sd, seed * 31 + 7), seed);
            counts[ended.claim().verdict as usize] += 1;
        }
        counts
    }

    #[test]
    fn an_unchanged_application_passes_and_does_not_fail() {
        let [pass, fail, inconclusive] = verdicts(0.0, 0.02);
        assert!(pass >= 380 && fail == 0, "{pass} {fail} {inconclusive}");
    }

    #[test]
    fn a_loss_of_twice_the_share_fails_and_does_not_pass() {
        let [pass, fail, inconclusive] = verdicts(0.10, 0.02);
        assert!(pass == 0 && fail >= 380, "{pass} {fail} {inconclusive}");
    }

    #[test]
    fn a_loss_of_the_share_itself_is_mostly_inconclusive() {
        let [pass, fail, inconclusive] = verdicts(0.05, 0.02);
        assert!(pass <= 15 && fail <= 15, "{pass} {fail} {inconclusive}");
    }

    #[test]
    fn who_comes_first_in_a_pair_loses_nothing_by_it() {
        for seed in 0..200 {
            let firsts = (0..8).filter(|pair| before_first(seed, *pair)).count();
            assert_eq!(firsts, 4, "of eight pairs, seed {seed}");
        }
        let begin = (0..200).filter(|seed| before_first(*seed, 0)).count();
        assert!((70..130).contains(&begin), "{begin} of 200 seeds");
    }

    #[test]
    fn a_large_loss_takes_the_fewest_pairs() {
        let ended = run(&mut Sides::new(0.6, 0.02, 3), 3);
        assert_eq!(ended.pairs.len(), MIN_PAIRS);
        assert!(ended.claim().loss.contains(0.6), "{:?}", ended.claim().loss);
    }

    #[test]
    fn what_was_measured_is_in_the_conditions() {
        let ended = run(&mut Sides::new(0.6, 0.0, 3), 3);
        expect_test::expect!["6 pairs of 3 s steps with 32 closed-loop workers, interleaved; 413/s before and 165/s now on average; a pair scatters by 0.5 %, the smallest visible loss is 0.6 %"]
            .assert_eq(&ended.claim().conditions);
    }

    #[test]
    fn invalid_steps_void_their_pair_and_end_it_in_the_end() {
        let mut pairs = GatePairs::new(options(1));
        let invalid = LoadPoint {
            validity: Validity::Invalid {
                because: vec!["lag".into()],
            },
            ..LoadPoint::default()
        };
        let mut asked = 0;
        while let PairMove::Measure(side, _) = pairs.next_move() {
            pairs.record(side, &invalid);
            asked += 1;
            assert!(asked < 50, "it must end");
        }
        let claim = pairs.claim();
        assert_eq!(claim.verdict, GateVerdict::Inconclusive);
        assert!(
            claim.conditions.starts_with("0 pairs"),
            "{}",
            claim.conditions
        );
        assert!(claim.loss.low < -1.0 && claim.loss.high > 0.9, "{claim:?}");
    }
}
