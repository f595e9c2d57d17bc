//! R* of each configuration: which are shown, and how fast the machine was.

pub(crate) mod html;
pub(crate) mod markdown;

use crate::words;
use kneepoint_model::Run;
use kneepoint_model::run::LimitResult;

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

/// `a request took 6.94 ms of its CPU; its speed varied by 3.9 %; at the speed it had when the run began, R* is
/// 281/s (277 to 285)`; `None` where the speed was not measured.
pub(crate) fn machine_speed(limit: &LimitResult) -> Option<String> {
    let (reference, noise) = (limit.reference_hz?, limit.noise?);
    let cpu = noise.cpu_ms.map_or_else(String::new, |ms| {
        format!("a request took {} of its CPU; ", words::ms(Some(ms)))
    });
    let at_first = match words::is_wide(limit) {
        true => String::new(),
        false => format!(
            "; at the speed it had when the run began, R* is {}",
            words::interval_in(limit.unit(), &reference)
        ),
    };
    Some(format!(
        "{cpu}its speed varied by {}{}{at_first}",
        words::share(noise.speed_sd?),
        if noise.too_noisy {
            ", too much for the time there was"
        } else {
            ""
        },
    ))
}
