//! The phases of the evidence: load below, at and beyond the limit, with every layer watched.

use super::time::{self, OVER, PHASES};
use crate::error::ExperimentError;
use crate::record::{Record, Recorder, in_words};
use crate::sequences::Subject;
use crate::testbed::Testbed;
use crate::worker_insight::{Fpm, Look, Looked, of_load, with_cpu};
use kneepoint_diagnosis::{Evidence, Phase, PhaseKind};
use kneepoint_model::account::NativeAccount;
use kneepoint_model::run::{Bound, LimitResult, Observation};
use kneepoint_model::units::format_share;
use kneepoint_model::{
    Account, CallTrace, LoadPoint, LockChains, Stack, StackProfile, lock_chains,
};
use kneepoint_planner::bench::Step;
use kneepoint_profiler::{CpuProfile, PhpProfile};
use kneepoint_telemetry::Recording;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Drives the phases at an arm: the evidence that rules judge by.
///
/// # Errors
/// As [`diagnose`].
pub(crate) fn gather(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    subject: Subject<'_>,
    limit: &LimitResult,
) -> Result<Evidence, ExperimentError> {
    let Subject { arm, label } = subject;
    let stack = testbed.stack(arm)?.clone();
    let fpm = Fpm::of(testbed, arm)?;
    let mut phases = Vec::new();
    let mut sampled = Vec::new();
    let shorter = shortened(recorder);
    let configuration = in_words(recorder.run(), label);
    let mut native = Vec::new();
    let mut chains = Vec::new();
    for (nth, (kind, share, length)) in PHASES.into_iter().enumerate() {
        recorder.check_stop()?;
        let length = length.mul_f64(shorter);
        let mut rate_hz = (limit.rate_hz.estimate * share).max(1.0);
        if kind == PhaseKind::Over {
            rate_hz = rate_hz.max(surely_over(limit));
        }
        let name = kind.name();
        let what = format!(
            "{configuration}: watching every tier at {name} load ({})",
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
        let begun_s = testbed.waited().as_secs_f64();
        let load_s = begun_s..=begun_s + driven.observed.0.window_s;
        chains.extend(of_locks(recorder, name, driven.locks, &load_s));
        phases.push(write_down(recorder, &stack, label, kind, driven.observed));
    }
    let calls = traced(testbed, recorder, subject, fpm)?;
    let knee_stacks = of_knee(&sampled);
    let stacks = with_slowest(sampled);
    recorder.inside(stacks.as_ref(), calls.as_ref());
    let app = testbed.app_facts(arm)?;
    let evidence = Evidence {
        stack,
        slo: testbed.slo().clone(),
        machine: testbed.machine().clone(),
        phases,
        limit_hz: Some(limit.in_requests()),
        bound_by: Some(limit.bound_by),
        keep: testbed.scenario().budget.keep.clone(),
        memory_budget_bytes: testbed.scenario().budget.memory_bytes,
        calls,
        stacks,
        knee_stacks,
        native,
        switches: app.switches,
        unprepared: app.unprepared,
        chains: most_waiting(chains),
    };
    recorder.write(Record::Account(Box::new(accounted(&evidence, label))));
    Ok(evidence)
}

/// What each request does, call by call, where PHP-FPM serves it and there is time.
fn traced(
    testbed: &mut Testbed,
    recorder: &mut Recorder<'_>,
    Subject { arm, label }: Subject<'_>,
    fpm: Option<Fpm>,
) -> Result<Option<CallTrace>, ExperimentError> {
    let Some(fpm) = fpm else {
        return Ok(None);
    };
    let configuration = in_words(recorder.run(), label);
    let what = format!("{configuration}: tracing what each request does");
    recorder.progress(&what, 0.8, None);
    let looked = match time::for_the_trace(recorder.left()) {
        Ok(()) => fpm.traced(testbed, arm, label)?,
        Err(why) => Err(why),
    };
    Ok(said(recorder, "requests were not traced", looked))
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

/// Who waited for whom in a phase, where somebody looked.
fn of_locks(
    recorder: &mut Recorder<'_>,
    phase: &str,
    looked: Option<Looked<Vec<Look>>>,
    load_s: &RangeInclusive<f64>,
) -> Option<LockChains> {
    let looks = said(recorder, "nobody looked who waits for whose lock", looked?)?;
    Some(lock_chains(phase, &of_load(looks, load_s)))
}

/// The chains of the phase in which most waited: where a pool is used up, or else just below.
fn most_waiting(chains: Vec<LockChains>) -> LockChains {
    let most = chains
        .into_iter()
        .max_by(|a, b| a.waiting.total_cmp(&b.waiting));
    most.unwrap_or_default()
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
        ..Step::at_rate(&purpose(kind), rate_hz, length, seed)
    }
}

/// What the step that drives a phase is for.
fn purpose(kind: PhaseKind) -> String {
    format!("diagnose: {}", kind.name())
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
    kind: PhaseKind,
    (load, recording): (LoadPoint, Recording),
) -> Phase {
    let trial = recorder.trial(&purpose(kind), label, load.clone());
    for note in &recording.notes {
        recorder.warn(format!("telemetry: {note}"));
    }
    let series = recording.series.clone();
    let phase = Phase::new(kind, load, recording.series, recording.log);
    let waterfall = kneepoint_diagnosis::waterfall(&phase, stack);
    recorder.write(Record::Observation(Box::new(Observation {
        phase: kind.name().to_owned(),
        arm: label.to_owned(),
        trial,
        series,
        waterfall: Some(waterfall),
    })));
    phase
}

/// A phase that was driven: what it came to, and the stacks that were sampled meanwhile, where they were.
struct Driven {
    observed: (LoadPoint, Recording),
    stacks: Option<Looked<PhpProfile>>,
    /// What the CPUs did, where that was sampled.
    cpu: Option<Looked<CpuProfile>>,
    /// Who waited for whose lock at each look, where somebody looked.
    locks: Option<Looked<Vec<Look>>>,
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
    let running = testbed.running(arm)?;
    until_sound(kind, may_repeat, |_| {
        // What clears up before the load, and fills the caches, is none of it.
        testbed.settle(arm, step, is_settled)?;
        let drive = || match fpm.filter(|_| is_sampled(kind)) {
            Some(fpm) => {
                let ((observed, locks), looked) = fpm.sampled(|| {
                    fpm.watching_locks(&running, || testbed.observe_settled(arm, step))
                });
                observed.map(|observed| (observed, Some((looked, locks))))
            }
            None => testbed
                .observe_settled(arm, step)
                .map(|observed| (observed, None)),
        };
        let (driven, cpu) = match kind {
            PhaseKind::Knee => {
                let (driven, looked) = with_cpu(&tiers, drive);
                (driven, Some(looked))
            }
            _ => (drive(), None),
        };
        let (observed, looked) = driven?;
        let (stacks, locks) = looked.unzip();
        recorder.say_when_invalid(&observed.0);
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
            locks,
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
    let saturating_hz = match limit.bound_by {
        Bound::Errors | Bound::Timeout => OVER * limit.saturation_hz,
        _ => 0.0,
    };
    let rate = limit.rate_hz;
    (OVER * rate.estimate)
        .max(rate.high.min(OVER * tried_hz))
        .max(failed_hz)
        .max(saturating_hz)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Interval;

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

    /// Where the overload lies, by R* (low, estimate, high) and what bounds it, what saturates, and the steps of the search as
    /// (rate, violating share).
    fn check_over(
        ((low, estimate, high), bound_by): ((f64, f64, f64), Bound),
        saturation_hz: f64,
        steps: &[(f64, f64)],
        expected_hz: f64,
    ) {
        let limit = LimitResult {
            rate_hz: Interval {
                low,
                estimate,
                high,
            },
            bound_by,
            saturation_hz,
            steps: steps.iter().map(|(hz, share)| (*hz, *share, 100)).collect(),
            ..LimitResult::default()
        };
        let over_hz = surely_over(&limit);
        assert!(
            (over_hz - expected_hz).abs() < 1e-6,
            "R* {estimate} ({low} to {high}) by {bound_by:?}, saturated at {saturation_hz}, {steps:?}: {over_hz}"
        );
    }

    #[test]
    fn an_overload_is_more_than_the_limit_and_than_what_saturates_where_errors_bind() {
        let rate = (95.0, 100.0, 105.0);
        check_over((rate, Bound::default()), 110.0, &[], 130.0);
        check_over((rate, Bound::Errors), 110.0, &[], 143.0);
    }

    #[test]
    fn where_the_limit_is_hardly_known_the_overload_is_what_surely_fails() {
        let failed = [(170.0, 0.01), (180.0, 0.3)];
        let of = |high: f64| ((60.0, 100.0, high), Bound::default());
        check_over(of(200.0), 110.0, &failed, 200.0);
        check_over(of(110.0), 110.0, &failed, 180.0);
    }

    #[test]
    fn an_overload_stays_near_what_was_tried() {
        let rate = (60.0, 100.0, 900.0);
        check_over((rate, Bound::default()), 110.0, &[(120.0, 0.01)], 156.0);
    }
}
