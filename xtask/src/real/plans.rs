//! Predictions from half of R*, and what the stack bears when it is driven up to its limit.

use super::limits::{STEADY_STACK, interval};
use super::{Bench, Time};
use crate::method::Verdict;
use anyhow::Context as _;
use kneepoint_model::Interval;
use kneepoint_model::capacity::{CapacityPlan, LIMIT_OFF, P95_OFF, Verified};
use kneepoint_model::units::{format_ms, format_rate, format_share};
use std::io::Write;
use std::time::Duration;

/// Plans of each application when nobody says how many.
const RUNS: usize = 3;
/// Load time of each plan; its test takes four to six times as long on top of it.
const BUDGET: Duration = Duration::from_secs(240);
/// The applications.
const APPLICATIONS: [&str; 2] = ["plain", "laravel"];
/// How many times as many are driven at most where what some are held against is not known well enough.
const MOST_RUNS: usize = 2;
/// Most of R* that a plan may be made from.
const MEASURED_UP_TO: f64 = 0.6;

/// What a plan and its verification take beyond the load time that is asked for, as a factor: the plan, the search, and
/// low load in turns with the search and with the steps below it, of which there are up to twice as many where they scatter.
const TAKES: f64 = 6.0;

/// The plans of each application.
///
/// A prediction counts that was made from low load in turns with what it is held against: the machines that this runs on
/// change their speed by more within minutes than a prediction may be off, and the p95 follows that about four times over.
/// What the plan said before is printed beside it. The p95 is that of the median step, which is how R* is told as well: half
/// of the steps at R* bear it. What it was over all of them together is printed with it.
///
/// A plan is void whose measured R* or p95 is itself known less well than a prediction may be off: it would be chance whether
/// it hits. Of the p95 that is what is left of its scatter once low load in turns with it has told how fast the machine was.
/// It is printed like the others, and another one is driven in its place, until twice as many were driven as are wanted. One
/// that misses by too much wherever in its interval the truth lies has missed all the same.
pub(super) fn run(bench: &Bench, out: &mut impl Write) -> anyhow::Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for application in APPLICATIONS {
        let runs = bench.runs.unwrap_or(RUNS);
        writeln!(
            out,
            "{application}, a fixed pool of 10, all ports: {runs} plans, each driven up to its limit afterwards"
        )?;
        let (mut counting, mut driven) = (0, 0);
        while counting < runs && driven < MOST_RUNS * runs {
            driven += 1;
            let plan = planned(bench, application)?;
            let verdict = verdict(application, driven, &plan, out)?;
            counting += usize::from(verdict.is_some());
            verdicts.extend(verdict);
        }
        verdicts.push(Verdict {
            what: format!(
                "{application}: {counting} of {driven} plans were held against what is known well enough ({runs} wanted)"
            ),
            met: counting == runs,
        });
    }
    Ok(verdicts)
}

/// Makes a plan and puts it to the test.
fn planned(bench: &Bench, application: &str) -> anyhow::Result<CapacityPlan> {
    let scenario = bench.scenario(&format!("{application}/kneepoint.toml"));
    let more = [&STEADY_STACK[..], &["--verify"]].concat();
    let time = Time {
        budget: bench.budget(BUDGET),
        takes: TAKES,
    };
    let run = bench.run("plan", &scenario, time, &more)?;
    run.capacity.context("a plan without a prediction")
}

/// Prints one plan, and says whether it hit; `None` where it is void.
fn verdict(
    application: &str,
    nth: usize,
    plan: &CapacityPlan,
    out: &mut impl Write,
) -> anyhow::Result<Option<Verdict>> {
    let before = plan.verified.context("a plan that was not verified")?;
    let turned = before
        .turned()
        .context("too few steps at low load were sound beside the verification")?;
    let limit_hz = before.limit_hz.estimate;
    let planned_from = plan.points.iter().map(|point| point.offered_hz);
    let turned_from = before.in_turns.iter().map(|it| it.measured_up_to_hz);
    let driven = planned_from.chain(turned_from).fold(0.0, f64::max) / limit_hz;
    writeln!(
        out,
        "{nth:>4}  measured           R* {}; p95 {} in the median step at {}, {} over all\n      {}; hold-out {}\n      {}, of {} as it is known at that speed; from {} of R* at most",
        interval(&before.limit_hz),
        measured_p95(&before),
        format_rate(before.offered_hz),
        format_ms(before.measured_overall_p95_ms.unwrap_or(f64::NAN)),
        predicted("planned before", &before)?,
        match plan.hold_out {
            Some(kept) if kept.hit => "hit",
            Some(_) => "missed, and said so",
            None => "none",
        },
        predicted("low load in turns", &turned)?,
        measured_p95(&turned),
        format_share(driven)
    )?;
    let vague = turned.too_vague();
    for why in &vague {
        writeln!(out, "      {why}")?;
    }
    let void = !vague.is_empty() && !misses_anyway(&turned);
    if void {
        writeln!(out, "      void: it would be chance whether it hits")?;
    }
    let before_p95_off = p95_off(&before)?;
    let (limit_off, p95_off) = (turned.limit_off(), p95_off(&turned)?);
    Ok((!void).then(|| Verdict {
        what: format!(
            "{application} {nth}: R* {} off (10 % allowed), p95 {} off (20 % allowed), from {} of R* (60 % allowed); \
             planned before: {} and {}",
            format_share(limit_off),
            format_share(p95_off),
            format_share(driven),
            format_share(before.limit_off()),
            format_share(before_p95_off),
        ),
        met: limit_off.abs() <= LIMIT_OFF && p95_off.abs() <= P95_OFF && driven <= MEASURED_UP_TO,
    }))
}

/// The measured p95, with its interval where that is known.
fn measured_p95(verified: &Verified) -> String {
    let interval = verified.measured_p95_interval_ms.as_ref();
    let estimate_ms = verified.measured_p95_ms.unwrap_or(f64::NAN);
    interval.map_or_else(|| format_ms(estimate_ms), interval_ms)
}

/// `49.6 ms (41.0 ms to 60.2 ms)`.
fn interval_ms(interval: &Interval) -> String {
    format!(
        "{} ({} to {})",
        format_ms(interval.estimate),
        format_ms(interval.low),
        format_ms(interval.high)
    )
}

fn predicted(how: &str, verified: &Verified) -> anyhow::Result<String> {
    Ok(format!(
        "{how:<18} R* {}: {}; p95 {}: {}",
        format_rate(verified.predicted_limit_hz),
        format_share(verified.limit_off()),
        interval_ms(&verified.predicted_p95_ms),
        format_share(p95_off(verified)?)
    ))
}

fn p95_off(verified: &Verified) -> anyhow::Result<f64> {
    verified.p95_off().context("no responses at 0.8 R*")
}

/// Whether R* or the p95 is off by more than is allowed, whichever value of the measured interval is the true one.
fn misses_anyway(verified: &Verified) -> bool {
    let misses = |predicted: f64, measured: &Interval, allowed: f64| {
        predicted > measured.high * (1.0 + allowed) || predicted < measured.low * (1.0 - allowed)
    };
    let p95_ms = verified.measured_p95_interval_ms;
    misses(verified.predicted_limit_hz, &verified.limit_hz, LIMIT_OFF)
        || p95_ms.is_some_and(|it| misses(verified.predicted_p95_ms.estimate, &it, P95_OFF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_far_beyond_a_wide_interval_is_a_miss() {
        let check = |predicted_limit_hz, predicted_p95_ms, missed| {
            let around = |low, estimate, high| Interval {
                low,
                estimate,
                high,
            };
            let verified = Verified {
                predicted_limit_hz,
                limit_hz: around(80.0, 100.0, 120.0),
                offered_hz: 80.0,
                measured_p95_ms: Some(40.0),
                measured_p95_interval_ms: Some(around(30.0, 40.0, 60.0)),
                measured_overall_p95_ms: None,
                predicted_p95_ms: around(0.0, predicted_p95_ms, 0.0),
                in_turns: None,
            };
            assert_eq!(misses_anyway(&verified), missed, "{verified:?}");
        };
        check(100.0, 40.0, false);
        check(131.0, 71.0, false);
        check(133.0, 40.0, true);
        check(71.0, 40.0, true);
        check(100.0, 73.0, true);
        check(100.0, 23.0, true);
    }
}
