//! `replay`: a field report's stages side by side, under the report's own load, in turns.
//!
//! The first stage is diagnosed before anything else, by the same code as `diagnose`, which knows nothing of the report:
//! what it names first is then held against the report's cause. Then every stage of a round is offered the same load,
//! in random order, so that what the machine does, it does to all; a claim is judged by the ratio of two stages within
//! rounds.

mod sockets;

use crate::error::ExperimentError;
use crate::record::{BASE, Record, Recorder};
use crate::sequences::Subject;
use crate::sequences::compare::{cores, cpu_s, survived};
use crate::sequences::diagnose::gather;
use crate::sequences::findings::{found_at, report_findings};
use crate::sequences::limit::find_limit;
use crate::sequences::plan::{PlanOptions, plan};
use crate::testbed::Testbed;
use crate::worker_insight::Fpm;
use kneepoint_load::Mode;
use kneepoint_model::contest::Carried;
use kneepoint_model::replay::{Diagnosed, Hosts, Measure, Named, Replay, Stage};
use kneepoint_model::{CallKind, Finding, Layer, LoadPoint, Scenario, Validity, metric};
use kneepoint_planner::capacity::Asked;
use kneepoint_planner::limit::LimitOptions;
use kneepoint_planner::rounds::{StageValues, describe, shuffled};
use kneepoint_schedules::ImportedLoad;
use kneepoint_stack::StackError;
use std::time::Duration;

/// Load time of the search for R* of a stage that is diagnosed: it only says where to look.
const LIMIT_TIME: Duration = Duration::from_secs(45);
/// Length of a step of the plan at low load.
const PLAN_STEP: Duration = Duration::from_secs(6);
/// Rounds that do not count are made up for by as many times the rounds at most.
const MOST_ROUNDS: u32 = 2;

/// What is to be replayed.
#[derive(Debug, Clone)]
pub struct Played {
    /// The report, its stages and claims without what is measured.
    pub replay: Replay,
    /// The stages' stacks, in the same order.
    pub stages: Vec<Staged>,
    /// The loads, in the same order.
    pub loads: Vec<Offered>,
    /// Hosts of the first stage that the report replaced by so many of the last.
    pub hosts: Option<(f64, f64)>,
    /// What the last stage is planned for.
    pub asked: Option<Asked>,
}

/// The stack of a stage.
#[derive(Debug, Clone)]
pub struct Staged {
    /// Its configuration.
    pub scenario: Scenario,
    /// The report's cause as codes, any of which is right; `None` where the stage is not diagnosed.
    pub cause: Option<Vec<String>>,
    /// Codes that must be among the findings besides.
    pub also: Vec<String>,
}

/// A load of the report.
#[derive(Debug, Clone)]
pub struct Offered {
    /// When requests start.
    pub profile: ImportedLoad,
    /// When a closed loop ends at the latest.
    pub longest: Duration,
}

impl Offered {
    fn mode(&self) -> Mode {
        match self.profile.clone() {
            ImportedLoad::Open {
                schedule, arrivals, ..
            } => Mode::Open { schedule, arrivals },
            ImportedLoad::Closed(mut closed) => {
                closed.duration = closed.duration.min(self.longest);
                Mode::Closed(closed)
            }
        }
    }
}

/// Replays a report.
///
/// # Errors
/// A stage cannot be stood up, the load cannot be driven, or somebody asked to stop. One that dies under load is a
/// result and no error.
pub fn replay(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    played: &Played,
) -> Result<(), ExperimentError> {
    let mut replay = played.replay.clone();
    for nth in 0..played.stages.len() {
        stand_up(testbed, recorder, played, &mut replay.stages[nth], nth)?;
        if nth == 0 {
            testbed.introduce(&arm(0), recorder)?;
        }
        recorder.write(Record::Replay(Box::new(replay.clone())));
    }
    if asks_for(&replay, Measure::OpensPerRequest) {
        count_opens(testbed, recorder, &mut replay)?;
    }
    take_turns(testbed, recorder, played, &mut replay)?;
    if let Some((before, after)) = played.hosts {
        replay.hosts = Some(hosts(testbed, recorder, played, (before, after))?);
    }
    if let Some(asked) = played.asked {
        let last = arm(played.stages.len().saturating_sub(1));
        plan(testbed, recorder, &last, plan_options(asked))?;
    }
    recorder.write(Record::Replay(Box::new(replay)));
    Ok(())
}

/// The testbed's name for the nth stage.
fn arm(nth: usize) -> String {
    format!("stage{}", nth + 1)
}

/// Stands a stage up, and asks what binds it where that is wanted.
fn stand_up(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    played: &Played,
    stage: &mut Stage,
    nth: usize,
) -> Result<(), ExperimentError> {
    let staged = &played.stages[nth];
    recorder.stage(format!("Stand up: {}", stage.name));
    stage.carried = vec![Carried::default(); played.loads.len()];
    recorder.know(&staged.scenario);
    match testbed.stand_up(&arm(nth), &staged.scenario) {
        Ok(()) => {}
        // The others are worth measuring all the same.
        Err(ExperimentError::Stack(missing @ StackError::Missing { .. })) if nth > 0 => {
            recorder.warn(format!("{} is skipped: {missing}", stage.name));
            stage.last_words = Some(missing.to_string());
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    let tiers = testbed.stack(&arm(nth))?.tiers.iter();
    let tiers = tiers.map(|tier| format!("{} {} {}", tier.layer, tier.server, tier.version));
    stage.tiers = tiers.map(|tier| tier.trim_end().to_owned()).collect();
    let Some(cause) = &staged.cause else {
        return Ok(());
    };
    recorder.stage(format!(
        "What binds: {}, without being told what the report found",
        stage.name
    ));
    // The report draws the curves of `base`: what the replayed one began with.
    let label = if nth == 0 { BASE } else { &stage.name };
    let diagnosed = diagnose(testbed, recorder, nth, label)?;
    stage.diagnosed = diagnosed.map(|diagnosed| Diagnosed {
        cause: cause.clone(),
        also: staged.also.clone(),
        ..diagnosed
    });
    if let Some(diagnosed) = &stage.diagnosed {
        say_cause(recorder, diagnosed);
    }
    Ok(())
}

/// Finds the limit of a stage and lets the rules judge; nothing where it has none.
fn diagnose(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    nth: usize,
    label: &str,
) -> Result<Option<Diagnosed>, ExperimentError> {
    let arm = arm(nth);
    let subject = Subject { arm: &arm, label };
    let workers = testbed.saturating_workers(&arm)?;
    let options = LimitOptions::within(LIMIT_TIME, workers).unconfirmed();
    let (limit, _) = find_limit(testbed, recorder, subject, options)?;
    if limit.rate_hz.estimate <= 0.0 {
        recorder.warn(format!(
            "{label} holds the SLO at no load, so nothing can be diagnosed"
        ));
        return Ok(None);
    }
    let evidence = gather(testbed, recorder, subject, &limit)?;
    let mut findings = kneepoint_diagnosis::diagnose(&evidence);
    found_at(&mut findings, label);
    report_findings(recorder, &findings);
    // What binds a later stage is told with the stage: the run's findings are those of what the report began with.
    if nth == 0 {
        recorder.findings(&findings);
    }
    Ok(Some(Diagnosed {
        cause: Vec::new(),
        also: Vec::new(),
        found: findings.iter().map(named).collect(),
        limit: limit.rate_hz,
    }))
}

fn named(finding: &Finding) -> Named {
    // What is configured and what was measured, as the rules have them first.
    let seen = finding.seen.iter().take(2);
    let seen: Vec<&str> = seen.map(|seen| seen.what.as_str()).collect();
    Named {
        code: finding.code.clone(),
        title: finding.title.clone(),
        seen: seen.join("; "),
    }
}

fn say_cause(recorder: &mut Recorder<'_>, diagnosed: &Diagnosed) {
    let first = diagnosed.found.first();
    let first = first.map_or("nothing".to_owned(), |it| {
        format!("{} {}", it.code, it.title)
    });
    let cause = diagnosed.cause.join(" or ");
    recorder.result(match diagnosed.is_named_first() {
        None => format!("named first: {first}"),
        Some(true) => format!("named first: {first}, which is the report's cause"),
        Some(false) => format!("named first: {first}; the report's cause is {cause}"),
    });
}

fn asks_for(replay: &Replay, measure: Measure) -> bool {
    let reported = |stage: &Stage| stage.reported.contains_key(&measure);
    replay.stages.iter().any(reported) || replay.claims.iter().any(|it| it.measure == measure)
}

/// Counts the files that a request opens, at each stage that PHP-FPM serves.
fn count_opens(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    replay: &mut Replay,
) -> Result<(), ExperimentError> {
    recorder.stage("Count the files that a request opens");
    for (nth, stage) in replay.stages.iter_mut().enumerate() {
        recorder.check_stop()?;
        if stage.last_words.is_some() {
            continue;
        }
        let Some(fpm) = Fpm::of(testbed, &arm(nth))? else {
            continue;
        };
        match fpm.traced(testbed, &arm(nth), &stage.name)? {
            Err(why) => recorder.warn(format!("{}: not counted: {why}", stage.name)),
            Ok(calls) => {
                // A file that is opened is one that was there: a search along the include path fails many times.
                if let Some((opened, _)) = calls.per_request(CallKind::Open) {
                    stage.measured.insert(Measure::OpensPerRequest, opened);
                    recorder.result(format!("{}: {opened:.0} files a request", stage.name));
                }
                recorder.inside(None, Some(&calls));
            }
        }
    }
    Ok(())
}

fn take_turns(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    played: &Played,
    replay: &mut Replay,
) -> Result<(), ExperimentError> {
    recorder.stage("Rounds: every stage under the report's load, in turns");
    let mut values = StageValues::default();
    // One load after the other: what an overload leaves behind would be met by the turn after it.
    for at in 0..played.loads.len() {
        let asked = replay.loads[at].rounds;
        for round in 0..MOST_ROUNDS * asked {
            if !is_wanted(round, asked, values.fewest(at)) {
                break;
            }
            for nth in shuffled(replay.stages.len(), u64::from(round)) {
                if replay.stages[nth].last_words.is_some() {
                    continue;
                }
                recorder.check_stop()?;
                let (load, name) = (&replay.loads[at].name, &replay.stages[nth].name);
                let what = format!("{load}, round {} of {asked}: {name}", round + 1);
                let share = f64::from(round) / f64::from(asked);
                recorder.progress(&what, share.min(1.0), None);
                let place = (round, nth, at);
                turn(testbed, recorder, (played, replay), &mut values, place)?;
            }
            values.judge(replay);
            recorder.write(Record::Replay(Box::new(replay.clone())));
        }
    }
    for claim in &replay.claims {
        recorder.result(describe(claim));
    }
    Ok(())
}

/// Whether a load has another round: as many as were asked for, and more where some did not count.
fn is_wanted(round: u32, asked: u32, counted: usize) -> bool {
    round < asked || counted < asked as usize
}

/// One load at one stage.
fn turn(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    (played, replay): (&Played, &mut Replay),
    values: &mut StageValues,
    (round, nth, at): (u32, usize, usize),
) -> Result<(), ExperimentError> {
    let stage = &mut replay.stages[nth];
    let purpose = format!("replay: {}", replay.loads[at].name);
    let mode = played.loads[at].mode();
    let seed = 900 + u64::from(round);
    let driven = testbed.play(&arm(nth), mode, seed);
    let who = (stage.name.as_str(), &mut stage.last_words);
    let Some((point, recording)) = survived(recorder, who, driven)? else {
        return Ok(());
    };
    recorder.say_when_invalid(&point);
    recorder.result(format!("{}: {}", stage.name, point.describe()));
    let is_rising = is_rising(&played.loads[at].profile);
    let counted = if is_rising {
        believed(&point)
    } else {
        point.clone()
    };
    let series = &recording.series;
    let cores = cores(series);
    let cpu_s = cpu_s(&cores, point.window_s);
    let memory_bytes = series.max(Layer::Php, metric::PSS_BYTES);
    stage.carried[at].add(&counted, cpu_s, memory_bytes);
    if at == 0 && round == 0 {
        stage.cores = cores;
        stage.sockets = sockets::most(series);
    }
    let upstream = (at == 0).then(|| sockets::upstream(series)).flatten();
    if let Some(count) = upstream {
        let most = stage.measured.entry(Measure::UpstreamConnections);
        let most = most.or_insert(count);
        *most = most.max(count);
    }
    if counted.validity.is_valid() {
        let mut alone = Carried::default();
        alone.add(&counted, cpu_s, None);
        let borne = is_rising.then(|| borne_hz(&point)).flatten();
        values.record((nth, at, round), &alone, borne);
    }
    recorder.trial(&purpose, &stage.name, point);
    Ok(())
}

/// Whether a load rises until something gives: its end is an overload on purpose.
fn is_rising(profile: &ImportedLoad) -> bool {
    match profile {
        ImportedLoad::Closed(_) => false,
        ImportedLoad::Open { schedule, .. } => {
            let (first, last) = (schedule.segments.first(), schedule.segments.last());
            first
                .zip(last)
                .is_some_and(|(first, last)| last.to_hz > 2.0 * first.from_hz.max(0.5))
        }
    }
}

/// A rising load that was measured beyond what the machine bears leaves the generator late as well. Until where it was
/// borne is known all the same: from before that.
fn believed(point: &LoadPoint) -> LoadPoint {
    LoadPoint {
        validity: Validity::Valid,
        ..point.clone()
    }
}

/// Share of a second's requests that must meet the SLO for its rate to be borne.
const BORNE: f64 = 0.95;

/// The offered rate of the last second before two in a row that were not borne; the highest where there are none.
fn borne_hz(point: &LoadPoint) -> Option<f64> {
    // The last second is not a whole one.
    let (_, whole) = point.seconds.split_last()?;
    let is_borne =
        |second: &kneepoint_model::Second| second.good as f64 >= BORNE * second.offered as f64;
    let gave = whole
        .windows(2)
        .position(|pair| !is_borne(&pair[0]) && !is_borne(&pair[1]));
    let borne = &whole[..gave.unwrap_or(whole.len())];
    let most = borne.iter().map(|second| second.offered).max();
    Some(most.unwrap_or(0) as f64)
}

fn plan_options(asked: Asked) -> PlanOptions {
    PlanOptions {
        asked,
        step: PLAN_STEP,
        verify: None,
    }
}

/// Predicts what a host of the first and one of the last stage bear.
fn hosts(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    played: &Played,
    (before, after): (f64, f64),
) -> Result<Hosts, ExperimentError> {
    let mut bears = |nth| {
        plan(testbed, recorder, &arm(nth), plan_options(Asked::Limit)).map(|plan| plan.limit_hz)
    };
    let hosts = Hosts {
        before,
        after,
        before_hz: bears(0)?,
        after_hz: bears(played.stages.len().saturating_sub(1))?,
    };
    recorder.result(format!(
        "{before} hosts of the first stage serve as much as {} of the last; the report: {after}",
        hosts.needed()
    ));
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::{ClosedLoop, Second};

    fn ramp(good: &[u64]) -> LoadPoint {
        let seconds = good.iter().enumerate().map(|(at, good)| Second {
            at_s: at as f64,
            offered: 100 * (at as u64 + 1),
            good: *good,
            ..Second::default()
        });
        LoadPoint {
            seconds: seconds.collect(),
            ..LoadPoint::default()
        }
    }

    fn check(good: &[u64], expected: f64) {
        assert_eq!(borne_hz(&ramp(good)), Some(expected), "{good:?}");
    }

    #[test]
    fn a_rate_is_borne_until_two_seconds_in_a_row_are_not() {
        check(&[100, 200, 300, 10, 10, 10], 300.0);
        // One bad second is a hiccup.
        check(&[100, 10, 300, 400, 10], 400.0);
        check(&[10, 10, 10, 10], 0.0);
        // What comes after the load gave is not borne, even where it recovers.
        check(&[100, 10, 10, 400, 500, 600], 100.0);
    }

    #[test]
    fn rounds_that_do_not_count_are_made_up_for() {
        assert!(is_wanted(5, 6, 5));
        assert!(!is_wanted(6, 6, 6));
        assert!(is_wanted(6, 6, 4));
    }

    #[test]
    fn a_closed_loop_ends_in_time() {
        let offered = Offered {
            profile: ImportedLoad::Closed(ClosedLoop::new(350, Duration::from_secs(3600))),
            longest: Duration::from_secs(20),
        };
        assert_eq!(offered.mode().duration(), Duration::from_secs(20));
        assert!(!is_rising(&offered.profile));
    }
}
