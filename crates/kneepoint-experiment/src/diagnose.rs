//! Gathers the evidence at low load, at the limit and beyond it, lets the rules judge, and confirms what they
//! suspect by an intervention.

mod phases;
mod time;

use crate::ab::Verdict;
use crate::bench::Bench;
use crate::compare::{Ground, compare_for, describe_settings};
use crate::error::ExperimentError;
use crate::limit::{LimitMove, LimitOptions, LimitSearch};
use crate::recorder::Recorder;
use crate::store::Record;
use crate::testbed::Testbed;
use crate::tune::budget::Costs;
use kneepoint_diagnosis::Evidence;
use kneepoint_model::run::LimitResult;
use kneepoint_model::units::{format_ms, format_share};
use kneepoint_model::{Confidence, Effect, Finding, LoadPoint, Scenario, Setting};
pub(crate) use phases::gather;
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
        search.written_as(recorder.trial(&step.purpose, label, point));
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
    recorder.write(Record::Limit(result.clone()));
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
    let mut findings = kneepoint_diagnosis::diagnose(&evidence);
    found_at(&mut findings, label);
    report_findings(recorder, &findings);
    report_unjudged(recorder, &evidence);
    recorder.findings(&findings);
    Ok((evidence, findings))
}

/// Notes at which configuration findings were made.
pub(crate) fn found_at(findings: &mut [Finding], label: &str) {
    for finding in findings {
        label.clone_into(&mut finding.arm);
    }
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
            .filter(|known| known.is_same_cause(finding))
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
    others.retain(|other| !findings.iter().any(|known| known.is_same_cause(other)));
    if let Some(known) = findings.first() {
        found_at(&mut others, &known.arm);
    }
    others
}
