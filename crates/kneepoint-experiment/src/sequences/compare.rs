//! `compare`: several configurations on one bench, in turns.
//!
//! All stand side by side, warm. R* of each is searched first; then rounds follow, in each of which every contestant is
//! offered the same loads, in random order: one that all of them bear, one at the limit of the best of them, and a
//! closed loop at saturation; and each is loaded at once with the first, for what a request costs. What the machine does, it does to all. Differences are told by what [`kneepoint_planner::ab`] makes of
//! these, against the first contestant's of the same round.

pub mod variants;

use crate::error::ExperimentError;
use crate::record::{Record, Recorder};
use crate::sequences::Subject;
use crate::sequences::ab::both;
use crate::sequences::limit::find_limit;
use crate::sequences::tune::Tuner;
use crate::testbed::Testbed;
use kneepoint_model::contest::{Contest, Contestant, Profile};
use kneepoint_model::statistics::sequential::MIN_PAIRS;
use kneepoint_model::units::format_rate;
use kneepoint_model::{Layer, LoadPoint, Scenario, SeriesSet, Setting, metric};
use kneepoint_planner::ab::{self, Side};
use kneepoint_planner::bench::Step;
use kneepoint_planner::comparison::describe_effect;
use kneepoint_planner::limit::LimitOptions;
use kneepoint_planner::rounds::{RoundResults, differences, shuffled};
use std::collections::BTreeMap;
use std::time::Duration;

/// Share of the time that the searches for R* get.
const LIMITS_SHARE: f64 = 0.45;
/// Length of a step of a round (method.md section 2), and what it is cut to where time is short.
const STEP: Duration = Duration::from_secs(3);
const SHORT_STEP: Duration = Duration::from_secs(1);
/// What passes beside a step: rest, reset, the first look of telemetry.
const BESIDE: Duration = Duration::from_millis(700);
/// Kinds of steps in a round, the one of both at once included.
const STEPS_OF_A_ROUND: u32 = 4;
/// Rounds below which nothing can be told.
const FEWEST_ROUNDS: u32 = 6;
/// Where steps do not count there are more rounds: up to so many times as many.
const MOST_ROUNDS: u32 = 3;
/// The standard load, as a share of the smallest R*.
const STANDARD: f64 = 0.6;

/// Who takes part.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name; no two may have the same.
    pub name: String,
    /// Its configuration.
    pub scenario: Scenario,
    /// What tuning changed in it before.
    pub tuned: Vec<Setting>,
}

impl Entry {
    /// One that nothing was tuned of yet.
    #[must_use]
    pub fn as_configured(name: String, scenario: Scenario) -> Self {
        Self {
            name,
            scenario,
            tuned: Vec::new(),
        }
    }

    /// The scenario of the run in which it is tuned within a budget.
    #[must_use]
    pub fn to_tune(&self, budget: Duration) -> Scenario {
        let mut scenario = self.scenario.clone();
        scenario.budget.time = budget;
        scenario.name = format!("{}-{}", scenario.name, self.name);
        scenario
    }

    /// Tunes it on the testbed of [`Self::to_tune`], and takes the changes over that were kept.
    ///
    /// # Errors
    /// As [`Tuner::run`].
    pub fn tune(
        &mut self,
        testbed: &mut Testbed,
        recorder: &mut Recorder<'_>,
    ) -> Result<(), ExperimentError> {
        Tuner::new(testbed, recorder).run()?;
        let decisions = recorder.run().decisions.iter();
        let kept = decisions.filter(|decision| decision.kept);
        let tuned: Vec<Setting> = kept
            .flat_map(|decision| decision.settings.clone())
            .collect();
        self.scenario = self
            .scenario
            .with(&tuned)
            .map_err(ExperimentError::Settings)?;
        self.tuned = tuned;
        Ok(())
    }
}

/// Compares the entries; the first is what the others are compared with.
///
/// # Errors
/// An entry cannot be stood up, the load cannot be driven, or somebody asked to stop. One that dies under load is a
/// result and no error.
pub fn contest(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    entries: Vec<Entry>,
    time: Duration,
) -> Result<(), ExperimentError> {
    let mut contest = Contest {
        contestants: stand_up(testbed, recorder, &entries)?,
        ..Contest::default()
    };
    recorder.write(Record::Contest(Box::new(contest.clone())));
    let each = time.mul_f64(LIMITS_SHARE / entries.len().max(1) as f64);
    for contestant in &mut contest.contestants {
        search(testbed, recorder, contestant, each)?;
    }
    recorder.write(Record::Contest(Box::new(contest.clone())));
    let Some((standard_hz, stress_hz)) = rates(&contest.contestants) else {
        recorder.warn("R* of no contestant is known, so there is no load to compare them at");
        return Ok(());
    };
    let (rounds, step) = effort(
        time.mul_f64(1.0 - LIMITS_SHARE),
        contest.contestants.len() as u32,
    );
    contest.profiles = [("standard", standard_hz), ("stress", stress_hz)]
        .map(|(name, rate_hz)| Profile {
            name: name.to_owned(),
            rate_hz,
            rounds,
            step_s: step.as_secs_f64(),
        })
        .into();
    take_turns(testbed, recorder, &mut contest, (rounds, step))
}

/// How many rounds the time is enough for, and how long a step of them is.
fn effort(time: Duration, contestants: u32) -> (u32, Duration) {
    let steps = STEPS_OF_A_ROUND * contestants.max(1);
    let fewest = time / (steps * FEWEST_ROUNDS);
    let step = fewest.saturating_sub(BESIDE).clamp(SHORT_STEP, STEP);
    let rounds = time.as_secs_f64() / ((step + BESIDE) * steps).as_secs_f64();
    ((rounds as u32).max(FEWEST_ROUNDS), step)
}

fn stand_up(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    entries: &[Entry],
) -> Result<Vec<Contestant>, ExperimentError> {
    let mut contestants = Vec::new();
    for entry in entries {
        recorder.stage(format!("Stand up {}", entry.name));
        recorder.know(&entry.scenario);
        testbed.stand_up_timed(&entry.name, &entry.scenario)?;
        if contestants.is_empty() {
            testbed.tell_pages(&entry.name, recorder)?;
        }
        let stack = testbed.stack(&entry.name)?;
        let cold = testbed.cold_start(&entry.name)?;
        let tiers = stack.tiers.iter();
        let tiers = tiers.map(|tier| format!("{} {} {}", tier.layer, tier.server, tier.version));
        contestants.push(Contestant {
            name: entry.name.clone(),
            tiers: tiers.map(|tier| tier.trim_end().to_owned()).collect(),
            tuned: entry.tuned.clone(),
            start_ms: cold.start.map(|time| time.as_secs_f64() * 1e3),
            first_response_ms: cold.first_response.map(|time| time.as_secs_f64() * 1e3),
            carried: vec![Default::default(); 2],
            ..Contestant::default()
        });
    }
    Ok(contestants)
}

fn search(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    contestant: &mut Contestant,
    time: Duration,
) -> Result<(), ExperimentError> {
    let name = contestant.name.clone();
    recorder.stage(format!("Limit of {name}"));
    let workers = testbed.saturating_workers(&name)?;
    let options = LimitOptions::within(time, workers).unconfirmed();
    let found = find_limit(testbed, recorder, Subject::named(&name), options);
    let found = survived(recorder, (&name, &mut contestant.last_words), found)?;
    contestant.limit = found
        .map(|(limit, _)| limit.rate_hz)
        .filter(|rate| rate.estimate > 0.0);
    Ok(())
}

/// What was measured; nothing where the stack died of it, which is written down as its last words.
pub(crate) fn survived<T>(
    recorder: &mut Recorder<'_>,
    (name, last_words): (&str, &mut Option<String>),
    outcome: Result<T, ExperimentError>,
) -> Result<Option<T>, ExperimentError> {
    match outcome {
        Ok(measured) => Ok(Some(measured)),
        Err(ExperimentError::Died { words, .. }) => {
            recorder.result(format!("{name} did not survive: {words}"));
            *last_words = Some(words);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The rate that all bear, and the one that the best of them bears; nothing where no R* is known.
fn rates(contestants: &[Contestant]) -> Option<(f64, f64)> {
    let limits = || {
        let known = contestants.iter().filter_map(|it| it.limit.as_ref());
        known.map(|limit| limit.estimate)
    };
    let least = limits().min_by(f64::total_cmp)?;
    let most = limits().max_by(f64::total_cmp)?;
    Some((STANDARD * least, most))
}

fn take_turns(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    contest: &mut Contest,
    (rounds, length): (u32, Duration),
) -> Result<(), ExperimentError> {
    recorder.stage(format!(
        "Rounds: {} and {} offered to all, and saturation, in turns",
        format_rate(contest.profiles[0].rate_hz),
        format_rate(contest.profiles[1].rate_hz)
    ));
    let names: Vec<String> = contest
        .contestants
        .iter()
        .map(|it| it.name.clone())
        .collect();
    let mut workers = 8;
    for name in &names {
        workers = workers.max(testbed.saturating_workers(name)?);
    }
    let mut turns = RoundResults::new(names.len());
    let mut round = 0;
    while round < rounds || (round < MOST_ROUNDS * rounds && turns.fewest_pairs() < MIN_PAIRS) {
        for at in shuffled(names.len(), u64::from(round)) {
            recorder.check_stop()?;
            if contest.contestants[at].last_words.is_some() {
                continue;
            }
            let done = f64::from(round) / f64::from(rounds);
            let what = format!("round {} of {rounds}: {}", round + 1, names[at]);
            recorder.progress(&what, done.min(1.0), None);
            let profiles = contest.profiles.clone();
            let contestant = &mut contest.contestants[at];
            let seed = 700 + u64::from(round);
            let driven = offer(testbed, recorder, contestant, &profiles, seed);
            let driven = driven.and_then(|()| {
                let step = Step::saturating("compare: saturation", workers, length, seed);
                drive(testbed, recorder, &names[at], &step)
            });
            let who = (names[at].as_str(), &mut contestant.last_words);
            if let Some(point) = survived(recorder, who, driven)? {
                turns.record(round, at, &point);
            }
        }
        at_once(testbed, recorder, contest, (&mut turns, round, length))?;
        let conditions = format!(
            "{workers} closed-loop workers, {} s steps, in turns",
            length.as_secs_f64()
        );
        differences(&mut contest.contestants, &turns, &conditions);
        recorder.write(Record::Contest(Box::new(contest.clone())));
        round += 1;
    }
    say_differences(recorder, &contest.contestants);
    Ok(())
}

/// Loads each of the others at once with the first.
fn at_once(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    contest: &mut Contest,
    (turns, round, length): (&mut RoundResults, u32, Duration),
) -> Result<(), ExperimentError> {
    let names: Vec<String> = contest
        .contestants
        .iter()
        .map(|it| it.name.clone())
        .collect();
    for at in 1..names.len() {
        recorder.check_stop()?;
        let gone = |at: usize| contest.contestants[at].last_words.is_some();
        if gone(0) || gone(at) {
            continue;
        }
        let step = ab::both("compare: both at once", length, 900 + u64::from(round));
        let first = if round.is_multiple_of(2) {
            Side::A
        } else {
            Side::B
        };
        let driven = both(testbed, (&names[0], &names[at]), first, &step);
        let dead = whose_end(&driven, &names[0], at);
        let who = (
            names[dead].as_str(),
            &mut contest.contestants[dead].last_words,
        );
        if let Some(points) = survived(recorder, who, driven)? {
            for (name, point) in [&names[0], &names[at]].into_iter().zip(&points) {
                recorder.trial(&step.purpose, name, point.clone());
            }
            turns.record_both(round, at, points);
        }
    }
    Ok(())
}

/// Who died, where one of two did that were loaded at once: the first, or the one beside it.
fn whose_end<T>(driven: &Result<T, ExperimentError>, first: &str, other: usize) -> usize {
    match driven {
        Err(error) if error.is_death_of(first) => 0,
        _ => other,
    }
}

fn say_differences(recorder: &mut Recorder<'_>, contestants: &[Contestant]) {
    for contestant in contestants.iter().skip(1) {
        match &contestant.against_first {
            Some(effect) => {
                let words = describe_effect(effect);
                recorder.result(format!("{}: {words}", effect.change));
            }
            None if contestant.last_words.is_some() => {}
            None => recorder.warn(format!(
                "too few rounds of {} count to tell its difference: the generator was not sound. Run it again, or with \
                 more time",
                contestant.name
            )),
        }
    }
}

/// One step of each profile, watched.
fn offer(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    contestant: &mut Contestant,
    profiles: &[Profile],
    seed: u64,
) -> Result<(), ExperimentError> {
    for (profile, carried) in profiles.iter().zip(&mut contestant.carried) {
        let purpose = format!("compare: {}", profile.name);
        let step = Step {
            may_abort: false,
            ..Step::at_rate(
                &purpose,
                profile.rate_hz,
                Duration::from_secs_f64(profile.step_s),
                seed,
            )
        };
        let (point, recording) = testbed.observe(&contestant.name, &step, true)?;
        recorder.say_when_invalid(&point);
        let series = &recording.series;
        let cpu_s = cpu_s(&cores(series), point.window_s);
        let memory_bytes = series.max(Layer::Php, metric::PSS_BYTES);
        carried.add(&point, cpu_s, memory_bytes);
        recorder.trial(&purpose, &contestant.name, point);
    }
    Ok(())
}

/// Cores that each tier used, on average.
pub(crate) fn cores(series: &SeriesSet) -> BTreeMap<Layer, f64> {
    let used = Layer::TIERS
        .into_iter()
        .filter_map(|layer| Some((layer, series.rate(layer, metric::CPU_S)?)));
    used.collect()
}

/// CPU time of all tiers in seconds; nothing where none of them was measured.
pub(crate) fn cpu_s(cores: &BTreeMap<Layer, f64>, window_s: f64) -> Option<f64> {
    (!cores.is_empty()).then(|| cores.values().sum::<f64>() * window_s)
}

fn drive(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    name: &str,
    step: &Step,
) -> Result<LoadPoint, ExperimentError> {
    use kneepoint_planner::bench::Bench as _;
    let point = testbed.measure(name, step)?;
    recorder.say_when_invalid(&point);
    recorder.trial(&step.purpose, name, point.clone());
    Ok(point)
}

#[cfg(test)]
mod tests {
    use super::{effort, whose_end};
    use crate::error::ExperimentError;
    use std::time::Duration;

    fn check(time_s: u64, contestants: u32, rounds: u32, step_ms: u128) {
        let (found, step) = effort(Duration::from_secs(time_s), contestants);
        assert_eq!((found, step.as_millis()), (rounds, step_ms), "{time_s} s");
    }

    #[test]
    fn of_two_that_are_loaded_at_once_the_one_that_died_is_named() {
        let died = |arm: &str| {
            let words = "php died".to_owned();
            let arm = Some(arm.to_owned());
            Err::<(), _>(ExperimentError::Died { arm, words })
        };
        assert_eq!(whose_end(&died("fpm"), "fpm", 2), 0);
        assert_eq!(whose_end(&died("unit"), "fpm", 2), 2);
    }

    #[test]
    fn more_time_is_more_rounds_and_little_time_shorter_steps() {
        check(330, 2, 11, 3000);
        check(330, 5, 6, 2050);
        check(16, 2, 6, 1000);
        check(0, 2, 6, 1000);
    }
}
