//! How far off a prediction was: the arm is driven up to its limit after all, and then below it.

use super::{HEADROOM, Model};
use crate::bench::{Bench as _, Step};
use crate::diagnose::{find_limit, say_when_invalid};
use crate::error::ExperimentError;
use crate::limit::LimitOptions;
use crate::recorder::Recorder;
use crate::testbed::Testbed;
use kneepoint_model::LatencyHistogram;
use kneepoint_model::capacity::Verified;
use kneepoint_model::units::{format_ms, format_rate, format_share};
use std::time::Duration;

/// Share of the time that is for the response time at four fifths of R*.
const BELOW: f64 = 0.25;
/// Steps that this time is cut into: what disturbs the machine for a moment voids one of them, and not all.
const STEPS: u32 = 6;
/// Seed of the first of them: no other step sees the same arrivals.
const SEED: u64 = 400;

/// Finds R*, and the response time at four fifths of it.
///
/// # Errors
/// The arm is gone, the load cannot be driven, or somebody asked to stop.
pub(super) fn verify(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    model: &Model,
    predicted_limit_hz: f64,
    time: Duration,
) -> Result<Verified, ExperimentError> {
    recorder.stage("Verify: drive it up to its limit after all");
    let workers = testbed.saturating_workers(arm)?;
    let options = LimitOptions::within(time.mul_f64(1.0 - BELOW), workers);
    let (limit, _) = find_limit(testbed, recorder, arm, arm, options)?;
    let rate_hz = HEADROOM * limit.rate_hz.estimate;
    let response = below(testbed, recorder, arm, rate_hz, time.mul_f64(BELOW))?;
    let measured_p95_ms = response.quantile_ms(model.slo.quantile);
    let verified = Verified {
        predicted_limit_hz,
        limit_hz: limit.rate_hz,
        offered_hz: rate_hz,
        measured_p95_ms,
        predicted_p95_ms: model.p95_ms(rate_hz),
    };
    recorder.result(in_words(&verified));
    Ok(verified)
}

/// The response times at a rate, of the steps that count.
fn below(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    rate_hz: f64,
    time: Duration,
) -> Result<LatencyHistogram, ExperimentError> {
    let mut response = LatencyHistogram::default();
    for nth in 0..STEPS {
        recorder.check_stop()?;
        let mut step = Step::at_rate("plan: verify", rate_hz, time / STEPS, SEED + u64::from(nth));
        step.may_abort = false;
        let load = testbed.measure(arm, &step)?;
        recorder.result(format!("{}: {}", step.purpose, load.describe()));
        say_when_invalid(recorder, &load);
        if load.validity.is_valid() {
            response.merge(&load.response);
        }
        recorder.trial(&step.purpose, arm, load);
    }
    Ok(response)
}

fn in_words(verified: &Verified) -> String {
    let limit = format!(
        "R* was predicted {} off ({} measured)",
        format_share(verified.limit_off()),
        format_rate(verified.limit_hz.estimate)
    );
    match verified.measured_p95_ms.zip(verified.p95_off()) {
        Some((measured_ms, off)) => format!(
            "{limit}, and the p95 at {} {} off ({} measured)",
            format_rate(verified.offered_hz),
            format_share(off),
            format_ms(measured_ms)
        ),
        None => limit,
    }
}
