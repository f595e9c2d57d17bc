//! Predictions from half of R*, and what the stack bears when it is driven up to its limit.

use super::limits::{FIXED_POOL, interval};
use super::{Bench, Time};
use crate::method::Verdict;
use anyhow::Context as _;
use kneepoint_model::capacity::{CapacityPlan, Verified};
use kneepoint_model::units::{format_ms, format_rate, format_share};
use std::io::Write;
use std::time::Duration;

/// Plans of each application when nobody says how many.
const RUNS: usize = 3;
/// Load time of each plan; its test takes about four times as long on top of it.
const BUDGET: Duration = Duration::from_secs(240);
/// The applications.
const APPLICATIONS: [&str; 2] = ["plain", "laravel"];
/// Most that the predicted R* may be off.
const LIMIT_OFF: f64 = 0.10;
/// Most that the predicted p95 at four fifths of R* may be off.
const P95_OFF: f64 = 0.20;
/// Most of R* that a plan may be made from.
const MEASURED_UP_TO: f64 = 0.6;

/// What a plan and its verification take beyond the load time that is asked for, as a factor: the plan, the search, and
/// low load in turns with the search and with the steps below it.
const TAKES: f64 = 4.0;

/// The plans of each application.
///
/// A prediction counts that was made from low load in turns with what it is held against: the machines that this runs on
/// change their speed by more within minutes than a prediction may be off, and the p95 follows that about four times over.
/// What the plan said before is printed beside it. The p95 is that of the median step, which is how R* is told as well: half
/// of the steps at R* bear it. What it was over all of them together is printed with it.
pub(super) fn run(bench: &Bench, out: &mut impl Write) -> anyhow::Result<Vec<Verdict>> {
    let mut verdicts = Vec::new();
    for application in APPLICATIONS {
        let scenario = bench.scenario(&format!("{application}/kneepoint.toml"));
        let runs = bench.runs.unwrap_or(RUNS);
        writeln!(
            out,
            "{application}, a fixed pool of 10: {runs} plans, each driven up to its limit afterwards"
        )?;
        for nth in 1..=runs {
            let more = [&FIXED_POOL[..], &["--verify"]].concat();
            let time = Time {
                budget: bench.budget(BUDGET),
                takes: TAKES,
            };
            let run = bench.run("plan", &scenario, time, &more)?;
            let plan = run
                .capacity
                .as_ref()
                .context("a plan without a prediction")?;
            verdicts.push(verdict(application, nth, plan, out)?);
        }
    }
    Ok(verdicts)
}

/// Prints one plan, and says whether it hit.
fn verdict(
    application: &str,
    nth: usize,
    plan: &CapacityPlan,
    out: &mut impl Write,
) -> anyhow::Result<Verdict> {
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
        "{nth:>4}  measured           R* {}; p95 {} in the median step at {}, {} over all\n      {}; hold-out {}\n      {}; from {} of R* at most",
        interval(&before.limit_hz),
        format_ms(before.measured_p95_ms.unwrap_or(f64::NAN)),
        format_rate(before.offered_hz),
        format_ms(before.measured_overall_p95_ms.unwrap_or(f64::NAN)),
        predicted("planned before", &before)?,
        match plan.hold_out {
            Some(kept) if kept.hit => "hit",
            Some(_) => "missed, and said so",
            None => "none",
        },
        predicted("low load in turns", &turned)?,
        format_share(driven)
    )?;
    let (limit_off, p95_off) = (turned.limit_off(), p95_off(&turned)?);
    Ok(Verdict {
        what: format!(
            "{application} {nth}: R* {} off (10 % allowed), p95 {} off (20 % allowed), from {} of R* (60 % allowed); \
             planned before: {} and {}",
            format_share(limit_off),
            format_share(p95_off),
            format_share(driven),
            format_share(before.limit_off()),
            format_share(self::p95_off(&before)?),
        ),
        met: limit_off.abs() <= LIMIT_OFF && p95_off.abs() <= P95_OFF && driven <= MEASURED_UP_TO,
    })
}

fn predicted(how: &str, verified: &Verified) -> anyhow::Result<String> {
    Ok(format!(
        "{how:<18} R* {}: {}; p95 {} ({} to {}): {}",
        format_rate(verified.predicted_limit_hz),
        format_share(verified.limit_off()),
        format_ms(verified.predicted_p95_ms.estimate),
        format_ms(verified.predicted_p95_ms.low),
        format_ms(verified.predicted_p95_ms.high),
        format_share(p95_off(verified)?)
    ))
}

fn p95_off(verified: &Verified) -> anyhow::Result<f64> {
    verified.p95_off().context("no responses at 0.8 R*")
}
