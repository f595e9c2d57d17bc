//! Comparing two warm configurations by interleaved pairs of short steps.
//!
//! `ab_test` of method.md: both arms see the same request sequence at the same rate, in random order within a
//! pair; after each pair an anytime-valid test says whether it is clear. The rate lies at the limit of the
//! arm that is compared against, where a small change of capacity moves the violating share a lot.

use crate::bench::Step;
use kneepoint_model::statistics::sequential::{
    ENOUGH, MIN_PAIRS, confidence_sequence, e_value, smallest_visible,
};
use kneepoint_model::statistics::special::logit;
use kneepoint_model::{Effect, Interval, LoadPoint, Setting};
use std::time::Duration;

/// What the pairs measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// Goodput of a closed loop with this many workers: capacity itself, however large the effect.
    Saturation {
        /// Closed-loop workers.
        workers: u32,
    },
    /// The violating share at this rate, turned into a ratio of limits by the slope of the limit fit. Sees
    /// smaller effects, and those that need an open loop (queues, pools that grow).
    AtRate {
        /// Offered rate per second.
        rate_hz: f64,
        /// Slope b of the logit of the violating share over ln rate.
        slope: f64,
    },
}

/// How much effort a comparison may take.
#[derive(Debug, Clone, PartialEq)]
pub struct AbOptions {
    /// What the pairs measure.
    pub measure: Measure,
    /// Pairs after which it gives up.
    pub max_pairs: usize,
    /// Length of one step.
    pub step: Duration,
    /// Ratio within which two arms count as equivalent, 0.02.
    pub rope: f64,
    /// Seed of the order and the requests.
    pub seed: u64,
}

/// The two arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Without the change.
    A,
    /// With the change.
    B,
}

/// What the test wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum AbMove {
    /// Measure this step on this side and hand the result to [`AbTest::record`].
    Measure(Side, Step),
    /// The test is over.
    Done,
}

/// How a comparison ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// B is better.
    Better,
    /// B is worse.
    Worse,
    /// The interval lies within the rope.
    Equivalent,
    /// Neither shown within the pairs there were.
    Inconclusive,
}

impl Verdict {
    /// The word in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Equivalent => "equivalent",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// The comparison as a state machine.
#[derive(Debug, Clone)]
pub struct AbTest {
    options: AbOptions,
    /// Results of the pair that is under way.
    pending: (Option<f64>, Option<f64>),
    /// ln(capacity B / capacity A) of each pair.
    differences: Vec<f64>,
    voided: usize,
    /// Steps taken on A alone to find a rate that tells.
    calibrations: u32,
    calibrated: bool,
    /// Whether the rate tells the arms apart: at one where neither arm ever violates, both look equal.
    tells: bool,
}

/// Violating shares of arm A between which a rate tells the arms apart: below, both arms may simply be
/// well; above, both may simply be drowned.
const TELLING: std::ops::RangeInclusive<f64> = 0.05..=0.7;
/// Factor by which the rate is moved when it nearly tells.
const CALIBRATION_FACTOR: f64 = 1.06;
/// The same where next to nothing violates, or next to everything: the limit is somewhere else.
const CALIBRATION_LEAP: f64 = 1.25;
/// Violating shares beyond which it leaps.
const FAR: std::ops::RangeInclusive<f64> = 0.005..=0.95;
/// Steps spent on finding a telling rate before the last one is used as it is.
const CALIBRATIONS: u32 = 5;

/// How far from the limit the violating share of a step still says how far: as in the limit fit.
const CLIP: f64 = 2.5;
/// Largest share of pairs that may be void before the test gives up.
const VOID_SHARE: f64 = 0.2;

impl AbTest {
    /// A comparison with these options.
    #[must_use]
    pub fn new(options: AbOptions) -> Self {
        let calibrated = matches!(options.measure, Measure::Saturation { .. });
        Self {
            options,
            pending: (None, None),
            differences: Vec::new(),
            voided: 0,
            calibrations: 0,
            calibrated,
            tells: calibrated,
        }
    }

    /// What to measure next.
    #[must_use]
    pub fn next_move(&self) -> AbMove {
        if self.is_over() {
            return AbMove::Done;
        }
        if !self.calibrated {
            return AbMove::Measure(
                Side::A,
                self.step(
                    "ab: find a rate that tells",
                    u64::from(self.calibrations) + 7,
                ),
            );
        }
        let pair = (self.differences.len() + self.voided) as u64;
        let first = if order_bit(self.options.seed, pair) {
            Side::A
        } else {
            Side::B
        };
        let side = match (first, self.pending) {
            (_, (None, None)) => first,
            (_, (Some(_), _)) => Side::B,
            (_, (None, Some(_))) => Side::A,
        };
        let purpose = format!(
            "ab: pair {} {}",
            pair + 1,
            if side == Side::A { "without" } else { "with" }
        );
        AbMove::Measure(side, self.step(&purpose, pair))
    }

    fn step(&self, purpose: &str, nth: u64) -> Step {
        let seed = self.options.seed.wrapping_mul(1000).wrapping_add(nth);
        match self.options.measure {
            Measure::Saturation { workers } => {
                Step::saturating(purpose, workers, self.options.step, seed)
            }
            Measure::AtRate { rate_hz, .. } => Step {
                // The start of a step is where a pool that must grow hurts: it counts here.
                skip: Duration::ZERO,
                rested: true,
                ..Step::at_rate(purpose, rate_hz, self.options.step, seed)
            },
        }
    }

    /// Moves the rate until arm A violates often enough, and not always.
    fn calibrate(&mut self, point: &LoadPoint) {
        let share = point.violating_share();
        self.calibrations += 1;
        self.tells = TELLING.contains(&share);
        self.calibrated = TELLING.contains(&share) || self.calibrations >= CALIBRATIONS;
        if let (false, Measure::AtRate { rate_hz, .. }) =
            (self.calibrated, &mut self.options.measure)
        {
            let factor = if FAR.contains(&share) {
                CALIBRATION_FACTOR
            } else {
                CALIBRATION_LEAP
            };
            *rate_hz *= if share < *TELLING.start() {
                factor
            } else {
                1.0 / factor
            };
        }
    }

    /// Takes in a measured step. A step that is invalid for the generator's own reasons voids its pair,
    /// whichever arm it was.
    pub fn record(&mut self, side: Side, point: &LoadPoint) {
        if !self.calibrated {
            self.calibrate(point);
            return;
        }
        if !point.validity.is_valid() {
            self.pending = (None, None);
            self.voided += 1;
            return;
        }
        let value = self.value(point);
        match side {
            Side::A => self.pending.0 = Some(value),
            Side::B => self.pending.1 = Some(value),
        }
        if let (Some(a), Some(b)) = self.pending {
            self.differences.push(b - a);
            self.pending = (None, None);
        }
    }

    /// ln of the capacity a step speaks for, up to a constant that both arms share.
    fn value(&self, point: &LoadPoint) -> f64 {
        match self.options.measure {
            // One more than counted, so that an arm that serves nothing compares as bad and not as undefined.
            Measure::Saturation { .. } => {
                ((point.outcomes.of(kneepoint_model::Outcome::Ok) as f64 + 1.0)
                    / point.window_s.max(0.1))
                .ln()
            }
            Measure::AtRate { slope, .. } => {
                let share = (point.violations() as f64 + 0.5) / (point.arrivals as f64 + 1.0);
                let centre = logit(0.05);
                -logit(share).clamp(centre - CLIP, centre + 2.0 * CLIP) / slope.max(1.0)
            }
        }
    }

    fn is_over(&self) -> bool {
        let pairs = self.differences.len();
        if pairs >= self.options.max_pairs
            || self.voided as f64 > 2.0 + VOID_SHARE * self.options.max_pairs as f64
        {
            return true;
        }
        pairs >= MIN_PAIRS && self.verdict() != Verdict::Inconclusive
    }

    /// The verdict so far.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.differences.len() < MIN_PAIRS {
            return Verdict::Inconclusive;
        }
        let mean = self.differences.iter().sum::<f64>() / self.differences.len() as f64;
        let within_rope = confidence_sequence(&self.differences).is_some_and(|ln| {
            ln.low > (1.0 - self.options.rope).ln() && ln.high < (1.0 + self.options.rope).ln()
        });
        if within_rope && !self.tells {
            Verdict::Inconclusive
        } else if within_rope {
            Verdict::Equivalent
        } else if e_value(&self.differences) >= ENOUGH {
            if mean > 0.0 {
                Verdict::Better
            } else {
                Verdict::Worse
            }
        } else {
            Verdict::Inconclusive
        }
    }

    /// The effect of the change, once [`AbMove::Done`]; before that, what is known so far.
    #[must_use]
    pub fn effect(&self, change: &str, settings: &[Setting]) -> Effect {
        let pairs = self.differences.len();
        let ln = confidence_sequence(&self.differences).unwrap_or_else(|| {
            let mean = if pairs == 0 {
                0.0
            } else {
                self.differences.iter().sum::<f64>() / pairs as f64
            };
            Interval {
                low: f64::NEG_INFINITY,
                estimate: mean,
                high: f64::INFINITY,
            }
        });
        let (quantity, conditions) = match self.options.measure {
            Measure::Saturation { workers } => (
                "throughput at saturation",
                format!("{workers} closed-loop workers"),
            ),
            Measure::AtRate { rate_hz, .. } => (
                "R*, by the violating share at one rate",
                format!(
                    "{} offered to both",
                    kneepoint_model::units::format_rate(rate_hz)
                ),
            ),
        };
        Effect {
            change: change.to_owned(),
            settings: settings.to_vec(),
            quantity: quantity.to_owned(),
            ratio: Interval {
                low: ln.low.max(-20.0).exp(),
                estimate: ln.estimate.exp(),
                high: ln.high.min(20.0).exp(),
            },
            pairs: pairs as u32,
            e_value: e_value(&self.differences).min(1e9),
            verdict: self.verdict().name().to_owned(),
            smallest_visible: smallest_visible(&self.differences).min(20.0).exp_m1(),
            conditions: format!(
                "{conditions}, {} s steps, interleaved{}",
                self.options.step.as_secs_f64(),
                if self.voided > 0 {
                    format!(", {} pairs void", self.voided)
                } else {
                    String::new()
                }
            ),
        }
    }

    /// Share of the most pairs there can be that are done, for progress.
    #[must_use]
    pub fn progress(&self) -> f64 {
        self.differences.len() as f64 / self.options.max_pairs.max(1) as f64
    }
}

/// A fair bit for the order within a pair: one output of SplitMix64, so that planners need no randomness.
fn order_bit(seed: u64, pair: u64) -> bool {
    let mut z = seed.wrapping_add(pair.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Bench;
    use crate::simulated::SimulatedStack;

    fn compare(
        a: &mut SimulatedStack,
        b: &mut SimulatedStack,
        measure: Measure,
        seed: u64,
    ) -> (Verdict, Effect) {
        let mut test = AbTest::new(AbOptions {
            measure,
            max_pairs: 16,
            step: Duration::from_secs(3),
            rope: 0.02,
            seed,
        });
        while let AbMove::Measure(side, step) = test.next_move() {
            let stack = if side == Side::A { &mut *a } else { &mut *b };
            let point = stack
                .measure("", &step)
                .expect("a simulated stack does not fail");
            test.record(side, &point);
        }
        (test.verdict(), test.effect("change", &[]))
    }

    fn stacks(faster: f64, seed: u64) -> (SimulatedStack, SimulatedStack) {
        let service = Duration::from_millis(40);
        (
            SimulatedStack::new(16, service, seed),
            SimulatedStack::new(16, service.div_f64(faster), seed + 500),
        )
    }

    #[test]
    fn a_large_gain_is_seen_in_the_fewest_pairs() {
        let (mut a, mut b) = stacks(5.0, 1);
        let (verdict, effect) = compare(&mut a, &mut b, Measure::Saturation { workers: 32 }, 1);
        assert_eq!(verdict, Verdict::Better);
        assert_eq!(effect.pairs as usize, MIN_PAIRS);
        assert!(
            (4.0..6.0).contains(&effect.ratio.estimate),
            "{:?}",
            effect.ratio
        );
    }

    #[test]
    fn a_gain_of_ten_percent_is_seen_at_the_limit() {
        let mut found = 0;
        for seed in 0..10 {
            let (mut a, mut b) = stacks(1.10, seed * 7 + 1);
            let rate_hz = a.true_limit_hz();
            let (verdict, _) = compare(
                &mut a,
                &mut b,
                Measure::AtRate {
                    rate_hz,
                    slope: 25.0,
                },
                seed,
            );
            found += u32::from(verdict == Verdict::Better);
        }
        assert!(found >= 7, "{found} of 10");
    }

    #[test]
    fn two_equal_arms_rarely_differ() {
        let mut false_verdicts = 0;
        for seed in 0..40 {
            let (mut a, mut b) = stacks(1.0, seed * 13 + 3);
            let rate_hz = a.true_limit_hz();
            let (verdict, _) = compare(
                &mut a,
                &mut b,
                Measure::AtRate {
                    rate_hz,
                    slope: 25.0,
                },
                seed,
            );
            false_verdicts += u32::from(matches!(verdict, Verdict::Better | Verdict::Worse));
        }
        assert!(false_verdicts <= 4, "{false_verdicts} of 40");
    }

    /// At a rate that neither arm violates the two look alike, however different they are.
    #[test]
    fn arms_that_are_both_well_are_not_called_equivalent() {
        let (mut a, mut b) = stacks(1.5, 3);
        let rate_hz = a.true_limit_hz() / 6.0;
        let (verdict, _) = compare(
            &mut a,
            &mut b,
            Measure::AtRate {
                rate_hz,
                slope: 25.0,
            },
            3,
        );
        assert_eq!(verdict, Verdict::Inconclusive);
    }

    /// What R* was taken for may be far off: the rate is raised until it tells.
    #[test]
    fn a_rate_far_below_the_limit_is_raised_until_it_tells() {
        let (mut a, mut b) = stacks(1.5, 3);
        let rate_hz = a.true_limit_hz() / 2.0;
        let (verdict, _) = compare(
            &mut a,
            &mut b,
            Measure::AtRate {
                rate_hz,
                slope: 25.0,
            },
            3,
        );
        assert_eq!(verdict, Verdict::Better);
    }

    #[test]
    fn invalid_steps_void_their_pair_and_end_the_test_in_the_end() {
        let mut test = AbTest::new(AbOptions {
            measure: Measure::Saturation { workers: 2 },
            max_pairs: 10,
            step: Duration::from_secs(1),
            rope: 0.02,
            seed: 1,
        });
        let invalid = LoadPoint {
            validity: kneepoint_model::Validity::Invalid {
                because: vec!["lag".into()],
            },
            ..LoadPoint::default()
        };
        let mut asked = 0;
        while let AbMove::Measure(side, _) = test.next_move() {
            test.record(side, &invalid);
            asked += 1;
            assert!(asked < 50, "it must end");
        }
        assert_eq!(test.verdict(), Verdict::Inconclusive);
        assert_eq!(test.effect("x", &[]).pairs, 0);
    }
}
