//! Gathers the evidence at low load, at the limit and beyond it, lets the rules judge, and confirms what they
//! suspect by an intervention.

mod phases;
mod time;

use crate::error::ExperimentError;
use crate::record::{BASE, ENDING, Record, Recorder, TimeNeed};
use crate::sequences::Subject;
use crate::sequences::ab::compare_for;
use crate::sequences::findings::{ask_what_else, found_at, report_findings};
use crate::sequences::limit::find_limit;
use crate::testbed::Testbed;
use kneepoint_diagnosis::Evidence;
use kneepoint_model::run::LimitResult;
use kneepoint_model::{Confidence, Finding, Scenario, Setting};
use kneepoint_planner::ab::Verdict;
use kneepoint_planner::comparison::{ComparisonBase, describe_settings};
use kneepoint_planner::limit::LimitOptions;
use kneepoint_planner::tune::Costs;
pub(crate) use phases::gather;
use std::time::Duration;
use time::DiagnosisTime;

/// Load time for the limit that a diagnosis starts from, when nobody says how long all may take: it needs the rate, not the
/// last percent. Of 80 simulated searches on a quiet machine, four in five end within 5 % of the true limit, and all within
/// 12 %; 10 s more bring that to 4 % and 7 % \[ours\].
const LIMIT_TIME: Duration = Duration::from_secs(25);
/// Most pairs of an intervention.
const PAIRS: usize = 10;

/// Stands the scenario's stack up, finds its limit, lets the rules judge what binds there, and confirms at most so many of
/// their suspicions by an intervention.
///
/// # Errors
/// The stack cannot be stood up, the load cannot be driven, or somebody asked to stop.
pub fn diagnose_and_confirm(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    scenario: &Scenario,
    asked: Option<Duration>,
    most: usize,
) -> Result<(), ExperimentError> {
    let subject = Subject::named(BASE);
    let least = DiagnosisTime::least();
    recorder.keep_to(asked, &TimeNeed::all_the_same("a diagnosis", least));
    testbed.stand_up_base(scenario, recorder)?;
    recorder.stage("Limit: where to look");
    let workers = testbed.saturating_workers(BASE)?;
    let options = match asked {
        Some(_) => {
            let left = recorder.left_to_measure(least);
            LimitOptions::by(DiagnosisTime::of(left, most).limit, workers)
        }
        None => LimitOptions::within(LIMIT_TIME, workers),
    };
    let (limit, slope) = find_limit(testbed, recorder, subject, options.unconfirmed())?;
    if limit.rate_hz.estimate <= 0.0 {
        return Ok(());
    }
    recorder.stage("Diagnose: which tier and which cause bind");
    let (evidence, mut findings) = diagnose(testbed, recorder, subject, &limit)?;
    let base = ComparisonBase::of(&limit, slope, PAIRS);
    let found = (&evidence, findings.as_mut_slice());
    confirm(testbed, recorder, BASE, scenario, found, base, most)
}

/// Drives the phases at an arm and lets the rules judge. The findings are written down as they are:
/// suspected at most.
///
/// # Errors
/// The arm is gone, the load cannot be driven, or somebody asked to stop.
pub fn diagnose(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    subject: Subject<'_>,
    limit: &LimitResult,
) -> Result<(Evidence, Vec<Finding>), ExperimentError> {
    let evidence = gather(testbed, recorder, subject, limit)?;
    let mut findings = kneepoint_diagnosis::diagnose(&evidence);
    found_at(&mut findings, subject.label);
    report_findings(recorder, &findings);
    report_unjudged(recorder, &evidence);
    recorder.findings(&findings);
    if let Some(order) = kneepoint_diagnosis::mending(&evidence, &findings) {
        recorder.write(Record::Mending(Box::new(order)));
    }
    Ok((evidence, findings))
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

/// Says that a remedy is not tried, and why.
pub(crate) fn not_tried(
    recorder: &mut Recorder<'_>,
    finding: &Finding,
    settings: &[Setting],
    why: &str,
) {
    recorder.change(format!(
        "{}: {} is not tried: {why}",
        finding.code,
        describe_settings(settings)
    ));
}

/// What came of the stack with a remedy, or why the stack failed, in words: what was measured before is not lost with it.
///
/// # Errors
/// It is not the stack that failed: somebody asked to stop, the load cannot be driven, nothing can be written down any more.
pub(crate) fn with_remedy<T>(
    outcome: Result<T, ExperimentError>,
    what: &str,
) -> Result<Result<T, String>, ExperimentError> {
    match outcome {
        Ok(measured) => Ok(Ok(measured)),
        Err(
            error @ (ExperimentError::Died(_)
            | ExperimentError::Unfit(_)
            | ExperimentError::Stack(_)
            | ExperimentError::Lab(_)),
        ) => Ok(Err(format!("{what}: {error}"))),
        Err(error) => Err(error),
    }
}

/// How standing up fails, and how a comparison does.
pub(crate) const DOES_NOT_START: &str = "the stack does not start with it";
pub(crate) const DOES_NOT_LAST: &str = "the stack could not be measured with it";

/// Confirms suspected findings by interventions: the remedy is set on a second arm and the two are compared.
/// At most `most` findings are tried, and those that the budget leaves no time for are named.
///
/// # Errors
/// As [`compare`].
fn confirm(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    arm: &str,
    scenario: &Scenario,
    (evidence, findings): (&Evidence, &mut [Finding]),
    base: ComparisonBase,
    most: usize,
) -> Result<(), ExperimentError> {
    testbed.try_remedies();
    let mut costs = Costs::default();
    let tries: Vec<(Finding, Vec<Setting>)> = worth_trying(findings, Confidence::Suspected)
        .take(most)
        .map(|(finding, settings)| (finding.clone(), settings.to_vec()))
        .collect();
    for (nth, (finding, settings)) in tries.iter().enumerate() {
        let objections = kneepoint_diagnosis::remedy_guard(evidence, settings);
        if !objections.is_empty() {
            not_tried(recorder, finding, settings, &objections.join("; "));
            continue;
        }
        let Some(base) = time::in_time(base, &costs, recorder.left(), tries.len() - nth) else {
            let needs = costs.shortest_comparison() + ENDING;
            let (left, needs) = (recorder.left().as_secs_f64(), needs.as_secs_f64());
            let why = format!("{left:.0} s left, and a comparison needs about {needs:.0} s");
            not_tried(recorder, finding, settings, &why);
            continue;
        };
        recorder.stage(format!(
            "Confirm {}: {}",
            finding.code,
            describe_settings(settings)
        ));
        let changed = scenario.with(settings).map_err(ExperimentError::Settings)?;
        let began = recorder.elapsed();
        let stood = with_remedy(testbed.stand_up("probe", &changed), DOES_NOT_START)?;
        if let Err(why) = stood {
            not_tried(recorder, finding, settings, &why);
            continue;
        }
        costs.stood_up(recorder.elapsed() - began);
        let began = recorder.elapsed();
        let outcome = compare_for(testbed, recorder, (arm, "probe"), finding, settings, base);
        testbed.tear_down("probe");
        let (verdict, effect) = match with_remedy(outcome, DOES_NOT_LAST)? {
            Ok(compared) => compared,
            Err(why) => {
                not_tried(recorder, finding, settings, &why);
                continue;
            }
        };
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
    ask_what_else(recorder, evidence, findings);
    Ok(())
}
