//! Gathers the evidence at low load, at the limit and beyond it, lets the rules judge, and confirms what they
//! suspect by an intervention.

mod time;

use crate::ab::Verdict;
use crate::bench::{Bench, Step};
use crate::compare::{Ground, compare_for, describe_settings};
use crate::error::ExperimentError;
use crate::inside::{Fpm, Looked, with_cpu};
use crate::limit::{LimitMove, LimitOptions, LimitSearch};
use crate::recorder::Recorder;
use crate::testbed::Testbed;
use crate::tune::budget::Costs;
use kneepoint_diagnosis::{Evidence, Phase, PhaseKind};
use kneepoint_model::account::NativeAccount;
use kneepoint_model::run::{LimitResult, Observation};
use kneepoint_model::units::{format_ms, format_share};
use kneepoint_model::{
    Account, Confidence, Effect, Finding, LoadPoint, Scenario, Setting, Stack, StackProfile,
};
use kneepoint_profiler::{CpuProfile, Profile};
use kneepoint_telemetry::Recording;
use std::time::Duration;
pub use time::DiagnosisTime;

/// Finds the limit of an arm and writes it down.
///
/// # Errors
/// The arm is gone, the load cannot be driven, or somebody asked to stop.
pub fn find_limit<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    arm: &str,
    label: &str,
    options: LimitOptions,
) -> Result<(LimitResult, f64), ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    find_limit_in_turns(bench, recorder, arm, label, options, |_, _| Ok(()))
}

/// The same, in turns with something else: `beside` is called after each step.
///
/// # Errors
/// The same, or what `beside` fails with.
pub fn find_limit_in_turns<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    arm: &str,
    label: &str,
    options: LimitOptions,
    beside: impl FnMut(&mut B, &mut Recorder<'_>) -> Result<(), ExperimentError>,
) -> Result<(LimitResult, f64), ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    let mut search = LimitSearch::of(bench, options);
    let result = search_in_turns(bench, recorder, (arm, label), &mut search, beside)?;
    Ok((result, search.estimate().slope))
}

/// Goes on with a search until it is done, and writes the limit down.
///
/// # Errors
/// As [`find_limit`].
pub fn search_limit<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    (arm, label): (&str, &str),
    search: &mut LimitSearch,
) -> Result<LimitResult, ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    search_in_turns(bench, recorder, (arm, label), search, |_, _| Ok(()))
}

fn search_in_turns<B: Bench>(
    bench: &mut B,
    recorder: &mut Recorder<'_>,
    (arm, label): (&str, &str),
    search: &mut LimitSearch,
    mut beside: impl FnMut(&mut B, &mut Recorder<'_>) -> Result<(), ExperimentError>,
) -> Result<LimitResult, ExperimentError>
where
    ExperimentError: From<B::Error>,
{
    let whole = search.options().takes();
    let only_looks = search.options().soak.is_zero();
    let began = bench.now();
    while let LimitMove::Measure(step) = search.next_move() {
        recorder.check_stop()?;
        let share = search.progress();
        recorder.progress(
            &format!("{label}: {}", step.purpose),
            share,
            Some(whole.mul_f64(1.0 - share)),
        );
        let (point, canary) = bench.measure_with_canary(arm, &step)?;
        recorder.result(format!("{}: {}", step.purpose, point.describe()));
        say_when_invalid(recorder, &point);
        search.at(bench.now() - began);
        search.record(&point, canary);
        recorder.trial(&step.purpose, label, point);
        beside(bench, recorder)?;
    }
    let mut result = search.result(label);
    if let Some(noise) = &mut result.noise {
        noise.reference_ms = bench.canary_ms();
    }
    if !only_looks || result.rate_hz.estimate <= 0.0 {
        for warning in &result.warnings {
            recorder.warn(warning.clone());
        }
    }
    let (rate, unit) = (result.rate_hz, result.unit());
    let besides = result.besides_visits();
    recorder.result(format!(
        "R* of {label} is {} (95 %: {} to {}{}), bound by {}; {} steps, {}{}",
        unit.format(rate.estimate),
        unit.format(rate.low),
        unit.format(rate.high),
        besides.map_or_else(String::new, |besides| format!("; that is {besides}")),
        result.bound_by,
        result.steps.len(),
        confirmed(&result),
        at_reference(&result),
    ));
    recorder.limit(result.clone());
    Ok(result)
}

/// What the longer stretch of load said, in words.
fn confirmed(result: &LimitResult) -> String {
    if result.soak_arrivals == 0 {
        return "not confirmed by a longer stretch".to_owned();
    }
    format!(
        "{} over {} requests at {} with {} failed",
        if result.soak_held {
            "confirmed"
        } else {
            "not confirmed"
        },
        result.soak_arrivals,
        result.unit().format(result.soak_hz),
        result.soak_failed
    )
}

/// How far R* follows the machine's speed, by a limit; not at all where that is not known.
#[must_use]
pub fn speed_exponent(limit: &LimitResult) -> f64 {
    limit.noise.map_or(0.0, |noise| noise.speed_exponent)
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
        "{cpu}; at the machine's reference speed {} (95 %: {} to {}), its speed varied by {}",
        result.unit().format(rate.estimate),
        result.unit().format(rate.low),
        result.unit().format(rate.high),
        format_share(noise.speed_sd.unwrap_or(0.0))
    )
}

/// Says why a step does not count. The report sums such steps up from their own verdicts.
pub(crate) fn say_when_invalid(recorder: &mut Recorder<'_>, point: &LoadPoint) {
    if let kneepoint_model::Validity::Invalid { because } = &point.validity {
        recorder.result(format!("that step does not count: {}", because.join("; ")));
    }
}

/// The overload of the evidence, relative to R*.
const OVER: f64 = 1.3;

/// A phase of the evidence: its rate relative to R*, its length.
const PHASES: [(PhaseKind, f64, Duration); 4] = [
    (PhaseKind::Low, 0.3, Duration::from_secs(5)),
    (PhaseKind::Knee, 0.95, Duration::from_secs(8)),
    (PhaseKind::Repeat, 0.95, Duration::from_secs(5)),
    (PhaseKind::Over, OVER, Duration::from_secs(6)),
];

/// Drives the phases at an arm and lets the rules judge. The findings are written down as they are:
/// suspected at most.
///
/// # Errors
/// The arm is gone, the load cannot be driven, or somebody asked to stop.
pub fn diagnose(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    label: &str,
    limit: &LimitResult,
) -> Result<(Evidence, Vec<Finding>), ExperimentError> {
    let evidence = gather(testbed, recorder, arm, label, limit)?;
    let findings = kneepoint_diagnosis::diagnose(&evidence);
    report_findings(recorder, &findings);
    report_unjudged(recorder, &evidence);
    recorder.findings(&findings);
    Ok((evidence, findings))
}

/// Drives the phases at an arm: the evidence that rules judge by.
///
/// # Errors
/// As [`diagnose`].
pub(crate) fn gather(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    label: &str,
    limit: &LimitResult,
) -> Result<Evidence, ExperimentError> {
    let stack = testbed.stack(arm)?.clone();
    let fpm = Fpm::of(testbed, arm)?;
    let mut phases = Vec::new();
    let mut sampled = Vec::new();
    let shorter = shortened(recorder);
    let mut native = Vec::new();
    for (nth, (kind, share, length)) in PHASES.into_iter().enumerate() {
        recorder.check_stop()?;
        let length = length.mul_f64(shorter);
        let mut rate_hz = (limit.rate_hz.estimate * share).max(1.0);
        if kind == PhaseKind::Over {
            rate_hz = rate_hz.max(surely_over(limit));
        }
        let name = kind.name();
        let what = format!(
            "{label}: watching every layer at {name} load ({})",
            limit.unit().format(rate_hz)
        );
        recorder.progress(&what, nth as f64 / 5.0, None);
        let requests = limit.in_requests_hz(rate_hz) * length.as_secs_f64();
        let step = phase_step(kind, (rate_hz, requests), length, 77 + nth as u64);
        let driven = observe(testbed, recorder, (arm, fpm.as_ref()), &step, kind)?;
        if let Some((fpm, looked)) = fpm.as_ref().zip(driven.stacks) {
            let profile = said(recorder, "PHP stacks were not sampled", looked);
            let record =
                profile.map(|profile| fpm.record(profile, (name, label), &driven.observed.0));
            sampled.extend(record);
        }
        if let Some(looked) = driven.cpu {
            native = of_cpu(recorder, looked);
        }
        phases.push(write_down(
            recorder,
            &stack,
            label,
            (kind, &step.purpose),
            driven.observed,
        ));
    }
    let mut calls = None;
    if let Some(fpm) = fpm {
        let what = format!("{label}: tracing what each request does");
        recorder.progress(&what, 0.8, None);
        let looked = match time::for_the_trace(recorder.left()) {
            Ok(()) => fpm.traced(testbed, arm, label)?,
            Err(why) => Err(why),
        };
        calls = said(recorder, "requests were not traced", looked);
    }
    let knee_stacks = of_knee(&sampled);
    let stacks = with_slowest(sampled);
    recorder.inside(stacks.as_ref(), calls.as_ref());
    let evidence = Evidence {
        stack,
        slo: testbed.slo().clone(),
        machine: testbed.machine().clone(),
        phases,
        limit_hz: Some(limit.in_requests()),
        keep: testbed.scenario().budget.keep.clone(),
        memory_budget_bytes: testbed.scenario().budget.memory_bytes,
        calls,
        stacks,
        knee_stacks,
        native,
    };
    recorder.account(accounted(&evidence, label));
    Ok(evidence)
}

/// The share of their length that the phases have in the time left; says so where that is not all of it.
fn shortened(recorder: &mut Recorder<'_>) -> f64 {
    let shorter = time::shorter(recorder.left());
    if shorter < 1.0 {
        recorder.warn(format!(
            "the phases of the evidence are shortened to {} of their length, to end within the budget",
            format_share(shorter)
        ));
    }
    shorter
}

/// Whether stacks are sampled in a phase: beyond the limit all workers are at work, and just below it those requests are
/// slow that are so by themselves.
fn is_sampled(kind: PhaseKind) -> bool {
    matches!(kind, PhaseKind::Knee | PhaseKind::Over)
}

/// Where the CPU and a request's time went in a configuration.
fn accounted(evidence: &Evidence, label: &str) -> Account {
    Account {
        arm: label.to_owned(),
        ..kneepoint_diagnosis::account(evidence)
    }
}

/// What the CPU was used for; what should be known besides goes into the journal.
fn of_cpu(recorder: &mut Recorder<'_>, looked: Looked<CpuProfile>) -> Vec<NativeAccount> {
    let profile = said(recorder, "programs were not sampled", looked).unwrap_or_default();
    for note in profile.notes {
        recorder.result(format!("sampling programs: {note}"));
    }
    profile.accounts
}

/// The stacks just below the limit.
fn of_knee(sampled: &[StackProfile]) -> Option<StackProfile> {
    let knee = |profile: &&StackProfile| profile.phase == PhaseKind::Knee.name();
    sampled.iter().find(knee).cloned()
}

/// The stacks beyond the limit, with where the slowest requests of the knee were.
fn with_slowest(sampled: Vec<StackProfile>) -> Option<StackProfile> {
    let slow = sampled.iter().find_map(|profile| profile.slow.clone());
    let over = |profile: &StackProfile| profile.phase == PhaseKind::Over.name();
    let stacks = sampled.into_iter().find(over)?;
    Some(StackProfile { slow, ..stacks })
}

/// Share of the requests of the knee that are its slowest.
const SLOWEST: f64 = 0.05;
/// How many they are at least and at most.
const SLOWEST_REQUESTS: (f64, f64) = (5.0, 500.0);

/// The step that drives a phase, in which about so many requests come.
fn phase_step(
    kind: PhaseKind,
    (rate_hz, requests): (f64, f64),
    length: Duration,
    seed: u64,
) -> Step {
    Step {
        // The start is where pools that must grow and queues that must fill show: it belongs to the evidence.
        skip: Duration::ZERO,
        rested: kind != PhaseKind::Repeat,
        may_abort: false,
        slowest: match kind {
            PhaseKind::Knee => {
                (SLOWEST * requests).clamp(SLOWEST_REQUESTS.0, SLOWEST_REQUESTS.1) as usize
            }
            _ => 0,
        },
        ..Step::at_rate(&format!("diagnose: {}", kind.name()), rate_hz, length, seed)
    }
}

/// What a pass came to; why it could not be made goes into the journal.
fn said<T>(recorder: &mut Recorder<'_>, not_made: &str, looked: Looked<T>) -> Option<T> {
    looked
        .map_err(|why| recorder.result(format!("{not_made}: {why}")))
        .ok()
}

/// Writes a phase down: its step, and what telemetry saw.
fn write_down(
    recorder: &mut Recorder<'_>,
    stack: &Stack,
    label: &str,
    (kind, purpose): (PhaseKind, &str),
    (load, recording): (LoadPoint, Recording),
) -> Phase {
    let trial = recorder.trial(purpose, label, load.clone());
    for note in &recording.notes {
        recorder.warn(format!("telemetry: {note}"));
    }
    let phase = Phase {
        kind,
        load,
        series: recording.series,
        log: recording.log,
    };
    let waterfall = kneepoint_diagnosis::waterfall(&phase, stack);
    recorder.observation(Observation {
        phase: kind.name().to_owned(),
        arm: label.to_owned(),
        trial,
        series: phase.series.clone(),
        waterfall: Some(waterfall),
    });
    phase
}

/// A phase that was driven: what it came to, and the stacks that were sampled meanwhile, where they were.
struct Driven {
    observed: (LoadPoint, Recording),
    stacks: Option<Looked<Profile>>,
    /// What the CPUs did, where that was sampled.
    cpu: Option<Looked<CpuProfile>>,
}

/// Drives one phase and watches it.
fn observe(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    (arm, fpm): (&str, Option<&Fpm>),
    step: &Step,
    kind: PhaseKind,
) -> Result<Driven, ExperimentError> {
    let is_settled = kind != PhaseKind::Repeat;
    // Stacks belong to the attempt that counts: another one's requests have the same names.
    let may_repeat = time::for_another_look(recorder.left(), step.duration);
    let tiers = testbed.first_processes(arm)?;
    until_sound(kind, may_repeat, |_| {
        let mut drive = || match fpm.filter(|_| is_sampled(kind)) {
            Some(fpm) => {
                let (observed, looked) = fpm.sampled(|| testbed.observe(arm, step, is_settled));
                observed.map(|observed| (observed, Some(looked)))
            }
            None => testbed
                .observe(arm, step, is_settled)
                .map(|observed| (observed, None)),
        };
        let (driven, cpu) = match kind {
            PhaseKind::Knee => {
                let (driven, looked) = with_cpu(&tiers, &mut drive);
                (driven, Some(looked))
            }
            _ => (drive(), None),
        };
        let (observed, stacks) = driven?;
        say_when_invalid(recorder, &observed.0);
        let crowded = observed.0.health.foreign_share;
        let crowded = crowded.filter(|others| *others > CROWDED && kind != PhaseKind::Over);
        if let Some(others) = crowded {
            let others = format_share(others);
            recorder.result(format!("others used {others} of the machine meanwhile"));
        }
        let is_sound = observed.0.validity.is_valid() && crowded.is_none();
        let driven = Driven {
            observed,
            stacks,
            cpu,
        };
        Ok((driven, is_sound))
    })
}

/// What others may use of the machine before a phase is looked at once more: rules read who had the CPU from it, and no
/// correction tells them.
const CROWDED: f64 = 0.1;

/// Makes an attempt, and another one when the generator was not sound or others were at work, since evidence that came late
/// says nothing of the stack, and what others took looks like the stack's: the last is what counts, alone. An overload is taken as it is: it leaves the generator of a shared machine
/// little.
fn until_sound<T>(
    kind: PhaseKind,
    may_repeat: bool,
    mut attempt: impl FnMut(u32) -> Result<(T, bool), ExperimentError>,
) -> Result<T, ExperimentError> {
    let (first, is_sound) = attempt(1)?;
    if is_sound || kind == PhaseKind::Over || !may_repeat {
        return Ok(first);
    }
    attempt(2).map(|(second, _)| second)
}

/// Share of requests that violate the SLO from which on a load is plainly too much, whichever goal binds.
const PLAINLY: f64 = 0.05;

/// A load that is over the limit, whatever the limit is: where R* is known only roughly, 1.3 times the estimate may
/// still be a load the stack bears, and what breaks would not be seen. A few errors in a thousand, which bind R* of a
/// strict SLO, are as little to be seen, and may need a pool that has grown: then it is the lowest load that was seen
/// to fail plainly, and 1.3 times what saturates. No further than 1.3 times what was tried.
fn surely_over(limit: &LimitResult) -> f64 {
    let tried_hz = limit
        .steps
        .iter()
        .map(|(rate_hz, _, _)| *rate_hz)
        .fold(limit.saturation_hz, f64::max);
    let failed_hz = limit
        .rates_violating(PLAINLY..)
        .min_by(f64::total_cmp)
        .unwrap_or(0.0);
    let saturating_hz = match limit.bound_by.as_str() {
        "errors" => OVER * limit.saturation_hz,
        _ => 0.0,
    };
    let rate = limit.rate_hz;
    (OVER * rate.estimate)
        .max(rate.high.min(OVER * tried_hz))
        .max(failed_hz)
        .max(saturating_hz)
}

pub(crate) fn report_findings(recorder: &mut Recorder<'_>, findings: &[Finding]) {
    if findings.is_empty() {
        recorder.result("no rule found anything");
    }
    for finding in findings {
        let seen = finding
            .seen
            .first()
            .map_or(String::new(), |seen| format!(": {}", seen.what));
        recorder.result(format!(
            "{} {} ({}){seen}",
            finding.code,
            finding.title,
            finding.confidence.name()
        ));
    }
}

/// Says which rules could not judge, and for lack of what: their silence says nothing.
fn report_unjudged(recorder: &mut Recorder<'_>, evidence: &Evidence) {
    for (rule, lacking) in kneepoint_diagnosis::unjudged(evidence) {
        recorder.result(format!(
            "{} ({}) could not be judged: no numbers of {}",
            rule.code,
            rule.title,
            lacking.join(", ")
        ));
    }
}

/// The findings worth an intervention: those with settings that can be changed, of at least this confidence.
pub fn worth_trying(
    findings: &[Finding],
    least: Confidence,
) -> impl Iterator<Item = (&Finding, &[Setting])> {
    findings
        .iter()
        .filter(move |finding| finding.confidence >= least)
        .filter_map(|finding| {
            let settings = &finding.remedy.as_ref()?.settings;
            (!settings.is_empty()).then_some((finding, settings.as_slice()))
        })
}

/// Confirms suspected findings by interventions: the remedy is set on a second arm and the two are compared.
/// At most `most` findings are tried, and those that the budget leaves no time for are named.
///
/// # Errors
/// As [`compare`].
pub fn confirm(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    scenario: &Scenario,
    (evidence, findings): (&Evidence, &mut Vec<Finding>),
    ground: Ground,
    most: usize,
) -> Result<(), ExperimentError> {
    let mut costs = Costs::default();
    let tries: Vec<(Finding, Vec<Setting>)> = worth_trying(findings, Confidence::Suspected)
        .take(most)
        .map(|(finding, settings)| (finding.clone(), settings.to_vec()))
        .collect();
    for (nth, (finding, settings)) in tries.iter().enumerate() {
        let objections = kneepoint_diagnosis::remedy_guard(evidence, settings);
        if !objections.is_empty() {
            recorder.change(format!(
                "{}: {} is not tried: {}",
                finding.code,
                describe_settings(settings),
                objections.join("; ")
            ));
            continue;
        }
        let Some(ground) = time::in_time(ground, &costs, recorder.left(), tries.len() - nth) else {
            let needs = costs.shortest_comparison() + time::ENDING;
            recorder.change(format!(
                "{}: {} is not tried: {:.0} s left, and a comparison needs about {:.0} s",
                finding.code,
                describe_settings(settings),
                recorder.left().as_secs_f64(),
                needs.as_secs_f64()
            ));
            continue;
        };
        recorder.stage(format!(
            "Confirm {}: {}",
            finding.code,
            describe_settings(settings)
        ));
        let changed = scenario.with(settings).map_err(ExperimentError::Unfit)?;
        let began = recorder.elapsed();
        testbed.stand_up("probe", &changed)?;
        costs.stood_up(recorder.elapsed() - began);
        let began = recorder.elapsed();
        let outcome = compare_for(testbed, recorder, (arm, "probe"), finding, settings, ground);
        testbed.tear_down("probe");
        let (verdict, effect) = outcome?;
        costs.compared(effect.pairs, recorder.elapsed() - began);
        for known in findings
            .iter_mut()
            .filter(|known| known.code == finding.code)
        {
            if verdict == Verdict::Better {
                known.confidence = known.confidence.max(Confidence::Confirmed);
            }
            known.effects.push(effect.clone());
        }
        recorder.findings(findings);
    }
    let others = what_else(evidence, findings);
    if !others.is_empty() {
        recorder.result("what was suspected was tried in vain; what else it can be:");
        report_findings(recorder, &others);
        findings.extend(others);
        recorder.findings(findings);
    }
    Ok(())
}

/// What the rules say when those whose remedies were tried in vain are left out: the CPU that is used up, where it stood
/// back behind them.
fn what_else(evidence: &Evidence, findings: &[Finding]) -> Vec<Finding> {
    let in_vain = |finding: &&Finding| finding.effects.last().is_some_and(Effect::is_no_help);
    let refuted: Vec<&str> = findings
        .iter()
        .filter(in_vain)
        .map(|it| it.code.as_str())
        .collect();
    if refuted.is_empty() {
        return Vec::new();
    }
    let mut others = kneepoint_diagnosis::diagnose_without(evidence, &refuted);
    others.retain(|other| findings.iter().all(|known| known.code != other.code));
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an attempt saw that counts, where attempts are sound or not.
    fn check(kind: PhaseKind, sound: [bool; 2], expected: &[u32]) {
        check_in_time(kind, true, sound, expected);
    }

    fn check_in_time(kind: PhaseKind, may_repeat: bool, sound: [bool; 2], expected: &[u32]) {
        let attempt = |nth: u32| Ok((vec![nth], sound[nth as usize - 1]));
        let seen = until_sound(kind, may_repeat, attempt);
        assert_eq!(seen.expect("attempts"), expected, "{kind:?} {sound:?}");
    }

    #[test]
    fn without_time_for_another_look_the_first_counts() {
        check_in_time(PhaseKind::Knee, false, [false, true], &[1]);
    }

    #[test]
    fn what_an_unsound_attempt_saw_is_not_mixed_with_the_next() {
        check(PhaseKind::Knee, [true, true], &[1]);
        check(PhaseKind::Knee, [false, true], &[2]);
        check(PhaseKind::Knee, [false, false], &[2]);
    }

    #[test]
    fn an_overload_is_taken_as_it_is() {
        check(PhaseKind::Over, [false, true], &[1]);
    }
}
