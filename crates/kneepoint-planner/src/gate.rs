//! Pairs until the loss is clear: the present application and the one before it, each alone in turns and, where the CPU binds,
//! both at once; after each pair the confidence sequence of the loss is judged against the share that may be lost.
//!
//! The pairs are those of an A/B ([`crate::ab::pairs`]), and so is the anytime-valid test. What differs from [`crate::ab`] is
//! the question: not whether there is a difference, but whether it is larger than a share, so the test stops where the
//! confidence sequence leaves that share, not zero.

use crate::ab::pairs::{Pairs, Turns, served};
use crate::ab::{CAPACITY, Side, both};
use crate::bench::Step;
use kneepoint_model::gate::{GateClaim, judge, loss_of_ln};
use kneepoint_model::units::{format_rate, format_share};
use kneepoint_model::{GateVerdict, Interval, LoadPoint};
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
    /// Measure this step on both at once, this side named first, and hand the results to [`GatePairs::record_both`].
    Both(Side, Step),
    /// It is clear, or it will not become so.
    Done,
}

/// The comparison as a state machine.
#[derive(Debug, Clone)]
pub struct GatePairs {
    options: PairOptions,
    pairs: Pairs,
    /// Sums of the throughput alone of each side per second, and how many steps they are of.
    served: [(f64, u32); 2],
}

/// What a step alone measures.
const ALONE: &str = "throughput at saturation";
/// What the one of two equal applications that is stood up first serves less, as a share: the mean of twenty comparisons
/// (docs/noise.md). It is the present one.
pub const STOOD_UP_FIRST: f64 = 0.013;

/// The interval of a loss that says nothing against the present application for having been stood up first: its lower end is
/// lower by what that takes.
#[must_use]
pub fn as_stood_up_first(loss: Interval) -> Interval {
    Interval {
        low: loss.low - (1.0 - loss.low) * STOOD_UP_FIRST,
        ..loss
    }
}

impl GatePairs {
    /// A comparison with these options.
    #[must_use]
    pub fn new(options: PairOptions) -> Self {
        Self {
            pairs: Pairs::new(options.seed, true),
            served: Default::default(),
            options,
        }
    }

    /// What to measure next.
    #[must_use]
    pub fn next_move(&self) -> PairMove {
        if self.is_over() {
            return PairMove::Done;
        }
        let pair = self.pairs.begun() as u64;
        let seed = self.options.seed.wrapping_mul(1000).wrapping_add(pair);
        let purpose = |what: &str| format!("gate: pair {} {what}", pair + 1);
        let alone = |what: &str| {
            Step::saturating(
                &purpose(what),
                self.options.workers,
                self.options.step,
                seed,
            )
        };
        match self.pairs.next() {
            Turns::Alone(Side::A) => PairMove::Measure(Side::A, alone("before")),
            Turns::Alone(Side::B) => PairMove::Measure(Side::B, alone("now")),
            Turns::Both(first) => {
                PairMove::Both(first, both(&purpose("both"), self.options.step, seed))
            }
        }
    }

    /// Takes in a measured step. One that is invalid for the generator's own reasons voids its pair, whichever side it
    /// was.
    pub fn record(&mut self, side: Side, point: &LoadPoint) {
        self.pairs.record_alone(side, served(point), point);
        if point.validity.is_valid() {
            let (sum, steps) = &mut self.served[side as usize];
            *sum += point.throughput_hz();
            *steps += 1;
        }
    }

    /// Takes in a step of both at once: what the application before did, and what the present one did.
    pub fn record_both(&mut self, before: &LoadPoint, now: &LoadPoint) {
        self.pairs.record_both(before, now);
    }

    fn is_over(&self) -> bool {
        self.pairs.count() >= self.options.max_pairs
            || self.pairs.void() > self.options.max_pairs
            || self.verdict() != GateVerdict::Inconclusive
    }

    /// The loss so far, of which what standing first takes is none; unbounded while there are too few pairs.
    #[must_use]
    pub fn loss(&self) -> Interval {
        let known = self.pairs.effect();
        let ln = known.confidence_sequence().unwrap_or_else(|| Interval {
            low: f64::NEG_INFINITY,
            estimate: known.mean(),
            high: f64::INFINITY,
        });
        as_stood_up_first(loss_of_ln(&ln))
    }

    fn verdict(&self) -> GateVerdict {
        if self.pairs.effect().confidence_sequence().is_none() {
            GateVerdict::Inconclusive
        } else {
            match judge(&self.loss(), self.options.max_loss) {
                // What it serves does not speak for an application that refuses more than before.
                GateVerdict::Pass if self.pairs.failed().more(Side::B) => GateVerdict::Inconclusive,
                verdict => verdict,
            }
        }
    }

    /// What the pairs say, once [`PairMove::Done`]; before that, what is known so far.
    #[must_use]
    pub fn claim(&self) -> GateClaim {
        GateClaim {
            quantity: self.quantity(),
            before_hz: None,
            now_hz: None,
            loss: self.loss(),
            verdict: self.verdict(),
            conditions: self.conditions(),
        }
    }

    /// What the pairs say something of.
    fn quantity(&self) -> String {
        match self.pairs.measures(ALONE).len() {
            0 | 1 => ALONE.to_owned(),
            _ => CAPACITY.to_owned(),
        }
    }

    /// `14 pairs of 3 s steps with 32 closed-loop workers; 209/s before and 190/s now on average; pairs vary by 2.1 %
    /// (throughput at saturation, 5 pairs); losses below 2.9 % would hardly show, and up to 1.3 % may come from the order of
    /// starting`.
    fn conditions(&self) -> String {
        let mut text = format!(
            "{} pairs of {} s steps with {} closed-loop workers",
            self.pairs.count(),
            self.options.step.as_secs_f64(),
            self.options.workers,
        );
        if self.pairs.void() > 0 {
            text.push_str(&format!(", {} more thrown away", self.pairs.void()));
        }
        text.push_str(&self.pairs.cost_given_up());
        let mean = |side: Side| {
            let (sum, steps) = self.served[side as usize];
            format_rate(sum / f64::from(steps.max(1)))
        };
        if self.pairs.count() > 1 {
            text.push_str(&format!(
                "; {} before and {} now on average",
                mean(Side::A),
                mean(Side::B)
            ));
        }
        if self.pairs.failed().more(Side::B) {
            text.push_str(&format!(
                "; and more requests failed than before: {} against {}",
                format_share(self.pairs.failed().share(Side::B)),
                format_share(self.pairs.failed().share(Side::A))
            ));
        }
        for measure in self.pairs.measures(ALONE) {
            if let Some(sd) = measure.pair_sd {
                text.push_str(&format!(
                    "; pairs vary by {} ({}, {} pairs)",
                    format_share(sd),
                    measure.quantity,
                    measure.pairs
                ));
            }
        }
        let known = self.pairs.effect();
        if known.confidence_sequence().is_some() {
            let visible = -(-known.smallest_visible()).exp_m1();
            let visible = visible + (1.0 - visible) * STOOD_UP_FIRST;
            text.push_str(&format!(
                "; losses below {} would hardly show, and up to {} may come from the order of starting",
                format_share(visible),
                format_share(STOOD_UP_FIRST)
            ));
        }
        text
    }

    /// Share of the most pairs there can be that are done, for progress.
    #[must_use]
    pub fn progress(&self) -> f64 {
        self.pairs.count() as f64 / self.options.max_pairs.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::statistics::sequential::MIN_PAIRS;
    use kneepoint_model::statistics::special::normal_quantile;
    use kneepoint_model::{Outcome, Validity};

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
        loop {
            match pairs.next_move() {
                PairMove::Measure(side, step) => {
                    let point = sides.measure(side, &step);
                    pairs.record(side, &point);
                }
                PairMove::Both(_, step) => {
                    let before = sides.measure(Side::A, &step);
                    let now = sides.measure(Side::B, &step);
                    pairs.record_both(&before, &now);
                }
                PairMove::Done => return pairs,
            }
        }
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
    fn a_large_loss_takes_the_fewest_pairs() {
        let ended = run(&mut Sides::new(0.6, 0.02, 3), 3);
        assert_eq!(ended.pairs.count(), MIN_PAIRS);
        assert!(ended.claim().loss.contains(0.6), "{:?}", ended.claim().loss);
    }

    #[test]
    fn what_standing_first_takes_is_no_loss_that_is_shown() {
        let ended = run(&mut Sides::new(0.1, 0.02, 3), 3);
        let known = ended.pairs.effect().confidence_sequence();
        let (seen, told) = (loss_of_ln(&known.expect("pairs enough")), ended.loss());
        assert_eq!((told.estimate, told.high), (seen.estimate, seen.high));
        assert!((told.low - (seen.low - 0.013 * (1.0 - seen.low))).abs() < 1e-9);
        // A loss that is shown by less than that fails no pipeline.
        let just = Interval {
            low: 0.055,
            estimate: 0.06,
            high: 0.065,
        };
        assert_eq!(judge(&just, 0.05), GateVerdict::Fail);
        let allowed = judge(&as_stood_up_first(just), 0.05);
        assert_eq!(allowed, GateVerdict::Inconclusive);
    }

    #[test]
    fn what_was_measured_is_in_the_conditions() {
        let ended = run(&mut Sides::new(0.6, 0.0, 3), 3);
        expect_test::expect!["3 pairs of 3 s steps with 32 closed-loop workers; 407/s before and 163/s now on average; pairs vary by 8.5 % (throughput at saturation, 3 pairs); losses below 37 % would hardly show, and up to 1.3 % may come from the order of starting"]
            .assert_eq(&ended.claim().conditions);
    }

    #[test]
    fn failures_that_keep_an_application_from_passing_are_told() {
        let mut sides = Sides::new(0.0, 0.02, 3);
        let mut pairs = GatePairs::new(PairOptions {
            max_loss: 0.2,
            ..options(3)
        });
        while let PairMove::Measure(side, step) = pairs.next_move() {
            let mut point = sides.measure(side, &step);
            point.arrivals = 1_000;
            if side == Side::B {
                point.outcomes.by_outcome.insert(Outcome::Timeout, 30);
            }
            pairs.record(side, &point);
        }
        let claim = pairs.claim();
        assert_eq!(judge(&claim.loss, 0.2), GateVerdict::Pass);
        assert_eq!(claim.verdict, GateVerdict::Inconclusive);
        let told = "; and more requests failed than before: 3.0 % against 0 %;";
        assert!(claim.conditions.contains(told), "{}", claim.conditions);
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
