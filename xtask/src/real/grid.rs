//! Tuning beside the exhaustive way: every combination of three settings, each with a limit of its own.

use super::Bench;
use super::limits::interval;
use crate::method::Verdict;
use anyhow::Context as _;
use kneepoint_model::Interval;
use kneepoint_model::units::format_share;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Load time of each point.
const BUDGET: Duration = Duration::from_secs(150);
/// The grid.
const CHILDREN: [&str; 4] = ["2", "5", "10", "20"];
const OPCACHE: [&str; 2] = ["0", "1"];
const KEEPALIVE: [&str; 2] = ["0", "16"];
/// Share of the grid's best that the tuned stack must reach.
const LEAST_REACHED: f64 = 0.95;
/// Share of the grid's time that tuning may take.
const MOST_TIME: f64 = 0.25;
/// Share of the gain that must be there after a fresh start.
const LEAST_KEPT: f64 = 0.95;

/// The grid, then the tuning.
pub(super) fn run(bench: &Bench, out: &mut impl Write) -> anyhow::Result<Vec<Verdict>> {
    let scenario = bench.scenario("laravel/demo.toml");
    writeln!(out, "laravel as found in production: every combination")?;
    let began = Instant::now();
    let best = best_of_grid(bench, &scenario, out)?;
    let of_grid = began.elapsed();
    let began = Instant::now();
    let run = bench.run("tune", &scenario, of_grid.mul_f64(MOST_TIME), &[])?;
    let of_tuning = began.elapsed();
    let tuned = run.limit("best").context("tuning found nothing better")?;
    let base = run.limit("base").context("tuning without a first R*")?;
    writeln!(
        out,
        "  grid: {:.1} min; tune: R* {} in {:.1} min",
        of_grid.as_secs_f64() / 60.0,
        interval(&tuned.rate_hz),
        of_tuning.as_secs_f64() / 60.0
    )?;
    let reached = tuned.rate_hz.estimate / best;
    let share = of_tuning.as_secs_f64() / of_grid.as_secs_f64();
    let proof = run.proof.as_ref().context("tuning without a proof")?;
    let restarted = run
        .restarted
        .as_ref()
        .context("tuning had no time to see what a restart takes")?;
    let kept = run.kept_gain().context("tuning gained nothing")?;
    writeln!(
        out,
        "  R* {:.2} times the first; after a fresh start: {} times; the fresh one over the one that stood: {}",
        tuned.rate_hz.estimate / base.rate_hz.estimate,
        times(&proof.ratio.context("a proof without pairs")?),
        times(&restarted.ratio.context("a restart without pairs")?)
    )?;
    Ok(vec![
        Verdict {
            what: format!(
                "tune reaches {} of the grid's best, at least 95 %",
                format_share(reached)
            ),
            met: reached >= LEAST_REACHED,
        },
        Verdict {
            what: format!("in {} of its time, at most 25 %", format_share(share)),
            met: share <= MOST_TIME,
        },
        Verdict {
            what: format!(
                "{} ({} to {}) of the gain are there after a fresh start, at least 95 %",
                format_share(kept.estimate),
                format_share(kept.low),
                format_share(kept.high)
            ),
            met: kept.estimate >= LEAST_KEPT,
        },
    ])
}

/// `0.99 (0.97 to 1.01)`.
fn times(ratio: &Interval) -> String {
    format!(
        "{:.2} ({:.2} to {:.2})",
        ratio.estimate, ratio.low, ratio.high
    )
}

/// The largest R* of all combinations, per second.
fn best_of_grid(bench: &Bench, scenario: &Path, out: &mut impl Write) -> anyhow::Result<f64> {
    let mut best: f64 = 0.0;
    for children in CHILDREN {
        for opcache in OPCACHE {
            for keepalive in KEEPALIVE {
                let settings = [
                    "php.pm=static".to_owned(),
                    format!("php.pm.max_children={children}"),
                    format!("php.opcache.enable={opcache}"),
                    format!("proxy.upstream.keepalive={keepalive}"),
                ];
                let more: Vec<&str> = settings.iter().flat_map(|set| ["--set", set]).collect();
                let run = bench.run("limit", scenario, bench.budget(BUDGET), &more)?;
                let limit = run.limit("base").context("a limit without R*")?;
                best = best.max(limit.rate_hz.estimate);
                writeln!(
                    out,
                    "  {children:>3} workers, OPcache {opcache}, keepalive {keepalive:>2}: R* {}",
                    interval(&limit.rate_hz)
                )?;
            }
        }
    }
    Ok(best)
}
