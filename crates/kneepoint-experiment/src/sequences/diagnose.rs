//! Gathers the evidence at low load, at the limit and beyond it, lets the rules judge, and confirms what they
//! suspect by an intervention.

mod phases;
mod time;

use crate::error::ExperimentError;
use crate::record::{BASE, ENDING, Record, Recorder, TimeNeed};
use crate::sequences::Subject;
use crate::sequences::ab::{Compared, compare_for};
use crate::sequences::findings::{ask_what_else, found_at, report_findings};
use crate::sequences::limit::find_limit;
use crate::testbed::Testbed;
use kneepoint_diagnosis::Evidence;
use kneepoint_lab::LabError;
use kneepoint_model::run::{Decision, LimitResult};
use kneepoint_model::{Confidence, Effect, Finding, Layer, Scenario, Setting};
use kneepoint_planner::ab::Verdict;
use kneepoint_planner::comparison::{ComparisonBase, describe_settings};
use kneepoint_planner::limit::LimitOptions;
use kneepoint_planner::tune::Costs;
use kneepoint_stack::StackError;
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
/// their suspicions by an intervention. `judged_by` is shown what they judged by, where the stack bore load.
///
/// # Errors
/// The stack cannot be stood up, the load cannot be driven, or somebody asked to stop.
pub fn diagnose_and_confirm(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    scenario: &Scenario,
    asked: Option<Duration>,
    most: usize,
    judged_by: &mut dyn FnMut(&mut Recorder<'_>, &Evidence),
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
    judged_by(recorder, &evidence);
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

/// What is known of the effect of a change that was not tried.
pub(crate) fn untried(settings: &[Setting]) -> Effect {
    Effect {
        change: describe_settings(settings),
        settings: settings.to_vec(),
        quantity: "capacity".to_owned(),
        verdict: Verdict::Inconclusive,
        e_value: 1.0,
        ..Effect::default()
    }
}

/// A change that the stack failed with, and why: whoever reads the report is to know that there can be no verdict on it.
pub(crate) fn failed_change(
    code: &str,
    layer: Option<Layer>,
    settings: &[Setting],
    why: String,
) -> Decision {
    Decision {
        code: code.to_owned(),
        layer,
        settings: settings.to_vec(),
        effect: untried(settings),
        failed: true,
        reason: why,
        ..Decision::default()
    }
}

/// Says that the stack failed with a remedy, and writes it down among the changes.
pub(crate) fn failed(
    recorder: &mut Recorder<'_>,
    finding: &Finding,
    settings: &[Setting],
    why: String,
) {
    not_tried(recorder, finding, settings, &why);
    let layer = Some(finding.layer);
    recorder.decision(failed_change(&finding.code, layer, settings, why));
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
            error @ (ExperimentError::Died { .. }
            | ExperimentError::Unfit(_)
            | ExperimentError::Stack(_)
            | ExperimentError::Lab(_)),
        ) => Ok(Err(format!("{what}: {}", in_one_line(&error)))),
        Err(error) => Err(error),
    }
}

/// Why nothing came of a comparison.
#[derive(Debug, PartialEq)]
pub(crate) struct Broken {
    /// In words.
    pub(crate) why: String,
    /// Whether it may be the change that the stack failed with. Where the arm that it was compared with died, it is not.
    pub(crate) by_change: bool,
}

impl Broken {
    /// What becomes of the change: it failed, or it stays undecided.
    pub(crate) fn decision(
        self,
        code: &str,
        layer: Option<Layer>,
        settings: &[Setting],
    ) -> Decision {
        let mut decision = failed_change(code, layer, settings, self.why);
        if !self.by_change {
            decision.failed = false;
            CUT_SHORT.clone_into(&mut decision.effect.conditions);
        }
        decision
    }
}

/// As [`with_remedy`] of a comparison with the arm `beside`, of which nothing is known where that one died.
///
/// # Errors
/// As [`with_remedy`].
pub(crate) fn compared_beside<T>(
    outcome: Result<T, ExperimentError>,
    what: &str,
    beside: &str,
) -> Result<Result<T, Broken>, ExperimentError> {
    let by_change = !matches!(&outcome, Err(error) if error.is_death_of(beside));
    let what = if by_change { what } else { OTHER_DIED };
    let broken = |why| Broken { why, by_change };
    Ok(with_remedy(outcome, what)?.map_err(broken))
}

/// Says that nothing came of the comparison of a remedy, and writes it down among the changes. It takes no measurement back.
pub(crate) fn broke_off(
    recorder: &mut Recorder<'_>,
    finding: &Finding,
    settings: &[Setting],
    broken: Broken,
) {
    if broken.by_change {
        failed(recorder, finding, settings, broken.why);
        return;
    }
    recorder.change(format!(
        "{}: {}: {}",
        finding.code,
        describe_settings(settings),
        broken.why
    ));
    let mut decisions = recorder.run().decisions.iter();
    let is_measured = decisions
        .any(|it| it.answers(finding) && it.settings == settings && it.effect.was_measured());
    if !is_measured {
        recorder.decision(broken.decision(&finding.code, Some(finding.layer), settings));
    }
}

/// Last lines of what a server printed that are told: a cause, and that it ends for it \[ours\].
const LAST_LINES: usize = 3;
/// Most characters of a failure: it stands in a list \[ours\].
const MOST_CHARS: usize = 300;

/// A failure of the stack as one sentence. The lab's own files are not named: nobody finds them after the run.
fn in_one_line(error: &ExperimentError) -> String {
    let said = |tail: &str| match tail.lines().count() {
        0 => String::new(),
        lines => {
            let last = tail.lines().skip(lines.saturating_sub(LAST_LINES));
            format!("; it said: {}", last.collect::<Vec<_>>().join("\n"))
        }
    };
    let text = match error {
        ExperimentError::Lab(LabError::NotReady {
            process,
            because,
            tail,
            ..
        }) => format!("{process} did not become ready: {because}{}", said(tail)),
        ExperimentError::Lab(LabError::Ended {
            process, how, tail, ..
        }) => format!("{process} is not running: it {how}{}", said(tail)),
        ExperimentError::Stack(StackError::Refused { program, words, .. }) => {
            format!("{program} refuses its configuration: {words}")
        }
        other => other.to_string(),
    };
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.collect::<Vec<_>>().join("; ");
    match line.char_indices().nth(MOST_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// How standing up fails, and how a comparison does.
pub(crate) const DOES_NOT_START: &str = "the stack did not start with it";
pub(crate) const DOES_NOT_LAST: &str = "the stack could not be measured with it";
/// How one ends whose other arm died, and what that says of its pairs.
const OTHER_DIED: &str =
    "undecided, as the stack that it was compared with died, which says nothing of the change";
const CUT_SHORT: &str = "cut short, since the stack without it died";

/// Adds to a finding what the comparison of its remedy showed.
fn learn(finding: &mut Finding, compared: &Compared) {
    if compared.effect.verdict == Verdict::Better {
        finding.confidence = finding.confidence.max(Confidence::Confirmed);
    }
    finding.effects.extend(compared.other.clone());
    finding.effects.push(compared.effect.clone());
}

/// Says that no further remedy is tried, since there is no stack any more to compare it with.
fn none_is_tried(recorder: &mut Recorder<'_>, rest: &[(Finding, Vec<Setting>)]) {
    for (finding, settings) in rest {
        not_tried(recorder, finding, settings, "the stack without it died");
    }
}

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
            failed(recorder, finding, settings, why);
            continue;
        }
        costs.stood_up(recorder.elapsed() - began);
        let began = recorder.elapsed();
        let outcome = compare_for(testbed, recorder, (arm, "probe"), finding, settings, base);
        testbed.tear_down("probe");
        let compared = match compared_beside(outcome, DOES_NOT_LAST, arm)? {
            Ok(compared) => compared,
            Err(broken) => {
                let is_dead = !broken.by_change;
                broke_off(recorder, finding, settings, broken);
                if is_dead {
                    none_is_tried(recorder, &tries[nth + 1..]);
                    break;
                }
                continue;
            }
        };
        costs.compared(compared.effect.pairs, recorder.elapsed() - began);
        let same = |known: &&mut Finding| known.is_same_cause(finding);
        let known = findings.iter_mut().filter(same);
        known.for_each(|known| learn(known, &compared));
        recorder.findings(findings);
    }
    ask_what_else(recorder, evidence, findings);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::run::{Run, Standing};

    /// What is said of a stack that does not start for this reason.
    fn check(error: ExperimentError, expected: &str) {
        let stood: Result<(), ExperimentError> = Err(error);
        let why = with_remedy(stood, DOES_NOT_START).expect("the run goes on");
        let expected = format!("the stack did not start with it: {expected}");
        assert_eq!(why, Err(expected));
    }

    #[test]
    fn how_a_stack_fails_is_told_in_one_line_without_the_labs_files() {
        let refused = StackError::Refused {
            program: "nginx",
            file: "/tmp/lab/v3-web/nginx.conf".into(),
            words: "invalid value \"x\"\n  the test failed\n".into(),
        };
        check(
            refused.into(),
            "nginx refuses its configuration: invalid value \"x\"; the test failed",
        );
        let not_ready = |tail: &str| LabError::NotReady {
            process: "php fpm".into(),
            because: "it exited with code 78 after 0.1 s".into(),
            output: "/tmp/lab/v3-php/out".into(),
            tail: tail.into(),
        };
        let ready = "php fpm did not become ready: it exited with code 78 after 0.1 s";
        check(not_ready("").into(), ready);
        let told = format!("{ready}; it said: b; c; d");
        check(not_ready("a\nb\nc\nd").into(), &told);
        let long = "e".repeat(2 * MOST_CHARS);
        let cut = format!("{}...", "e".repeat(MOST_CHARS));
        check(ExperimentError::Unfit(long), &cut);
    }

    #[test]
    fn a_change_is_not_blamed_where_the_stack_without_it_died() {
        let settings = [Setting::new(Layer::Php, "pm.max_children", 900)];
        let ended = |arm: Option<&str>| {
            let died: Result<(), _> = Err(ExperimentError::Died {
                arm: arm.map(str::to_owned),
                words: "php died".into(),
            });
            let outcome = compared_beside(died, DOES_NOT_LAST, "base").expect("the run goes on");
            let broken = outcome.expect_err("nothing was compared");
            broken.decision("FPM-01", Some(Layer::Php), &settings)
        };
        let base = ended(Some("base"));
        assert_eq!((base.standing(), base.failed), (Standing::Undecided, false));
        let said = format!("{OTHER_DIED}: php died");
        assert_eq!(base.reason, said);
        for arm in [Some("probe"), None] {
            let decision = ended(arm);
            assert_eq!(decision.standing(), Standing::NotTried);
            assert!(decision.failed);
            assert_eq!(decision.reason, format!("{DOES_NOT_LAST}: php died"));
        }
    }

    #[test]
    fn what_is_no_failure_of_the_stack_ends_the_run() {
        let stopped: Result<(), ExperimentError> = Err(ExperimentError::Interrupted);
        assert!(with_remedy(stopped, DOES_NOT_START).is_err());
    }

    #[test]
    fn a_change_that_the_stack_fails_with_is_among_the_changes_as_not_tried() {
        let settings = [Setting::new(Layer::Php, "pm.max_children", 900)];
        let why = format!("{DOES_NOT_START}: it ran out of memory");
        let layer = Some(Layer::Php);
        let mut run = Run::default();
        run.decide(failed_change("FPM-01", layer, &settings, why.clone()));
        let told = &run.decisions[0];
        assert_eq!(told.standing(), Standing::NotTried);
        assert_eq!((told.failed, told.kept), (true, false));
        assert_eq!(told.reason, why);
        assert_eq!(told.effect.change, "php.pm.max_children = 900");
    }
}
