//! A stack compared with itself: whatever is found is false.

use super::Bench;
use super::limits::STEADY_STACK;
use crate::method::Verdict;
use anyhow::Context as _;
use kneepoint_model::units::format_share;
use std::io::Write;
use std::time::Duration;

/// Comparisons when nobody says how many.
const RUNS: usize = 20;
/// Load time of each.
const BUDGET: Duration = Duration::from_secs(50);
/// How many may be false: one in twenty, as for every 95 % interval.
const MOST_FALSE: f64 = 0.05;

/// The application as it is against the application as it is, side by side and in turns.
pub(super) fn run(bench: &Bench, out: &mut impl Write) -> anyhow::Result<Verdict> {
    let scenario = bench.scenario("laravel/kneepoint.toml");
    let application = bench.scenario("laravel").display().to_string();
    let runs = bench.runs.unwrap_or(RUNS);
    let more = [&STEADY_STACK[..], &["--ci", "--baseline-app", &application]].concat();
    writeln!(
        out,
        "laravel against itself, a fixed pool of 10, all ports, {runs} times: change of throughput at saturation (95 %)"
    )?;
    let mut wrong = 0;
    for nth in 1..=runs {
        let run = bench.run("limit", &scenario, bench.budget(BUDGET), &more)?;
        let gate = run.gate.as_ref().context("no gate was asked")?;
        let claim = gate.claims.first().context("a gate without a claim")?;
        let change = claim.change();
        let is_false = !change.contains(0.0);
        wrong += usize::from(is_false);
        writeln!(
            out,
            "{nth:>4}  {} ({} to {}); {}{}",
            format_share(change.estimate),
            format_share(change.low),
            format_share(change.high),
            claim.conditions,
            if is_false { "  FALSE" } else { "" }
        )?;
    }
    Ok(Verdict {
        what: format!("{wrong} of {runs} comparisons of a stack with itself found a difference"),
        met: wrong as f64 <= (MOST_FALSE * runs as f64).max(1.0),
    })
}
