//! Runs comparisons of two arms that stand: one A/B to its verdict, a configuration with itself, and the kinds of
//! comparison a finding calls for.

use crate::ab::{AbMove, AbOptions, AbTest, Measure, Side, Verdict};
use crate::bench::{Bench, Canary, Step};
use crate::diagnose::{say_when_invalid, speed_exponent};
use crate::error::ExperimentError;
use crate::recorder::Recorder;
use crate::testbed::Testbed;
use kneepoint_model::run::LimitResult;
use kneepoint_model::statistics::sequential::{ENOUGH, MIN_PAIRS};
use kneepoint_model::units::format_share;
use kneepoint_model::{Effect, Finding, LoadPoint, Setting};
use std::time::Duration;

/// How two arms are compared.
#[derive(Debug, Clone)]
pub struct Comparison<'a> {
    /// The arm without the change.
    pub without: &'a str,
    /// The arm with the change.
    pub with: &'a str,
    /// The change in words.
    pub change: String,
    /// The change as settings.
    pub settings: Vec<Setting>,
    /// Most pairs.
    pub max_pairs: usize,
    /// Pairs before which it does not stop.
    pub min_pairs: usize,
    /// Whether both arms are loaded at once, too: not where the change is of how many requests are served at a time.
    pub at_once: bool,
    /// Ends as soon as the change is shown to lose less than this share, where that is all that is asked.
    pub not_worse: Option<f64>,
    /// Length of a step.
    pub step: Duration,
    /// What is measured.
    pub measure: Measure,
    /// Seed.
    pub seed: u64,
}

/// The e-value that holds among six comparisons, as many as a run usually makes.
pub const AMONG_OTHERS: f64 = 6.0 * ENOUGH;
/// Steps that a pair takes the time of: two, and what comes between them and before the next.
const STEPS_PER_PAIR: u32 = 3;

/// Runs one A/B to its verdict, or for as long as its pairs should take, and writes every step down.
///
/// # Errors
/// An arm is gone, the load cannot be driven, or somebody asked to stop.
pub fn compare<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    comparison: &Comparison<'_>,
) -> Result<(Verdict, Effect), ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    let mut test = AbTest::new(AbOptions {
        measure: comparison.measure,
        max_pairs: comparison.max_pairs,
        min_pairs: comparison.min_pairs,
        enough: AMONG_OTHERS,
        at_once: comparison.at_once && comparison.without != comparison.with,
        not_worse: comparison.not_worse,
        step: comparison.step,
        rope: 0.02,
        seed: comparison.seed,
    });
    // The evidence may be looked at any time, so it may end early too: an arm that hardly comes to rest between steps
    // would otherwise take minutes for what it does not show.
    let patience = comparison.step * STEPS_PER_PAIR * comparison.max_pairs as u32;
    let enough = comparison.min_pairs.max(MIN_PAIRS);
    let began = recorder.elapsed();
    loop {
        recorder.check_stop()?;
        let impatient = recorder.elapsed().saturating_sub(began) > patience;
        if (test.pairs() >= enough && impatient) || recorder.left().is_zero() {
            break;
        }
        let progress = |step: &Step| {
            let what = format!("{}: {}", comparison.change, step.purpose);
            recorder.progress(&what, test.progress(), None);
        };
        match test.next_move() {
            AbMove::Measure(side, step) => {
                progress(&step);
                let (point, canary) = match comparison.measure {
                    // It compares the two steps of a pair, whatever the machine's speed.
                    Measure::Saturation { .. } => {
                        let point = bench.measure(comparison.arm(side), &step)?;
                        (point, Canary::default())
                    }
                    Measure::AtRate { .. } => {
                        bench.measure_with_canary(comparison.arm(side), &step)?
                    }
                };
                test.record(side, &point, canary);
                comparison.write_down(recorder, side, &step, point);
            }
            AbMove::Both(first, step) => {
                progress(&step);
                let [a, b] = both(bench, (comparison.without, comparison.with), first, &step)?;
                test.record_both(&a, &b);
                comparison.write_down(recorder, Side::A, &step, a);
                comparison.write_down(recorder, Side::B, &step, b);
            }
            AbMove::Done => break,
        }
    }
    let effect = test.effect(&comparison.change, &comparison.settings);
    if effect.void_pairs > 0 && effect.ratio.is_none() {
        recorder.warn(format!(
            "{}: {} pairs were void, since the generator was not sound or requests failed; there is no verdict",
            effect.change, effect.void_pairs
        ));
    }
    recorder.result(format!("{}: {}", effect.change, describe_effect(&effect)));
    Ok((test.verdict(), effect))
}

impl Comparison<'_> {
    fn arm(&self, side: Side) -> &str {
        match side {
            Side::A => self.without,
            Side::B => self.with,
        }
    }

    fn write_down(&self, recorder: &mut Recorder<'_>, side: Side, step: &Step, point: LoadPoint) {
        say_when_invalid(recorder, &point);
        let with = if side == Side::A { "without" } else { "with" };
        let arm = format!("{}: {with}", self.change);
        recorder.trial(&step.purpose, &arm, point);
    }
}

/// Measures a step of both arms at once, `first` named first; returns A's and B's.
///
/// # Errors
/// As [`Bench::measure_both`].
pub(crate) fn both<B: Bench>(
    bench: &mut B,
    (a, b): (&str, &str),
    first: Side,
    step: &Step,
) -> Result<[LoadPoint; 2], B::Error> {
    match first {
        Side::A => bench.measure_both([a, b], step),
        Side::B => {
            let [b, a] = bench.measure_both([b, a], step)?;
            Ok([a, b])
        }
    }
}

/// Compares an arm with itself, to learn how much pairs scatter on this machine and whether the comparison can be
/// trusted at all (method.md, `ab_test`: A/A once per run).
///
/// # Errors
/// As [`compare`]. An A/A that finds a difference is an error too: no A/B of this run would mean anything.
pub fn compare_with_itself<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    arm: &str,
    measure: Measure,
    (pairs, step): (usize, Duration),
) -> Result<Effect, ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    let comparison = Comparison {
        without: arm,
        with: arm,
        change: "A/A: the configuration against itself".to_owned(),
        settings: Vec::new(),
        max_pairs: pairs,
        min_pairs: pairs,
        at_once: false,
        not_worse: None,
        step,
        measure,
        seed: 11,
    };
    let (verdict, effect) = compare(bench, recorder, &comparison)?;
    if matches!(verdict, Verdict::Better | Verdict::Worse) {
        return Err(ExperimentError::Unfit(format!(
            "a configuration compared with itself came out {} ({}): something on this machine favours one of two \
             steps, so no comparison means anything; find what else runs here, and try again",
            verdict.name(),
            describe_effect(&effect)
        )));
    }
    if let Some(visible) = effect.smallest_visible {
        recorder.result(format!(
            "pairs of equal steps scatter so that {pairs} of them show an effect of {} or more",
            format_share(visible)
        ));
    }
    Ok(effect)
}

/// Time left below which a second kind of comparison is not begun: what was found so far must still be proved.
const SECOND_LOOK: Duration = Duration::from_secs(200);

/// What an A/B starts from.
#[derive(Debug, Clone, Copy)]
pub struct Ground {
    /// The rate per second at which a change shows: R* of the arm without it, or one that was seen to fail.
    pub rate_hz: f64,
    /// Slope of the limit fit.
    pub slope: f64,
    /// How far R* follows the machine's speed.
    pub speed_exponent: f64,
    /// Most pairs of each kind.
    pub max_pairs: usize,
    /// Length of a step.
    pub step: Duration,
}

/// Half the width of R*'s interval, as a share, from which on its estimate is no rate to compare at \[prop\].
const VAGUE: f64 = 0.25;
/// Violating shares of a step of the search that make its rate the better one: well to be seen, and not all.
const FAILING: std::ops::RangeInclusive<f64> = 0.1..=0.7;

impl Ground {
    /// The ground a limit gives, with its slope. Where R* is known only vaguely, as of a stack that fails at one time
    /// and not at another, the rate is the lowest that was seen to fail plainly: at the estimate both arms may be well.
    #[must_use]
    pub fn of(limit: &LimitResult, slope: f64, max_pairs: usize) -> Self {
        let known = limit.rate_hz;
        let failing_hz = limit
            .rates_violating(FAILING)
            .filter(|rate_hz| *rate_hz > known.estimate)
            .min_by(f64::total_cmp);
        let vague = known.relative_half_width() > VAGUE;
        Self {
            rate_hz: failing_hz.filter(|_| vague).unwrap_or(known.estimate),
            slope,
            speed_exponent: speed_exponent(limit),
            max_pairs,
            step: Duration::from_secs(2),
        }
    }
}

/// Arrivals of a step from which on the share that violates the SLO is told: a twentieth of them is one.
const FEWEST_ARRIVALS: f64 = 20.0;

/// Compares by the quantity that the finding's signal speaks of, and by the other one when that shows nothing.
///
/// # Errors
/// As [`compare`].
pub fn compare_for(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    (without, with): (&str, &str),
    finding: &Finding,
    settings: &[Setting],
    ground: Ground,
) -> Result<(Verdict, Effect), ExperimentError> {
    let saturation = testbed.saturation_of(without, with)?;
    let at_rate = Measure::AtRate {
        rate_hz: ground.rate_hz,
        slope: ground.slope,
        speed_exponent: ground.speed_exponent,
    };
    let queue_speaks = kneepoint_diagnosis::RULES
        .iter()
        .find(|rule| rule.code == finding.code)
        .is_some_and(|rule| rule.signal == kneepoint_diagnosis::Signal::Saturation);
    // Capacity speaks for itself at saturation. What queues or grows shows in an open loop first.
    // Of a few arrivals a step, the share that is late says nothing.
    let enough = ground.rate_hz * ground.step.as_secs_f64() >= FEWEST_ARRIVALS;
    let order = if queue_speaks && enough {
        vec![at_rate, saturation]
    } else {
        vec![saturation]
    };
    let mut outcomes = Vec::new();
    for (nth, measure) in order.into_iter().enumerate() {
        if nth > 0 && recorder.left() < SECOND_LOOK {
            break;
        }
        let comparison = Comparison {
            without,
            with,
            change: describe_settings(settings),
            settings: settings.to_vec(),
            max_pairs: ground.max_pairs,
            min_pairs: MIN_PAIRS,
            at_once: !queue_speaks,
            not_worse: None,
            step: ground.step,
            measure,
            seed: 31 + nth as u64,
        };
        outcomes.push(compare(testbed, recorder, &comparison)?);
        if matches!(outcomes[nth].0, Verdict::Better | Verdict::Worse) {
            break;
        }
    }
    // A difference, or else what the finding's signal speaks of: that the other one shows none says nothing of it.
    let differs =
        |(verdict, _): &(Verdict, Effect)| matches!(verdict, Verdict::Better | Verdict::Worse);
    let telling = outcomes.iter().position(differs).unwrap_or(0);
    if outcomes.is_empty() {
        return Err(ExperimentError::Unfit("no comparison was made".to_owned()));
    }
    Ok(outcomes.swap_remove(telling))
}

/// An effect in words: what was compared, by how much, how sure, and by which measure.
#[must_use]
pub fn describe_effect(effect: &Effect) -> String {
    let Some(ratio) = effect.ratio else {
        return format!(
            "{}: no verdict from {}",
            effect.quantity,
            counted(effect.pairs)
        );
    };
    let undecided = effect.verdict == Verdict::Inconclusive;
    let unseen = effect.smallest_visible.filter(|_| undecided);
    let unseen = unseen.map_or_else(String::new, |least| {
        let least = format_share(least);
        format!(", smallest effect it could have seen {least}")
    });
    format!(
        "{} {:.2}x (95 %: {:.2} to {:.2}), {} in {}{unseen}",
        effect.quantity,
        ratio.estimate,
        ratio.low,
        ratio.high,
        effect.verdict,
        counted(effect.pairs)
    )
}

fn counted(pairs: u32) -> String {
    match pairs {
        1 => "1 pair".to_owned(),
        pairs => format!("{pairs} pairs"),
    }
}

/// `opcache.enable = 1, ...` without the layer where it is said once.
#[must_use]
pub fn describe_settings(settings: &[Setting]) -> String {
    settings
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::Ground;
    use kneepoint_model::Interval;
    use kneepoint_model::run::LimitResult;

    fn check(interval: [f64; 3], steps: &[(f64, f64)], rate_hz: f64) {
        let [low, estimate, high] = interval;
        let limit = LimitResult {
            rate_hz: Interval {
                low,
                estimate,
                high,
            },
            steps: steps
                .iter()
                .map(|(rate_hz, violating)| (*rate_hz, *violating, 500))
                .collect(),
            ..LimitResult::default()
        };
        let ground = Ground::of(&limit, 8.0, 10);
        assert!(
            (ground.rate_hz - rate_hz).abs() < 1e-9,
            "compares at {} instead of {rate_hz}",
            ground.rate_hz
        );
    }

    #[test]
    fn a_known_limit_is_where_arms_are_compared() {
        check([95.0, 100.0, 105.0], &[(98.0, 0.04), (130.0, 0.4)], 100.0);
    }

    #[test]
    fn a_vague_limit_gives_way_to_the_lowest_rate_that_failed_plainly() {
        let steps = [(340.0, 0.9), (172.0, 0.4), (145.0, 0.3), (47.0, 0.01)];
        check([15.0, 27.0, 47.0], &steps, 145.0);
    }

    #[test]
    fn a_vague_limit_that_nothing_failed_at_stays() {
        check([15.0, 27.0, 47.0], &[(20.0, 0.0), (340.0, 1.0)], 27.0);
    }
}
