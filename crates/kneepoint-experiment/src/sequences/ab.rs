//! Runs comparisons of two arms that stand: one A/B to its verdict, a configuration with itself, and the kinds of
//! comparison a finding calls for.

use crate::error::ExperimentError;
use crate::record::Recorder;
use crate::testbed::Testbed;
use kneepoint_diagnosis::{RULES, RuleStage, UseSignal};
use kneepoint_model::statistics::sequential::MIN_PAIRS;
use kneepoint_model::units::format_share;
use kneepoint_model::{Effect, Finding, LoadPoint, Setting};
use kneepoint_planner::ab::{AbMeasure, AbMove, AbOptions, AbTest, Side, Verdict};
use kneepoint_planner::bench::{Bench, Canary, Step};
use kneepoint_planner::comparison::{
    AMONG_OTHERS, ComparisonBase, describe_effect, describe_settings,
};
use std::time::Duration;

/// How two arms are compared.
#[derive(Debug, Clone)]
pub struct ArmComparison<'a> {
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
    pub measure: AbMeasure,
    /// Seed.
    pub seed: u64,
}

/// Steps that a pair takes the time of: two, and what comes between them and before the next.
const STEPS_PER_PAIR: u32 = 3;
/// Comparisons that what is left of a budget is for, as many as a run usually makes ([`AMONG_OTHERS`]) \[ours\].
const COMPARISONS: u32 = 6;

/// How long the pairs of a comparison may take: what they take where nobody slows them, or its share of what is left of the
/// budget, whichever is more. Other programs may slow them, and for those it does not end while that share lasts. So may an
/// arm that hardly comes to rest between steps: without an end it would take minutes for what it does not show.
fn patience(undisturbed: Duration, left: Option<Duration>) -> Duration {
    left.map_or(undisturbed, |left| undisturbed.max(left / COMPARISONS))
}

/// Runs one A/B to its verdict, or for as long as its pairs may take, and writes every step down.
///
/// # Errors
/// An arm is gone, the load cannot be driven, or somebody asked to stop.
pub fn compare<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    comparison: &ArmComparison<'_>,
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
    // The evidence may be looked at any time, so it may end early too.
    let undisturbed = comparison.step * STEPS_PER_PAIR * comparison.max_pairs as u32;
    let patience = patience(undisturbed, recorder.left_of_budget());
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
                    AbMeasure::Saturation { .. } => {
                        let point = bench.measure(comparison.arm(side), &step)?;
                        (point, Canary::default())
                    }
                    AbMeasure::AtRate { .. } => {
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
    warn_of_no_verdict(recorder, &effect);
    recorder.result(format!("{}: {}", effect.change, describe_effect(&effect)));
    Ok((test.verdict(), effect))
}

/// Says why there is no verdict, where pairs were void.
fn warn_of_no_verdict(recorder: &mut Recorder<'_>, effect: &Effect) {
    if effect.void_pairs == 0 || effect.ratio.is_some() {
        return;
    }
    let pairs = match effect.void_pairs {
        1 => "1 pair was".to_owned(),
        pairs => format!("{pairs} pairs were"),
    };
    recorder.warn(format!(
        "{}: {pairs} thrown away, since the generator was not sound, or requests failed or next to none were served; there is no \
         verdict",
        effect.change
    ));
}

impl ArmComparison<'_> {
    fn arm(&self, side: Side) -> &str {
        match side {
            Side::A => self.without,
            Side::B => self.with,
        }
    }

    fn write_down(&self, recorder: &mut Recorder<'_>, side: Side, step: &Step, point: LoadPoint) {
        recorder.say_when_invalid(&point);
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
    measure: AbMeasure,
    (pairs, step): (usize, Duration),
) -> Result<Effect, ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    let comparison = ArmComparison {
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
        return Err(ExperimentError::Unsound(format!(
            "a configuration compared with itself came out {} ({}): something on this machine favours one of two \
             steps, so no comparison means anything; find what else runs here, and try again",
            verdict.name(),
            describe_effect(&effect)
        )));
    }
    if let Some(visible) = effect.visible() {
        recorder.result(format!(
            "pairs of equal steps scatter so that {pairs} of them show an effect of {} or more",
            format_share(visible)
        ));
    }
    Ok(effect)
}

/// Time left below which a second kind of comparison is not begun: what was found so far must still be proved.
const SECOND_LOOK: Duration = Duration::from_secs(200);

/// Arrivals of a step from which on the share that violates the SLO is told: a twentieth of them is one.
const FEWEST_ARRIVALS: f64 = 20.0;

/// What the comparisons of a change showed.
#[derive(Debug)]
pub struct Compared {
    /// The effect that the change is judged by.
    pub effect: Effect,
    /// What the other measure showed, where it was taken, too.
    pub other: Option<Effect>,
}

/// Whether a remedy of this rule shows at one rate first. What queues or grows does, in an open loop. So does what fails: there
/// each failure is a request that violates the SLO, while at saturation a quick failure makes room for the next request.
fn shows_at_one_rate(code: &str) -> bool {
    let mut rules = RULES.iter();
    let rule = rules.find(|rule| rule.code == code);
    rule.is_some_and(|rule| match rule.signal {
        UseSignal::Saturation => true,
        UseSignal::Error => rule.stage == RuleStage::Errors,
        UseSignal::Utilisation => false,
    })
}

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
    base: ComparisonBase,
) -> Result<Compared, ExperimentError> {
    let saturation = testbed.saturation_of(without, with)?;
    let at_rate = AbMeasure::AtRate {
        rate_hz: base.rate_hz,
        slope: base.slope,
        speed_exponent: base.speed_exponent,
    };
    // Capacity speaks for itself at saturation.
    let by_rate = shows_at_one_rate(&finding.code);
    // Of a few arrivals a step, the share that is late says nothing.
    let enough = base.rate_hz * base.step.as_secs_f64() >= FEWEST_ARRIVALS;
    let order = if by_rate && enough {
        vec![at_rate, saturation]
    } else {
        vec![saturation]
    };
    let mut outcomes = Vec::new();
    for (nth, measure) in order.into_iter().enumerate() {
        if nth > 0 && recorder.left() < SECOND_LOOK {
            break;
        }
        let comparison = ArmComparison {
            without,
            with,
            change: describe_settings(settings),
            settings: settings.to_vec(),
            max_pairs: base.max_pairs,
            min_pairs: MIN_PAIRS,
            at_once: !by_rate,
            not_worse: None,
            step: base.step,
            measure,
            seed: 31 + nth as u64,
        };
        let (verdict, effect) = compare(testbed, recorder, &comparison)?;
        outcomes.push(effect);
        if verdict.is_difference() {
            break;
        }
    }
    telling(outcomes).ok_or_else(|| ExperimentError::Unsound("no comparison was made".to_owned()))
}

/// A difference, or else what the finding's signal speaks of: that the other one shows none says nothing of it. The other one was
/// looked at all the same, so it stays told, and counts among the comparisons of the run.
fn telling(mut outcomes: Vec<Effect>) -> Option<Compared> {
    let differs = |effect: &Effect| effect.verdict.is_difference();
    let telling = outcomes.iter().position(differs).unwrap_or(0);
    (!outcomes.is_empty()).then(|| Compared {
        effect: outcomes.remove(telling),
        other: outcomes.pop().filter(Effect::was_measured),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_queues_or_fails_is_judged_at_one_rate_and_what_computes_is_not() {
        let check = |code: &str, expected: bool| {
            assert_eq!(shows_at_one_rate(code), expected, "{code}");
        };
        check("PG-01", true);
        check("MYS-01", true);
        check("FPM-01", true);
        // It costs CPU time, however plainly it is misconfigured.
        check("APP-03", false);
        check("OPC-01", false);
        check("no rule", false);
    }

    #[test]
    fn what_the_other_measure_showed_is_kept() {
        use Verdict::{Better, Equivalent, Inconclusive};
        let told = |verdicts: &[Verdict]| {
            let effect = |(nth, verdict): (usize, &Verdict)| Effect {
                change: nth.to_string(),
                verdict: *verdict,
                pairs: 3,
                ..Effect::default()
            };
            let outcomes = verdicts.iter().enumerate().map(effect).collect();
            let compared = telling(outcomes)?;
            let other = compared.other.map(|other| other.change);
            Some((compared.effect.change, other))
        };
        let check = |verdicts: &[Verdict], effect: &str, other: Option<&str>| {
            let expected = (effect.to_owned(), other.map(str::to_owned));
            assert_eq!(told(verdicts), Some(expected), "{verdicts:?}");
        };
        check(&[Better], "0", None);
        check(&[Inconclusive, Better], "1", Some("0"));
        check(&[Inconclusive, Equivalent], "0", Some("1"));
        assert_eq!(told(&[]), None);
    }

    #[test]
    fn a_comparison_that_others_slow_goes_on_while_there_is_budget() {
        let s = Duration::from_secs;
        let check = |left: Option<u64>, takes: u64| {
            assert_eq!(patience(s(36), left.map(s)), s(takes));
        };
        check(None, 36);
        check(Some(600), 100);
        // Beside little that is left its pairs take what they should.
        check(Some(60), 36);
    }
}
