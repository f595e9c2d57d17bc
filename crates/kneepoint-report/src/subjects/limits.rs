//! R* of each configuration: which are shown, and how fast the machine was.

pub(crate) mod html;
pub(crate) mod markdown;

use crate::words;
use kneepoint_model::run::{Bound, LimitResult};
use kneepoint_model::{Run, Trial};

/// The first limit of a run of one stack; where several were compared, none is the run's.
pub(crate) fn first_limit(run: &Run) -> Option<&LimitResult> {
    run.limits.first().filter(|_| run.contest.is_none())
}

/// The limits of the first and of the last configuration, each with whose it is where there are both: `before: `.
pub(crate) fn limits(run: &Run) -> Vec<(&'static str, &LimitResult)> {
    let before = run.limit("base").or_else(|| first_limit(run));
    match (before, run.limit("best")) {
        (Some(before), Some(after)) => vec![("before: ", before), ("after: ", after)],
        (one, other) => one.or(other).map(|limit| ("", limit)).into_iter().collect(),
    }
}

/// `p95 breaks the SLO first; with 20 virtual users ...`; only the latter where nothing was served, at any rate.
pub(crate) fn breaks_first(run: &Run, limit: &LimitResult) -> String {
    let closed_loop = closed_loop(run, limit);
    if limit.serves_nothing() || limit.missed_alone.is_some() {
        return closed_loop;
    }
    let break_it = match limit.bound_by {
        Bound::Errors => "break",
        _ => "breaks",
    };
    format!("{} {break_it} the SLO first; {closed_loop}", limit.bound_by)
}

/// `with 20 virtual users that never pause, the stack served 242/s in one step of 3.0 s`: the closed loop that opens a search.
/// It is no bound of R*: one short step says little, and a pool may still grow during it.
fn closed_loop(run: &Run, limit: &LimitResult) -> String {
    let own = |trial: &&Trial| limit.trials.contains(&trial.id);
    let closed = |trial: &Trial| Some((trial.load.closed_workers?, trial.load.window_s));
    // One more may follow the first steps, which asks whether one request alone meets the SLO.
    let step = run.trials.iter().filter(own).map_while(closed).last();
    let (who, when) = match step {
        Some((1, window_s)) => (
            "one virtual user that never pauses".to_owned(),
            format!("one step of {}", words::duration(window_s)),
        ),
        Some((users, window_s)) => (
            format!("{users} virtual users that never pause"),
            format!("one step of {}", words::duration(window_s)),
        ),
        None => (
            "virtual users that never pause".to_owned(),
            "one short step".to_owned(),
        ),
    };
    let served = words::rate_in(limit.unit(), limit.saturation_hz);
    let is_less = limit.saturation_hz < limit.rate_hz.estimate;
    let less = match is_less {
        true => ", less than R*: perhaps it was not at full speed yet",
        false => "",
    };
    format!("with {who}, the stack served {served} in {when}{less}")
}

/// `a request took 6.94 ms of the stack's CPU; the machine's speed varied by 3.9 % from step to step; at the speed it had when
/// the run began, R* is 281/s (277 to 285)`; `None` where the speed was not measured.
pub(crate) fn machine_speed(limit: &LimitResult) -> Option<String> {
    let (reference, noise) = (limit.reference_hz?, limit.noise?);
    let cpu = noise.cpu_ms.map_or_else(String::new, |ms| {
        format!(
            "a request took {} of the stack's CPU; ",
            words::ms(Some(ms))
        )
    });
    let noisy = match noise.too_noisy {
        true => "; the steps scatter too much for an exact R* in this time",
        false => "",
    };
    let at_first = match words::is_wide(limit) || limit.met_hz().is_none() {
        true => String::new(),
        false => format!(
            "; at the speed it had when the run began, R* is {}",
            words::interval_in(limit.unit(), &reference)
        ),
    };
    Some(format!(
        "{cpu}the machine's speed varied by {} from step to step{noisy}{at_first}",
        words::share(noise.speed_sd?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::plain;
    use kneepoint_model::run::{LimitNoise, TrialId};
    use kneepoint_model::{Interval, LoadPoint};

    fn limit(saturation_hz: f64) -> LimitResult {
        LimitResult {
            rate_hz: Interval {
                low: 111.0,
                estimate: 205.0,
                high: 380.0,
            },
            saturation_hz,
            trials: vec![TrialId(0), TrialId(1)],
            ..LimitResult::default()
        }
    }

    /// Steps of so many virtual users; of none where it was at a rate.
    fn run_of(steps: &[(u64, u32)]) -> Run {
        let trial = |&(id, users): &(u64, u32)| Trial {
            id: TrialId(id),
            purpose: "limit: saturate".into(),
            arm: "base".into(),
            at_s: 0.0,
            load: LoadPoint {
                closed_workers: Some(users).filter(|users| *users > 0),
                window_s: 3.0,
                ..LoadPoint::default()
            },
            cpu: None,
        };
        Run {
            trials: steps.iter().map(trial).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn a_closed_loop_is_told_as_the_one_step_that_it_was() {
        let check = |closed: &[(u64, u32)], saturation_hz: f64, expected: &str| {
            let told = closed_loop(&run_of(closed), &limit(saturation_hz));
            assert_eq!(plain(&told), expected);
        };
        // The second one is of another search.
        check(
            &[(0, 20), (7, 64)],
            242.0,
            "with 20 virtual users that never pause, the stack served 242/s in one step of 3.0 s",
        );
        check(
            &[(0, 20), (1, 1)],
            12.0,
            "with one virtual user that never pauses, the stack served 12.0/s in one step of 3.0 s, less than R*: perhaps it was \
             not at full speed yet",
        );
        // What asks behind the first steps whether one request alone meets the SLO.
        let mut asked = run_of(&[(0, 20), (1, 0), (2, 1)]);
        asked.trials[2].purpose = "limit: one request at a time".into();
        let limit = LimitResult {
            trials: vec![TrialId(0), TrialId(1), TrialId(2)],
            ..limit(242.0)
        };
        let told = closed_loop(&asked, &limit);
        assert!(plain(&told).starts_with("with 20 virtual users"), "{told}");
        check(
            &[],
            242.0,
            "with virtual users that never pause, the stack served 242/s in one short step",
        );
    }

    #[test]
    fn errors_are_many_and_a_quantile_is_one() {
        let first = |bound_by| {
            let found = LimitResult {
                bound_by,
                ..limit(242.0)
            };
            let told = breaks_first(&Run::default(), &found);
            told.split(';').next().map(str::to_owned)
        };
        let errors = first(Bound::Errors);
        assert_eq!(errors.as_deref(), Some("errors break the SLO first"));
        let quantile = first(Bound::ResponseTime(95.0));
        assert_eq!(quantile.as_deref(), Some("p95 breaks the SLO first"));
    }

    #[test]
    fn what_made_r_star_less_exact_is_said_of_the_machine_and_of_the_steps() {
        let mut limit = limit(242.0);
        limit.reference_hz = Some(limit.rate_hz);
        limit.noise = Some(LimitNoise {
            speed_sd: Some(0.07),
            cpu_ms: Some(9.2),
            too_noisy: true,
            ..LimitNoise::default()
        });
        let told = machine_speed(&limit).map(|told| plain(&told));
        assert_eq!(
            told.as_deref(),
            Some(
                "a request took 9.20 ms of the stack's CPU; the machine's speed varied by 7.0 % from step to step; the steps \
                 scatter too much for an exact R* in this time"
            )
        );
    }
}
