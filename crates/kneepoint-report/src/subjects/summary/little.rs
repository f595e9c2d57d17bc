//! Waterfalls whose parts do not add up.

use crate::subjects::stack::waterfall::{self, Pair};
use crate::subjects::{account, arm_name, is_compared};
use crate::words;
use kneepoint_model::Run;
use kneepoint_model::run::Observation;

/// Largest relative error of Little's law before a waterfall is doubted (method.md section 4).
const ERROR_MOST: f64 = 0.05;

/// A sentence for each that a table or a picture shows, and one for all others of a configuration and a load.
pub(super) fn little(run: &Run) -> Vec<String> {
    const LAW: &str = "the requests counted inside and rate times time (Little's law) differ by";
    let is_off = |seen: &&Observation| error(seen).is_some();
    let off = run.observations.iter().filter(is_off);
    let (shown, others): (Vec<_>, Vec<_>) = off.partition(|seen| is_shown(run, seen));
    let shown = shown.into_iter().map(|seen| {
        format!(
            "\"Where a request's time goes\", {}: {LAW} {}, so do not use these shares.",
            place(run, seen),
            errors(&[seen])
        )
    });
    let mut groups: Vec<Vec<&Observation>> = Vec::new();
    for seen in others {
        let mut known = groups.iter_mut();
        match known.find(|group| place(run, group[0]) == place(run, seen)) {
            Some(group) => group.push(seen),
            None => groups.push(vec![seen]),
        }
    }
    let others = groups.iter().map(|group| {
        let place = words::sentence(&place(run, group[0]));
        let (what, them) = match group.len() {
            1 => ("one measurement does".to_owned(), "it"),
            several => (format!("{several} measurements do"), "them"),
        };
        let errors = errors(group);
        format!("{place}: {what} not add up: {LAW} {errors}. No table shows {them}.")
    });
    shown.chain(others).collect()
}

/// How far a waterfall is from Little's law, where that is too far.
fn error(seen: &Observation) -> Option<f64> {
    let error = seen.waterfall.as_ref()?.little_error?;
    (error > ERROR_MOST).then_some(error)
}

/// `24 % and 29 %`.
fn errors(group: &[&Observation]) -> String {
    let errors = group.iter().filter_map(|seen| error(seen));
    words::listed(&errors.map(words::share).collect::<Vec<_>>())
}

/// Whether a picture or a table has this waterfall's parts.
fn is_shown(run: &Run, seen: &Observation) -> bool {
    let pairs = [Pair::of_base(run), Pair::of_best(run)];
    let drawn = pairs.into_iter().flatten().flat_map(|pair| {
        let low = waterfall::phase(run, pair.arm, "low");
        [low, waterfall::near(run, pair.arm)]
    });
    let accounts = account::told(run).into_iter();
    let told = accounts.map(|account| waterfall::phase(run, &account.arm, &account.phase));
    let mut shown = drawn.chain(told).flatten();
    shown.any(|shown| std::ptr::eq(shown, seen))
}

/// `after, above R*`: of which configuration, where there are two, and at which load.
fn place(run: &Run, seen: &Observation) -> String {
    let load = match seen.phase.as_str() {
        "low" => "at low load",
        "knee" => "near R*",
        "repeat" => "near R*, the second time",
        "over" => "above R*",
        other => other,
    };
    match is_compared(run) {
        true => format!("{}, {load}", arm_name(run, &seen.arm)),
        false => load.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::plain;
    use kneepoint_model::SeriesSet;
    use kneepoint_model::run::{TrialId, Waterfall};

    fn observation(&(arm, phase, error): &(&str, &str, f64)) -> Observation {
        Observation {
            phase: phase.into(),
            arm: arm.into(),
            trial: TrialId(0),
            series: SeriesSet::default(),
            waterfall: Some(Waterfall {
                offered_hz: 1.0,
                response_ms: 1.0,
                parts: Vec::new(),
                little: String::new(),
                little_error: Some(error),
            }),
        }
    }

    fn check(observed: &[(&str, &str, f64)], expected: &[&str]) {
        let run = Run {
            observations: observed.iter().map(observation).collect(),
            ..Run::default()
        };
        let told: Vec<String> = little(&run).iter().map(|told| plain(told)).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn what_does_not_add_up_is_told_by_whether_a_table_shows_it() {
        check(
            &[
                ("base", "knee", 0.02),
                ("best", "over", 0.24),
                ("best", "repeat", 0.2),
                ("best", "knee", 0.02),
                ("best", "over", 0.29),
            ],
            &[
                "After, above R*: 2 measurements do not add up: the requests counted inside and rate times time (Little's law) \
                 differ by 24 % and 29 %. No table shows them.",
                "After, near R*, the second time: one measurement does not add up: the requests counted inside and rate times \
                 time (Little's law) differ by 20 %. No table shows it.",
            ],
        );
        check(
            &[("base", "knee", 0.09), ("base", "repeat", 0.1)],
            &[
                "\"Where a request's time goes\", near R*: the requests counted inside and rate times time (Little's law) differ \
                 by 9.0 %, so do not use these shares.",
                "Near R*, the second time: one measurement does not add up: the requests counted inside and rate times time \
                 (Little's law) differ by 10 %. No table shows it.",
            ],
        );
    }
}
