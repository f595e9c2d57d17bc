//! How far off a prediction was: the arm is driven up to its limit after all, and then below it.
//!
//! Between these steps go steps at low load, and what they predict is told beside what the plan did: the speed of a shared
//! machine drifts by more in some minutes than the model may be off.

use super::low_load::{LowLoad, observe};
use crate::error::ExperimentError;
use crate::record::Recorder;
use crate::sequences::Subject;
use crate::sequences::limit::find_limit_in_turns;
use crate::testbed::Testbed;
use kneepoint_model::capacity::Verified;
use kneepoint_model::units::{format_ms, format_rate, format_share};
use kneepoint_planner::bench::Step;
use kneepoint_planner::capacity::{
    BelowLimit, Claimed, HEADROOM, LowLoadStep, SHARES, VerificationPair,
};
use kneepoint_planner::limit::LimitOptions;
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
/// on top of both. It takes many, too: the p95 there follows the machine's speed about four times over, and that drifts within
/// seconds.
const BELOW: f64 = 1.0;
/// How many times as many are driven at most where the host keeps the machine's time from some, or where they scatter so
/// much beyond what low load tells that the p95 is not known to [`KNOWN`].
const MOST_PAIRS: f64 = 2.0;
/// Steps at low load after each step of the search. The CPU that a request takes scatters by 7 to 14 % from one such step to
/// the next on a shared machine, and a search may be over after a dozen.
const LOW_OF_LIMIT: usize = 2;
/// Fewest pairs that are worth it.
const LEAST_PAIRS: u32 = 6;
/// Seed of the first step at four fifths of R*, and of the first one at low load: no other step sees the same arrivals.
const SEED: u64 = 4000;
const LOW_SEED: u64 = 5000;

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
    let mut beside: Vec<LowLoadStep> = Vec::new();
    let (limit, _) = find_limit_in_turns(
        testbed,
        recorder,
        Subject::named(arm),
        options,
        |testbed, recorder| {
            for _ in 0..LOW_OF_LIMIT {
                beside.extend(turns.next(testbed, recorder)?);
            }
            Ok(())
        },
    )?;
    if let Some(missed) = limit.missed_alone {
        let words = format!("no rate meets the SLO: {}", missed.in_words());
        return Err(ExperimentError::Unfit(words));
    }
    let rate_hz = HEADROOM * limit.rate_hz.estimate;
    let pairs = (time.mul_f64(BELOW).div_duration_f64(STEP) as u32).max(LEAST_PAIRS);
    let below = below(testbed, recorder, claimed, rate_hz, &mut turns, pairs)?;
    let verified = claimed.verified(limit.rate_hz, &beside, rate_hz, &below);
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
    ) -> Result<Option<LowLoadStep>, ExperimentError> {
        let level = LEVELS[self.driven % LEVELS.len()];
        self.driven += 1;
        self.low.step(testbed, recorder, level)
    }
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
) -> Result<BelowLimit, ExperimentError> {
    let most = (MOST_PAIRS * f64::from(count)) as u32;
    let quantile = testbed.slo().quantile;
    let mut pairs: Vec<VerificationPair> = Vec::new();
    let mut driven = 0;
    while driven < most && !VerificationPair::enough(&pairs, count, quantile) {
        recorder.progress("plan: verify", f64::from(driven) / f64::from(most), None);
        let low = turns.next(testbed, recorder)?;
        let step = Step::at_rate("plan: verify", rate_hz, STEP, SEED + u64::from(driven));
        let high = observe(testbed, recorder, turns.low.arm, &step.to_the_end())?;
        driven += 1;
        if let Some(low) = low.filter(|_| high.load.validity.is_valid()) {
            let stolen_cores = low.stolen_cores.max(high.cpu.cores(high.cpu.stolen_s));
            pairs.push(VerificationPair {
                low,
                response: high.load.response,
                stolen_share: stolen_cores / claimed.host.cores,
            });
        }
    }
    let below = BelowLimit::of(&pairs, quantile);
    recorder.result(format!(
        "{} of {driven} pairs count, during which the host kept at most {} of the machine's CPU time",
        below.responses.len(),
        format_share(below.stolen_share)
    ));
    Ok(below)
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
