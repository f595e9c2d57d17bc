//! Comparing two warm configurations by pairs of short steps.
//!
//! Both arms see the same request sequence; after each pair an anytime-valid test says whether it is clear (docs/noise.md).
//! [`pairs`] says which steps are taken and what they say: each arm alone, in turns, and where the CPU binds both at once. A
//! rate that both are offered lies at the limit of the arm that is compared against, where a small change of capacity moves
//! the violating share a lot.
//!
//! A pair is void when the generator was not sound, and never for what others did on the machine: that is weighed.

mod failed;
pub(crate) mod pairs;
mod resample;
mod slope;
#[cfg(test)]
mod tests;

use crate::bench::{Canary, Step};
pub use kneepoint_model::Verdict;
use kneepoint_model::statistics::sequential::{Combined, ENOUGH, MIN_PAIRS};
use kneepoint_model::statistics::special::logit;
use kneepoint_model::{Effect, LoadPoint, Setting};
use pairs::{End, Pairs, Said, Turns, ratio_of, served};
use std::time::Duration;

/// What a comparison at one rate measures, as its effect names it.
pub const BY_SHARE: &str = "R* by the violating share at one rate";

/// What several measures together tell of, as an effect names it; its measures say how each was taken.
pub(crate) const CAPACITY: &str = "capacity";

/// What the pairs measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AbMeasure {
    /// Throughput of a closed loop with this many workers: capacity itself, however large the effect.
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
    pub measure: AbMeasure,
    /// Pairs after which it gives up.
    pub max_pairs: usize,
    /// Pairs before which it does not stop, at least [`MIN_PAIRS`]. An A/A that is to say how much pairs scatter takes
    /// all it may.
    pub min_pairs: usize,
    /// The e-value that ends the test: 20 decides it, and as many times that as there are comparisons beside it make it
    /// hold among them (Holm). No more than [`MORE_PAIRS`] are spent on that once it is decided, and none where the effect
    /// is [`LARGE`].
    pub enough: f64,
    /// Whether the arms are loaded at once, too, for what a request costs each of them: not where they are one, as in an A/A,
    /// and not where the change is of how many requests are served at a time, which shows under a full load only. Never
    /// where they are compared at one rate.
    pub at_once: bool,
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
    /// AbMeasure this step on this side and hand the result to [`AbTest::record`].
    Measure(Side, Step),
    /// AbMeasure this step on both at once, this side named first, and hand the results to [`AbTest::record_both`].
    Both(Side, Step),
    /// The test is over.
    Done,
}

/// The comparison as a state machine.
#[derive(Debug, Clone)]
pub struct AbTest {
    options: AbOptions,
    pairs: Pairs,
    /// Pairs after which it was decided first.
    decided: Option<usize>,
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
/// The violating share that pairs are kept at: it changes most with capacity where it is small, and of enough requests to be
/// counted.
const MOST_TELLING: f64 = 0.12;
/// Part of the way there that the rate goes after each pair: a single one says little.
const FOLLOWED: f64 = 0.3;
/// Factor by which the rate is moved when it nearly tells.
const CALIBRATION_FACTOR: f64 = 1.06;
/// The same where that was not enough: the limit is somewhere else. A single short step at the limit may well be free
/// of violations, so the first move is the small one.
const CALIBRATION_LEAP: f64 = 1.25;
/// Steps spent on finding a telling rate before the last one is used as it is.
const CALIBRATIONS: u32 = 6;

/// How far from the limit the violating share of a step still says how far: as in the limit fit.
const CLIP: f64 = 2.5;
/// How far the rate follows the machine's speed at most, as a ratio.
const FARTHEST_SPEED: f64 = 1.25;
/// Pairs spent on making a decision hold among others, once it is made.
pub const MORE_PAIRS: usize = 3;
/// Least factor that an effect is shown to have from which on no more pairs are spent on it: what is this large holds among
/// all the comparisons a run makes.
pub const LARGE: f64 = 1.25;
/// Least gain that is worth a change. One that is shown to gain less is not wanted for its gain.
pub const WORTH: f64 = 0.05;
/// Variance of a step whose violating share lies beyond what says how far away the limit is, as a multiple of a usual one's.
const CLIPPED: f64 = 4.0;
/// Closed-loop workers of each arm where both are loaded at once: as many as two cores are kept at work by, and so few that
/// none waits in a queue. With a full pool the arm that happens to get more of the machine also takes less CPU for a
/// request, and a slow arm's requests time out (docs/noise.md).
const BOTH_WORKERS: u32 = 2;
/// How many times as long as a step alone one of both at once is.
const BOTH_LENGTH: f64 = 1.5;

impl AbTest {
    /// A comparison with these options.
    #[must_use]
    pub fn new(options: AbOptions) -> Self {
        let calibrated = matches!(options.measure, AbMeasure::Saturation { .. });
        let pairs = match options.measure {
            AbMeasure::Saturation { .. } => Pairs::new(options.seed, options.at_once),
            AbMeasure::AtRate { slope, .. } => Pairs::by_share(options.seed, slope),
        };
        Self {
            pairs,
            options,
            decided: None,
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
        let pair = self.pairs.begun() as u64;
        let purpose = |what: &str| format!("ab: pair {} {what}", pair + 1);
        match self.pairs.next() {
            Turns::Alone(Side::A) => AbMove::Measure(Side::A, self.step(&purpose("without"), pair)),
            Turns::Alone(Side::B) => AbMove::Measure(Side::B, self.step(&purpose("with"), pair)),
            Turns::Both(first) => AbMove::Both(first, self.step_of_both(&purpose("both"), pair)),
        }
    }

    /// A step of both at once.
    fn step_of_both(&self, purpose: &str, nth: u64) -> Step {
        let seed = self.options.seed.wrapping_mul(1000).wrapping_add(nth);
        both(purpose, self.options.step, seed)
    }

    fn step(&self, purpose: &str, nth: u64) -> Step {
        let seed = self.options.seed.wrapping_mul(1000).wrapping_add(nth);
        match self.options.measure {
            AbMeasure::Saturation { workers } => {
                Step::saturating(purpose, workers, self.options.step, seed)
            }
            AbMeasure::AtRate {
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
        let (false, AbMeasure::AtRate { rate_hz, .. }) =
            (self.calibrated, &mut self.options.measure)
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
        let before = self.pairs.alone_count();
        self.pairs.record_alone(side, self.said(point), point);
        if !self.pairs.is_amid() {
            self.speed_now = canary.after;
        }
        if self.pairs.alone_count() > before {
            self.follow();
        }
        self.look();
    }

    /// Moves the rate of the next pair by what the last one said, towards where arms are told apart: what others use of the
    /// machine may have changed since the rate was found. Both steps of a pair have one rate, and it depends on pairs before
    /// only, so that it favours neither arm.
    fn follow(&mut self) {
        let Some(said) = self.pairs.last_said() else {
            return;
        };
        if let AbMeasure::AtRate { rate_hz, slope, .. } = &mut self.options.measure {
            let beyond = logit(MOST_TELLING) + said;
            *rate_hz *= (FOLLOWED * beyond / slope.max(1.0)).exp();
        }
    }

    /// Takes in a step of both at once: what arm A did, and what arm B did.
    pub fn record_both(&mut self, a: &LoadPoint, b: &LoadPoint) {
        self.pairs.record_both(a, b);
        self.look();
    }

    fn look(&mut self) {
        if self.verdict().is_decided() {
            self.decided.get_or_insert(self.pairs());
        }
    }

    /// What a step says, up to a constant that both arms share.
    fn said(&self, point: &LoadPoint) -> Said {
        match self.options.measure {
            AbMeasure::Saturation { .. } => served(point),
            AbMeasure::AtRate { .. } => {
                let share = (point.violations() as f64 + 0.5) / (point.arrivals as f64 + 1.0);
                let (centre, seen) = (logit(0.05), logit(share));
                let within = seen.clamp(centre - CLIP, centre + 2.0 * CLIP);
                let is_clipped = (within - seen).abs() > 0.0;
                let end = match is_clipped || point.violations() == 0 {
                    false => None,
                    true if seen > centre => Some(End::Drowned),
                    true => Some(End::Calm),
                };
                Said {
                    value: -within,
                    variance: if is_clipped { CLIPPED } else { 1.0 },
                    end,
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        let (pairs, most) = (self.pairs(), self.options.max_pairs);
        let known = self.pairs.effect();
        // Of few pairs, one kind may still be one short of a verdict.
        let tells = known.confidence_sequence().is_some() || pairs > most;
        if (pairs >= most && tells) || self.pairs.void() > most {
            return true;
        }
        if pairs < self.options.min_pairs.max(MIN_PAIRS) {
            return false;
        }
        let surely = || {
            let spent = self.decided.is_some_and(|at| pairs >= at + MORE_PAIRS);
            spent || is_large(&known) || known.e_value() >= self.options.enough
        };
        match self.verdict() {
            _ if self.is_not_worse(&known) => true,
            Verdict::Inconclusive | Verdict::NoBetter => false,
            Verdict::Equivalent => true,
            Verdict::Better | Verdict::Worse => surely(),
        }
    }

    /// Whether B is shown to lose less than the share that was asked for.
    fn is_not_worse(&self, known: &Combined) -> bool {
        let Some(share) = self.options.not_worse.filter(|_| self.tells) else {
            return false;
        };
        if self.fails_more(Side::B) {
            return false;
        }
        let ln = known.confidence_sequence();
        ln.is_some_and(|ln| ln.low > (1.0 - share).ln())
    }

    /// The verdict so far.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        let known = self.pairs.effect();
        let Some(ln) = known.confidence_sequence() else {
            return Verdict::Inconclusive;
        };
        let rope = self.options.rope;
        // What an arm serves, and how seldom it is late, does not speak for it where it refuses more.
        let winner = if known.mean() > 0.0 { Side::B } else { Side::A };
        if self.fails_more(winner) {
            return Verdict::Inconclusive;
        }
        if self.tells && ln.low > (1.0 - rope).ln() && ln.high < (1.0 + rope).ln() {
            Verdict::Equivalent
        } else if known.e_value() >= ENOUGH {
            if known.mean() > 0.0 {
                Verdict::Better
            } else {
                Verdict::Worse
            }
        } else if self.tells && ln.high < WORTH.ln_1p() {
            Verdict::NoBetter
        } else {
            Verdict::Inconclusive
        }
    }

    /// Whether more requests fail on this side.
    fn fails_more(&self, side: Side) -> bool {
        self.pairs.failed().more(side)
    }

    /// The effect of the change, once [`AbMove::Done`]; before that, what is known so far. Without pairs enough to tell it
    /// has no ratio.
    #[must_use]
    pub fn effect(&self, change: &str, settings: &[Setting]) -> Effect {
        let known = self.pairs.effect();
        let leading = self.pairs.leading();
        let ln = known.confidence_sequence();
        let alone = self.quantity();
        let measures = self.pairs.measures(alone);
        let by_cost = measures.len() > 1;
        Effect {
            change: change.to_owned(),
            settings: settings.to_vec(),
            quantity: if by_cost { CAPACITY } else { alone }.to_owned(),
            ratio: ln.map(ratio_of),
            pairs: self.pairs() as u32,
            e_value: known.e_value().min(1e9),
            verdict: self.verdict(),
            smallest_visible: ln.map(|_| known.smallest_visible().exp_m1()),
            permutation_p: resample::sign_flip_p(&leading, self.options.seed),
            bootstrap: resample::bootstrap(&leading, self.options.seed).map(ratio_of),
            void_pairs: self.pairs.void() as u32,
            cpu_binds: self.pairs.cpu_binds(),
            conditions: self.conditions(),
            measures,
        }
    }

    /// What a step alone measures.
    fn quantity(&self) -> &'static str {
        match self.options.measure {
            AbMeasure::Saturation { .. } => "throughput at saturation",
            AbMeasure::AtRate { .. } => BY_SHARE,
        }
    }

    fn conditions(&self) -> String {
        let load = match self.options.measure {
            AbMeasure::Saturation { workers } => format!("{workers} closed-loop workers"),
            AbMeasure::AtRate { rate_hz, .. } => format!(
                "about {} offered to both",
                kneepoint_model::units::format_rate(rate_hz)
            ),
        };
        let void = match self.pairs.void() {
            0 => String::new(),
            1 => ", 1 pair thrown away".to_owned(),
            void => format!(", {void} pairs thrown away"),
        };
        let decided = matches!(self.verdict(), Verdict::Better | Verdict::Worse);
        let at_rate = matches!(self.options.measure, AbMeasure::AtRate { .. });
        let least = match (decided && self.pairs.tell_the_least(), at_rate) {
            (true, true) => {
                ", at which one of the two met the SLO nearly always or nearly never: the true factor is farther from 1"
            }
            (true, false) => {
                ", under which one of the two served next to nothing: the factor says little"
            }
            _ if self.fails_more(Side::B) => {
                ", and more requests failed with the change than without it"
            }
            _ if self.fails_more(Side::A) => {
                ", and more requests failed without the change than with it"
            }
            _ => "",
        };
        let seconds = self.options.step.as_secs_f64();
        let no_cost = self.pairs.cost_given_up();
        format!("{load}, {seconds} s steps, in turns{void}{no_cost}{least}")
    }

    /// Pairs that count so far.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.pairs.count()
    }

    /// Share of the most pairs there can be that are done, for progress.
    #[must_use]
    pub fn progress(&self) -> f64 {
        self.pairs() as f64 / self.options.max_pairs.max(1) as f64
    }
}

/// A step of both arms at once beside steps alone of this length.
#[must_use]
pub fn both(purpose: &str, alone: Duration, seed: u64) -> Step {
    Step::saturating(purpose, BOTH_WORKERS, alone.mul_f64(BOTH_LENGTH), seed)
}

/// Whether an effect is shown to be a large one, in whichever direction.
fn is_large(known: &Combined) -> bool {
    let beyond = |ln: kneepoint_model::Interval| ln.low >= LARGE.ln() || ln.high <= -LARGE.ln();
    known.confidence_sequence().is_some_and(beyond)
}

/// A fair bit for the order within a pair: one output of SplitMix64, so that planners need no randomness.
pub(crate) fn order_bit(seed: u64, pair: u64) -> bool {
    let mut z = seed.wrapping_add(pair.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    (z ^ (z >> 31)) & 1 == 1
}
