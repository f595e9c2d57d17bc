//! How far off a prediction was: the arm is driven up to its limit after all, and then below it.
//!
//! Between these steps go steps at low load, and what they predict is told beside what the plan did: the speed of a shared
//! machine drifts by more in some minutes than the model may be off.

use super::fit::{Ground, Seen, known_from};
use super::low_load::{LowLoad, observe};
use super::steady::{STOLEN, steady, undisturbed};
use super::twin::mean;
use super::{HEADROOM, Model, SHARES, of_steps_ms};
use crate::bench::Step;
use crate::diagnose::find_limit_in_turns;
use crate::error::ExperimentError;
use crate::limit::LimitOptions;
use crate::recorder::Recorder;
use crate::testbed::Testbed;
use kneepoint_model::capacity::{InTurns, P95_OFF, Verified};
use kneepoint_model::statistics::median::{median, median_interval, median_interval_beside};
use kneepoint_model::units::{format_ms, format_rate, format_share};
use kneepoint_model::{Interval, LatencyHistogram};
use std::time::Duration;

/// Of the time that is asked for, what goes into finding R*. With half of it, what was measured and what was predicted from
/// the low load in between were 7 % apart on a shared machine (standard deviation of seven real plans). That was hoped to be
/// chance, of which twice the steps have less; five plans since then (2, -7, -3, -15 and 2 %) do not show it.
const LIMIT: f64 = 1.0;
/// Shortest step of that search: shorter ones end before the queue is as long as it gets, and R* comes out too high
/// (`cargo xtask method`: without bias from 7 s on).
const LIMIT_STEP: Duration = Duration::from_secs(7);
/// Steps of that search at least: it is over sooner where they agree, and then too little low load is in turns with it.
const LIMIT_STEPS: usize = 12;
/// Length of the other steps: short, so that those that take turns meet the same machine.
const STEP: Duration = Duration::from_secs(4);
/// Of the same time, what goes into the steps at four fifths of R*; low load in turns with these and with the search comes
/// on top of both. It takes many, too: the p95 there follows the machine's speed about four times over, and that wanders within
/// seconds.
const BELOW: f64 = 1.0;
/// How many times as many are driven at most where the host keeps the machine's time from some, or where they scatter so
/// much beyond what low load tells that the p95 is not known to [`KNOWN`].
const MOST_PAIRS: f64 = 2.0;
/// Half the width of the measured p95's interval, as a share, from which on more steps are worth their time: three quarters of
/// what a prediction may be off.
const KNOWN: f64 = 0.75 * P95_OFF;
/// Steps at low load after each step of the search. The CPU that a request takes scatters by 7 to 14 % from one such step to
/// the next on a shared machine, and a search may be over after a dozen.
const LOW_OF_LIMIT: usize = 2;
/// Fewest pairs that are worth it.
const LEAST_PAIRS: u32 = 6;
/// Seed of the first step at four fifths of R*, and of the first one at low load: no other step sees the same arrivals.
const SEED: u64 = 4000;
const LOW_SEED: u64 = 5000;

/// What is put to the test.
#[derive(Clone, Copy)]
pub(super) struct Claimed<'a> {
    pub(super) model: &'a Model,
    /// What it was made from.
    pub(super) seen: &'a [Seen],
    pub(super) ground: Ground,
    /// Predicted R* per second: the rates at low load are shares of it.
    pub(super) limit_hz: f64,
}

/// Finds R*, and the response time at four fifths of it.
///
/// # Errors
/// The arm is gone, the load cannot be driven, or somebody asked to stop.
pub(super) fn verify(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    claimed: Claimed<'_>,
    time: Duration,
) -> Result<Verified, ExperimentError> {
    recorder.stage("Verify: drive it up to its limit after all, in turns with low load");
    let mut turns = Turns {
        low: LowLoad::new(arm, claimed.limit_hz, STEP, LOW_SEED),
        driven: 0,
    };
    let workers = testbed.saturating_workers(arm)?;
    // Without a confirming stretch: what is predicted is the rate that half of the windows bear, and that is what the steps
    // find. A minute at a rate asks more, which no low load is in turns with: one slow spell of ten seconds in it lowered R*
    // to 778/s, where the steps said 886/s (869 to 904).
    let options = LimitOptions {
        step_min: LIMIT_STEP,
        min_steps: LIMIT_STEPS,
        ..LimitOptions::within(time.mul_f64(LIMIT), workers).unconfirmed()
    };
    let mut beside: Vec<Seen> = Vec::new();
    let (limit, _) =
        find_limit_in_turns(testbed, recorder, arm, arm, options, |testbed, recorder| {
            for _ in 0..LOW_OF_LIMIT {
                beside.extend(turns.next(testbed, recorder)?);
            }
            Ok(())
        })?;
    let rate_hz = HEADROOM * limit.rate_hz.estimate;
    let pairs = (time.mul_f64(BELOW).div_duration_f64(STEP) as u32).max(LEAST_PAIRS);
    let below = below(testbed, recorder, claimed, rate_hz, &mut turns, pairs)?;
    let mut overall = LatencyHistogram::default();
    below.responses.iter().for_each(|one| overall.merge(one));
    let quantile = claimed.model.slo.quantile;
    let p95_ms = of_steps_ms(below.responses.iter(), quantile);
    let verified = Verified {
        predicted_limit_hz: claimed.limit_hz,
        limit_hz: limit.rate_hz,
        offered_hz: rate_hz,
        measured_p95_ms: median(&p95_ms),
        measured_p95_interval_ms: median_interval(&p95_ms),
        measured_overall_p95_ms: overall.quantile_ms(quantile),
        predicted_p95_ms: claimed.model.p95_ms(rate_hz),
        in_turns: in_turns(claimed, &beside, &below, rate_hz),
    };
    recorder.result(in_words(&verified));
    Ok(verified)
}

/// Which of the low rates take turns: the lowest shows how much longer some requests take than others, the highest how long
/// they take and what CPU, which is what the machine's speed changes.
const LEVELS: [usize; 3] = [SHARES.len() - 1, 0, SHARES.len() - 1];

/// Steps at these rates by turns.
struct Turns<'a> {
    low: LowLoad<'a>,
    driven: usize,
}

impl Turns<'_> {
    fn next(
        &mut self,
        testbed: &mut Testbed,
        recorder: &mut Recorder<'_>,
    ) -> Result<Option<Seen>, ExperimentError> {
        let level = LEVELS[self.driven % LEVELS.len()];
        self.driven += 1;
        self.low.step(testbed, recorder, level)
    }
}

/// What was seen at four fifths of R*, and at low load in turns with it.
struct Below {
    responses: Vec<LatencyHistogram>,
    seen: Vec<Seen>,
    /// The p95 in ms of the median step, as well as it is known to whoever saw the steps at low load.
    known_p95_ms: Option<Interval>,
}

/// A step at low load, and the one at four fifths of R* that came after it.
struct Pair {
    low: Seen,
    response: LatencyHistogram,
    /// Share of the machine's CPU time that its host kept, in the step of the two in which it kept more.
    stolen_share: f64,
}

/// Drives pairs until this many are calm and the p95 is known well; not for ever, where the host keeps the machine's time
/// from many or the steps scatter much.
fn below(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    claimed: Claimed<'_>,
    rate_hz: f64,
    turns: &mut Turns<'_>,
    count: u32,
) -> Result<Below, ExperimentError> {
    let most = (MOST_PAIRS * f64::from(count)) as u32;
    let mut pairs: Vec<Pair> = Vec::new();
    let mut driven = 0;
    while driven < most && !enough(&pairs, count, claimed.model.slo.quantile) {
        recorder.progress("plan: verify", f64::from(driven) / f64::from(most), None);
        let low = turns.next(testbed, recorder)?;
        let step = Step::at_rate("plan: verify", rate_hz, STEP, SEED + u64::from(driven));
        let high = observe(testbed, recorder, turns.low.arm, &step.to_the_end())?;
        driven += 1;
        if let Some(low) = low.filter(|_| high.load.validity.is_valid()) {
            let stolen_cores = low.stolen_cores.max(high.cpu.cores(high.cpu.stolen_s));
            pairs.push(Pair {
                low,
                response: high.load.response,
                stolen_share: stolen_cores / claimed.ground.cores,
            });
        }
    }
    let (below, stolen_share) = counting(&pairs, claimed.model.slo.quantile);
    recorder.result(format!(
        "{} of {driven} pairs count, during which the host kept at most {} of the machine's CPU time",
        below.seen.len(),
        format_share(stolen_share)
    ));
    Ok(below)
}

/// Whether this many pairs are calm, and those that count say the p95 to [`KNOWN`].
fn enough(pairs: &[Pair], count: u32, quantile: f64) -> bool {
    let calm = pairs.iter().filter(|it| it.stolen_share <= STOLEN).count();
    calm >= count as usize && {
        known_p95_ms(&kept(pairs), quantile).is_some_and(|p95| p95.relative_half_width() <= KNOWN)
    }
}

/// A quantile in ms of the median step at four fifths of R*, with what chance leaves of it on a machine that was as fast as
/// the steps at low load say. It is held against what is predicted from these, so that they need not last for as long as the
/// machine takes to show all of its speeds.
fn known_p95_ms(pairs: &[&Pair], quantile: f64) -> Option<Interval> {
    let (slow, p95_ms): (Vec<f64>, Vec<f64>) = slowness(pairs)
        .into_iter()
        .zip(pairs)
        .filter_map(|(slow, pair)| Some((slow, pair.response.quantile_ms(quantile)?)))
        .unzip();
    median_interval_beside(&p95_ms, &slow)
}

/// How slow the machine was around each step at four fifths of R*: how long requests took in the steps at low load before and
/// after it, as logarithms against the others at their rate.
fn slowness(pairs: &[&Pair]) -> Vec<f64> {
    let took = |pair: &&Pair| mean(pair.low.seconds_ln_ms.iter().copied());
    let usual = SHARES.iter().enumerate().map(|(level, _)| {
        let alike = pairs.iter().filter(|pair| pair.low.level == level);
        mean(alike.map(took))
    });
    let usual: Vec<f64> = usual.collect();
    let before: Vec<f64> = pairs
        .iter()
        .map(|pair| took(pair) - usual[pair.low.level])
        .collect();
    let after = before.iter().skip(1).chain(before.last());
    before
        .iter()
        .zip(after)
        .map(|(before, after)| f64::midpoint(*before, *after))
        .collect()
}

/// The pairs that count. Both of a pair are left out where the host kept much during either, and where something else
/// disturbed the one at low load. How long requests took in the other does not matter to that.
fn kept(pairs: &[Pair]) -> Vec<&Pair> {
    let pairs: Vec<&Pair> = pairs.iter().collect();
    undisturbed(&pairs, |pair| &pair.low, |pair| pair.stolen_share).1
}

/// What the pairs that count say, and the largest share that the host kept during one of them.
fn counting(pairs: &[Pair], quantile: f64) -> (Below, f64) {
    let kept = kept(pairs);
    let mut below = Below {
        responses: Vec::new(),
        seen: Vec::new(),
        known_p95_ms: known_p95_ms(&kept, quantile),
    };
    let mut stolen_share: f64 = 0.0;
    for pair in kept {
        below.responses.push(pair.response.clone());
        below.seen.push(pair.low.clone());
        stolen_share = stolen_share.max(pair.stolen_share);
    }
    (below, stolen_share)
}

/// What the steps in turns with the search say of R*, and those in turns with the steps at four fifths of it of the p95
/// there; `None` where too few of them were sound.
fn in_turns(
    claimed: Claimed<'_>,
    of_limit: &[Seen],
    of_p95: &Below,
    rate_hz: f64,
) -> Option<InTurns> {
    let (of_limit, _) = steady(of_limit, claimed.ground.cores);
    // How fast the machine is changes from one phase to the next, and how much CPU a request saves at higher rates hardly.
    let all = claimed.seen.iter().chain(&of_limit).chain(&of_p95.seen);
    let ground = known_from(claimed.ground, all);
    let model = |seen: &[Seen]| Model::of(seen, ground, &claimed.model.slo).ok();
    let limit_hz: Interval = model(&of_limit)?.limit_hz();
    let below = model(&of_p95.seen)?;
    let p95_ms = below.p95_ms(rate_hz);
    let rates = of_limit.iter().chain(&of_p95.seen).map(|seen| seen.rate_hz);
    Some(InTurns {
        measured_up_to_hz: rates.fold(0.0, f64::max),
        speed_sd: Some(below.whole.twin.wander),
        limit_hz,
        p95_ms,
        measured_p95_interval_ms: of_p95.known_p95_ms,
    })
}

fn in_words(verified: &Verified) -> String {
    let limit = format!(
        "R* was predicted {} off ({} measured)",
        format_share(verified.limit_off()),
        format_rate(verified.limit_hz.estimate)
    );
    let Some((measured_ms, off)) = verified.measured_p95_ms.zip(verified.p95_off()) else {
        return limit;
    };
    let before = format!(
        "{limit}, and the p95 at {} {} off ({})",
        format_rate(verified.offered_hz),
        format_share(off),
        measured(verified, measured_ms)
    );
    let turned = verified.turned();
    match turned.and_then(|turned| Some((turned.limit_off(), turned.p95_off()?))) {
        Some((limit_off, p95_off)) => format!(
            "{before}; from low load in turns with these {} and {} off",
            format_share(limit_off),
            format_share(p95_off)
        ),
        None => before,
    }
}

/// `49.6 ms measured, 41.0 ms to 60.2 ms`.
fn measured(verified: &Verified, measured_ms: f64) -> String {
    let between = verified
        .measured_p95_interval_ms
        .map_or_else(String::new, |it| {
            format!(", {} to {}", format_ms(it.low), format_ms(it.high))
        });
    format!("{} measured{between}", format_ms(measured_ms))
}
