//! Comparing two warm configurations by interleaved pairs of short steps.
//!
//! `ab_test` of method.md: both arms see the same request sequence at the same rate, in random order within a
//! pair; after each pair an anytime-valid test says whether it is clear. The rate lies at the limit of the
//! arm that is compared against, where a small change of capacity moves the violating share a lot.
//!
//! A pair is void, whichever arm it favours, when the generator was not sound, and, up to a share of the pairs, when the
//! machine's speed or what the hypervisor took of it shifted within it (`void`). These rules are set before the first
//! pair.

mod resample;
#[cfg(test)]
mod tests;

use crate::bench::{Canary, Step};
use kneepoint_model::statistics::autocorrelation::lag_one;
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
        /// How far R* follows the machine's speed: from pair to pair the rate does so too, so that a machine that
        /// drifts does not leave it where both arms look equal. Both steps of a pair have one rate: different ones
        /// raise false verdicts (method.md section 2).
        speed_exponent: f64,
    },
}

/// How much effort a comparison may take.
#[derive(Debug, Clone, PartialEq)]
pub struct AbOptions {
    /// What the pairs measure.
    pub measure: Measure,
    /// Pairs after which it gives up.
    pub max_pairs: usize,
    /// Pairs before which it does not stop, at least [`MIN_PAIRS`]. An A/A that is to say how much pairs scatter takes
    /// all it may.
    pub min_pairs: usize,
    /// The e-value that ends the test: 20 decides it, and as many times that as there are comparisons beside it make it
    /// hold among them (Holm). No more than [`MORE_PAIRS`] are spent on that once it is decided.
    pub enough: f64,
    /// Ends the test as soon as B is shown to lose less than this share: for a change that is worth having even if
    /// it gains nothing.
    pub not_worse: Option<f64>,
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

/// One step of a pair.
#[derive(Debug, Clone, Copy)]
struct Half {
    /// ln of the capacity it speaks for.
    value: f64,
    /// The machine's speed during it.
    speed: Option<f64>,
    /// Share of the machine's CPU time that was stolen during it.
    steal: f64,
}

/// The comparison as a state machine.
#[derive(Debug, Clone)]
pub struct AbTest {
    options: AbOptions,
    /// Results of the pair that is under way.
    pending: (Option<Half>, Option<Half>),
    /// ln(capacity B / capacity A) of each pair.
    differences: Vec<f64>,
    /// Pairs after which it was decided first.
    decided: Option<usize>,
    voided: usize,
    /// Steps taken on A alone to find a rate that tells.
    calibrations: u32,
    /// The highest of their rates that arm A bore, and the lowest that drowned it.
    borne_hz: Option<f64>,
    drowning_hz: Option<f64>,
    calibrated: bool,
    /// Whether the rate tells the arms apart: at one where neither arm ever violates, both look equal.
    tells: bool,
    /// The machine's speed when the rate was found to tell, and before the pair that is under way.
    speed_found: Option<f64>,
    speed_now: Option<f64>,
}

/// Violating shares of arm A between which a rate tells the arms apart: below, both arms may simply be
/// well; above, both may simply be drowned.
const TELLING: std::ops::RangeInclusive<f64> = 0.05..=0.7;
/// Factor by which the rate is moved when it nearly tells.
const CALIBRATION_FACTOR: f64 = 1.06;
/// The same where that was not enough: the limit is somewhere else. A single short step at the limit may well be free
/// of violations, so the first move is the small one.
const CALIBRATION_LEAP: f64 = 1.25;
/// Steps spent on finding a telling rate before the last one is used as it is.
const CALIBRATIONS: u32 = 6;

/// How far from the limit the violating share of a step still says how far: as in the limit fit.
const CLIP: f64 = 2.5;
/// Largest share of pairs that may be void (method.md, `ab_test`).
const VOID_SHARE: f64 = 0.2;
/// Shift of the machine's speed within a pair beyond which it is void (method.md, `ab_test`).
const SPEED_SHIFT: f64 = 0.1;
/// By how much more of the machine's CPU time may be stolen in one step of a pair than in the other. Method.md voids at
/// 2 % stolen; but a host that always steals some does so from both arms, and would get no verdict at all.
const STEAL_SHIFT: f64 = 0.05;
/// How far the rate follows the machine's speed at most, as a ratio.
const FARTHEST_SPEED: f64 = 1.25;
/// Pairs spent on making a decision hold among others, once it is made.
pub const MORE_PAIRS: usize = 3;
/// Autocorrelation of the pairs beyond which neighbours are merged (method.md section 2).
const RESEMBLANCE: f64 = 0.15;

impl AbTest {
    /// A comparison with these options.
    #[must_use]
    pub fn new(options: AbOptions) -> Self {
        let calibrated = matches!(options.measure, Measure::Saturation { .. });
        Self {
            options,
            pending: (None, None),
            differences: Vec::new(),
            decided: None,
            voided: 0,
            calibrations: 0,
            borne_hz: None,
            drowning_hz: None,
            calibrated,
            tells: calibrated,
            speed_found: None,
            speed_now: None,
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
            Measure::AtRate {
                rate_hz,
                speed_exponent,
                ..
            } => Step {
                // The start of a step is where a pool that must grow hurts: it counts here.
                skip: Duration::ZERO,
                rested: true,
                // A step that ends early is another measurement than its partner.
                may_abort: false,
                ..Step::at_rate(
                    purpose,
                    rate_hz * self.speed_change().powf(speed_exponent),
                    self.options.step,
                    seed,
                )
            },
        }
    }

    /// By what ratio the machine's speed has changed since the rate was found.
    fn speed_change(&self) -> f64 {
        let change = self.speed_now.zip(self.speed_found);
        change
            .map_or(1.0, |(now, found)| now / found)
            .clamp(1.0 / FARTHEST_SPEED, FARTHEST_SPEED)
    }

    /// Moves the rate until arm A violates often enough, and not always.
    fn calibrate(&mut self, point: &LoadPoint) {
        let share = point.violating_share();
        self.calibrations += 1;
        self.tells = TELLING.contains(&share);
        self.calibrated = TELLING.contains(&share) || self.calibrations >= CALIBRATIONS;
        let (false, Measure::AtRate { rate_hz, .. }) = (self.calibrated, &mut self.options.measure)
        else {
            return;
        };
        let factor = if self.calibrations == 1 {
            CALIBRATION_FACTOR
        } else {
            CALIBRATION_LEAP
        };
        let before_hz = *rate_hz;
        if share < *TELLING.start() {
            self.borne_hz = Some(before_hz);
            *rate_hz *= factor;
        } else {
            self.drowning_hz = Some(before_hz);
            *rate_hz /= factor;
        }
        if let (Some(borne), Some(drowning)) = (self.borne_hz, self.drowning_hz) {
            *rate_hz = (borne * drowning).sqrt();
        }
    }

    /// Takes in a measured step, with what the canary said around it.
    pub fn record(&mut self, side: Side, point: &LoadPoint, canary: Canary) {
        if !self.calibrated {
            self.calibrate(point);
            (self.speed_found, self.speed_now) = (canary.during(), canary.after);
            return;
        }
        let half = Half {
            value: self.value(point),
            speed: canary.during(),
            steal: point.health.steal_share.unwrap_or(0.0),
        };
        match side {
            Side::A => self.pending.0 = Some(half),
            Side::B => self.pending.1 = Some(half),
        }
        // Past the share that may be void, pairs count as they are: a machine that is never quiet still gets an answer,
        // and the test takes its noise into account. What the generator could not do never counts.
        let shifted = void(self.pending) && self.voided < self.most_void();
        if !point.validity.is_valid() || shifted {
            self.pending = (None, None);
            self.voided += 1;
        } else if let (Some(a), Some(b)) = self.pending {
            self.differences.push(b.value - a.value);
            self.pending = (None, None);
            if self.verdict() != Verdict::Inconclusive {
                self.decided.get_or_insert(self.differences.len());
            }
        }
        if let (None, None) = self.pending {
            self.speed_now = canary.after;
        }
    }

    /// The differences as the test takes them: neighbours that resemble each other count as one.
    fn judged(&self) -> Vec<f64> {
        let merged = self.differences.chunks_exact(2);
        let enough = merged.len() >= MIN_PAIRS;
        if enough && lag_one(&self.differences).is_some_and(|rho| rho > RESEMBLANCE) {
            merged.map(|pair| f64::midpoint(pair[0], pair[1])).collect()
        } else {
            self.differences.clone()
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

    /// Pairs that may be void.
    fn most_void(&self) -> usize {
        2 + (VOID_SHARE * self.options.max_pairs as f64) as usize
    }

    fn is_over(&self) -> bool {
        let pairs = self.differences.len();
        if pairs >= self.options.max_pairs || self.voided > self.most_void() {
            return true;
        }
        if pairs < self.options.min_pairs.max(MIN_PAIRS) {
            return false;
        }
        let surely = || {
            let spent = self.decided.is_some_and(|at| pairs >= at + MORE_PAIRS);
            spent || e_value(&self.judged()) >= self.options.enough
        };
        match self.verdict() {
            _ if self.is_not_worse() => true,
            Verdict::Inconclusive => false,
            Verdict::Equivalent => true,
            Verdict::Better | Verdict::Worse => surely(),
        }
    }

    /// Whether B is shown to lose less than the share that was asked for.
    fn is_not_worse(&self) -> bool {
        let Some(share) = self.options.not_worse.filter(|_| self.tells) else {
            return false;
        };
        confidence_sequence(&self.judged()).is_some_and(|ln| ln.low > (1.0 - share).ln())
    }

    /// The verdict so far.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        if self.differences.len() < MIN_PAIRS {
            return Verdict::Inconclusive;
        }
        let judged = self.judged();
        let sum = judged.iter().sum::<f64>();
        let within_rope = confidence_sequence(&judged).is_some_and(|ln| {
            ln.low > (1.0 - self.options.rope).ln() && ln.high < (1.0 + self.options.rope).ln()
        });
        if within_rope && !self.tells {
            Verdict::Inconclusive
        } else if within_rope {
            Verdict::Equivalent
        } else if e_value(&judged) >= ENOUGH {
            if sum > 0.0 {
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
        let judged = self.judged();
        let ln = confidence_sequence(&judged).unwrap_or_else(|| {
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
            ratio: ratio_of(ln),
            pairs: pairs as u32,
            e_value: e_value(&judged).min(1e9),
            verdict: self.verdict().name().to_owned(),
            smallest_visible: smallest_visible(&judged).min(20.0).exp_m1(),
            permutation_p: resample::sign_flip_p(&judged, self.options.seed),
            bootstrap: resample::bootstrap(&judged, self.options.seed).map(ratio_of),
            void_pairs: self.voided as u32,
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

    /// Pairs that count so far.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.differences.len()
    }

    /// Share of the most pairs there can be that are done, for progress.
    #[must_use]
    pub fn progress(&self) -> f64 {
        self.differences.len() as f64 / self.options.max_pairs.max(1) as f64
    }
}

/// Whether the machine shifted too far between the steps of a pair for them to be compared: in its speed, or in what
/// its host kept of it.
fn void(pair: (Option<Half>, Option<Half>)) -> bool {
    let (Some(a), Some(b)) = pair else {
        return false;
    };
    let slower = match (a.speed, b.speed) {
        (Some(a), Some(b)) => (a / b).ln().abs() > SPEED_SHIFT.ln_1p(),
        _ => false,
    };
    slower || (a.steal - b.steal).abs() > STEAL_SHIFT
}

/// The interval of a ratio from that of its logarithm.
fn ratio_of(ln: Interval) -> Interval {
    Interval {
        low: ln.low.max(-20.0).exp(),
        estimate: ln.estimate.exp(),
        high: ln.high.min(20.0).exp(),
    }
}

/// A fair bit for the order within a pair: one output of SplitMix64, so that planners need no randomness.
pub(crate) fn order_bit(seed: u64, pair: u64) -> bool {
    let mut z = seed.wrapping_add(pair.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) & 1 == 1
}
