//! Predictions from half of R*, and what the stack bears when it is driven up to its limit.

use super::Bench;
use super::limits::{FIXED_POOL, interval};
use crate::method::Verdict;
use anyhow::Context as _;
use kneepoint_model::units::{format_ms, format_rate, format_share};
use std::io::Write;
use std::time::Duration;

/// Plans of each application when nobody says how many.
const RUNS: usize = 3;
/// Load time of each half: the plan, and the test.
const BUDGET: Duration = Duration::from_secs(120);
/// The applications.
const APPLICATIONS: [&str; 2] = ["plain", "laravel"];
/// Most that the predicted R* may be off.
const LIMIT_OFF: f64 = 0.10;
/// Most that the predicted p95 at four fifths of R* may be off.
const P95_OFF: f64 = 0.20;
/// Most of R* that a plan may be made from.
const MEASURED_UP_TO: f64 = 0.6;

/// The plans of each application.
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
            let run = bench.run("plan", &scenario, bench.budget(BUDGET), &more)?;
            let plan = run
                .capacity
                .as_ref()
                .context("a plan without a prediction")?;
            let verified = plan.verified.context("a plan that was not verified")?;
            let limit_off = verified.limit_off();
            let p95_off = verified.p95_off().context("no responses at 0.8 R*")?;
            let driven =
                plan.measured_up_to * verified.predicted_limit_hz / verified.limit_hz.estimate;
            writeln!(
                out,
                "{nth:>4}  R* {} predicted from {} of it, {} measured: {}; p95 at {}: {} predicted, {} measured: {}; hold-out {}",
                interval(&plan.limit_hz),
                format_share(driven),
                interval(&verified.limit_hz),
                format_share(limit_off),
                format_rate(verified.offered_hz),
                format_ms(verified.predicted_p95_ms.estimate),
                format_ms(verified.measured_p95_ms.unwrap_or(f64::NAN)),
                format_share(p95_off),
                match plan.hold_out {
                    Some(kept) if kept.hit => "hit",
                    Some(_) => "missed, and said so",
                    None => "none",
                }
            )?;
            verdicts.push(Verdict {
                what: format!(
                    "{application} {nth}: R* {} off (10 % allowed), p95 {} off (20 % allowed), from {} of R* (60 % allowed)",
                    format_share(limit_off),
                    format_share(p95_off),
                    format_share(driven)
                ),
                met: limit_off.abs() <= LIMIT_OFF
                    && p95_off.abs() <= P95_OFF
                    && driven <= MEASURED_UP_TO,
            });
        }
    }
    Ok(verdicts)
}
