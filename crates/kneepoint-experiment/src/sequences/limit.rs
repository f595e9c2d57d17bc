//! Finding R* of an arm: asks the search what to measure, measures it, and writes the limit down.

mod dry_run;

use crate::error::ExperimentError;
use crate::record::{BASE, Record, Recorder, TimeNeed, in_words};
use crate::sequences::Subject;
use crate::testbed::Testbed;
pub use dry_run::{SimulatedMachine, dry_run};
use kneepoint_model::Scenario;
use kneepoint_model::run::LimitResult;
use kneepoint_model::units::{format_ms, format_share};
use kneepoint_planner::bench::Bench;
use kneepoint_planner::limit::{LimitMove, LimitOptions, LimitSearch};
use std::time::Duration;

/// Time for the load of a limit when nobody says how long it may take.
pub const USUAL_TIME: Duration = Duration::from_secs(180);

/// Stands the scenario's stack up and finds its R*, within the time that was asked for.
///
/// # Errors
/// The stack cannot be stood up, the load cannot be driven, or somebody asked to stop.
pub fn limit(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    scenario: &Scenario,
    asked: Option<Duration>,
    seed: u64,
) -> Result<(), ExperimentError> {
    let least = LimitOptions::least();
    recorder.keep_to(asked, &TimeNeed::all_the_same("a limit", least));
    testbed.stand_up_base(scenario, recorder)?;
    recorder.stage("Limit: the highest rate at which the SLO holds");
    let workers = testbed.saturating_workers(BASE)?;
    let left = asked.map(|_| recorder.left_to_measure(least));
    let options = options(left, workers, seed);
    find_limit(testbed, recorder, Subject::named(BASE), options).map(drop)
}

/// The search that the time left allows: all of method.md's where there are five minutes for it.
fn options(left: Option<Duration>, workers: u32, seed: u64) -> LimitOptions {
    let options = match left {
        Some(left) => LimitOptions::by(left, workers),
        None => LimitOptions::within(USUAL_TIME, workers),
    };
    LimitOptions { seed, ..options }
}

/// Finds the limit of an arm and writes it down.
///
/// # Errors
/// The arm is gone, the load cannot be driven, or somebody asked to stop.
pub fn find_limit<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    subject: Subject<'_>,
    options: LimitOptions,
) -> Result<(LimitResult, f64), ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    find_limit_in_turns(bench, recorder, subject, options, |_, _| Ok(()))
}

/// The same, in turns with something else: `beside` is called after each step.
///
/// # Errors
/// The same, or what `beside` fails with.
pub fn find_limit_in_turns<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    subject: Subject<'_>,
    options: LimitOptions,
    beside: impl FnMut(&mut B, &mut Recorder<'_>) -> Result<(), ExperimentError>,
) -> Result<(LimitResult, f64), ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    let mut search = LimitSearch::of(bench, options);
    let result = search_in_turns(bench, recorder, subject, &mut search, beside)?;
    Ok((result, search.slope()))
}

/// Goes on with a search until it is done, and writes the limit down.
///
/// # Errors
/// As [`find_limit`].
pub fn search_limit<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    subject: Subject<'_>,
    search: &mut LimitSearch,
) -> Result<LimitResult, ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    search_in_turns(bench, recorder, subject, search, |_, _| Ok(()))
}

fn search_in_turns<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    subject: Subject<'_>,
    search: &mut LimitSearch,
    mut beside: impl FnMut(&mut B, &mut Recorder<'_>) -> Result<(), ExperimentError>,
) -> Result<LimitResult, ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    let Subject { arm, label } = subject;
    let whole = search.options().takes();
    let only_looks = search.options().soak.is_zero();
    let configuration = in_words(recorder.run(), label);
    let began = bench.now();
    while let LimitMove::Measure(step) = search.next_move() {
        recorder.check_stop()?;
        let share = search.progress();
        recorder.progress(
            &format!("{configuration}: {}", step.purpose),
            share,
            Some(whole.mul_f64(1.0 - share)),
        );
        let (point, canary) = bench.measure_with_canary(arm, &step)?;
        recorder.result(format!("{}: {}", step.purpose, point.describe()));
        recorder.say_when_invalid(&point);
        search.at(bench.now() - began);
        search.record(&point, canary);
        search.written_as(recorder.trial(&step.purpose, label, point));
        beside(bench, recorder)?;
    }
    let mut result = search.result(label);
    if let Some(noise) = &mut result.noise {
        noise.reference_ms = bench.canary_ms();
    }
    if !only_looks || result.serves_nothing() {
        for warning in &result.warnings {
            recorder.warn(warning.clone());
        }
    }
    if !result.serves_nothing() {
        let its_limit = subject.its_limit(recorder.run());
        recorder.result(found(&its_limit, &result));
    }
    recorder.write(Record::Limit(result.clone()));
    Ok(result)
}

/// `R* is 38.5/s (95 %: 37.2/s to 39.8/s), bound by p95; 18 steps, ...`.
fn found(its_limit: &str, result: &LimitResult) -> String {
    if let Some(missed) = result.missed_alone {
        return format!("no rate meets the SLO: {}", missed.in_words());
    }
    let (rate, unit) = (result.rate_hz, result.unit());
    let besides = result.besides_visits();
    format!(
        "{its_limit} is {} (95 %: {} to {}{}), bound by {}; {} steps, {}{}",
        unit.format(rate.estimate),
        unit.format(rate.low),
        unit.format(rate.high),
        besides.map_or_else(String::new, |besides| format!("; that is {besides}")),
        result.bound_by,
        result.steps.len(),
        confirmed(result),
        at_reference(result),
    )
}

/// What the longer stretch of load said, in words: of its own rate, which may be far below R*.
fn confirmed(result: &LimitResult) -> String {
    if result.soak_arrivals == 0 {
        return "not confirmed by a longer stretch".to_owned();
    }
    format!(
        "a longer stretch at {} {}: {} of {} requests failed",
        result.unit().format(result.soak_hz),
        match result.soak_held {
            true => "held",
            false => "did not confirm it",
        },
        result.soak_failed,
        result.soak_arrivals
    )
}

/// R* at reference speed in words; nothing where the speed was not measured.
fn at_reference(result: &LimitResult) -> String {
    let Some((rate, noise)) = result.reference_hz.zip(result.noise) else {
        return String::new();
    };
    let cpu = noise.cpu_ms.map_or_else(String::new, |ms| {
        format!("; a request took {} of CPU", format_ms(ms))
    });
    format!(
        "{cpu}; at the machine's reference speed {} (95 %: {} to {}), and the machine's speed varied by {}",
        result.unit().format(rate.estimate),
        result.unit().format(rate.low),
        result.unit().format(rate.high),
        format_share(noise.speed_sd.unwrap_or(0.0))
    )
}
