//! A stack compared with itself: whatever is found is false.

use super::Bench;
use super::limits::STEADY_STACK;
use crate::method::Verdict;
use anyhow::Context as _;
use kneepoint_experiment::sequences::gate::{BEFORE, NOW};
use kneepoint_model::run::Trial;
use kneepoint_model::statistics::sequential::mean_and_sd;
use kneepoint_model::units::format_share;
use kneepoint_model::{LoadPoint, Run};
use std::io::Write;
use std::time::Duration;

/// Comparisons when nobody says how many.
const RUNS: usize = 20;
/// Load time of each.
const BUDGET: Duration = Duration::from_secs(50);
/// How many may be false: one in twenty, as for every 95 % interval.
const MOST_FALSE: f64 = 0.05;
/// Largest bias over all comparisons, whichever arm it favours.
const LARGEST_BIAS: f64 = 0.005;
/// A loss so small that no comparison shows or excludes it: each takes all the pairs it may.
const ALL_PAIRS: [&str; 2] = ["--max-loss", "0.1%"];

/// The application as it is against the application as it is, side by side and in turns.
pub(super) fn run(bench: &Bench, out: &mut impl Write) -> anyhow::Result<Vec<Verdict>> {
    let scenario = bench.scenario("laravel/kneepoint.toml");
    let application = bench.scenario("laravel").display().to_string();
    let runs = bench.runs.unwrap_or(RUNS);
    let mut more = [&STEADY_STACK[..], &["--ci", "--baseline-app", &application]].concat();
    if bench.pairs {
        more.extend(ALL_PAIRS);
    }
    writeln!(
        out,
        "laravel against itself, a fixed pool of 10, all ports, {runs} times: change of capacity (95 %)"
    )?;
    let mut wrong = 0;
    let mut changes = Vec::new();
    let mut pairs = Pairs::default();
    for nth in 1..=runs {
        let run = bench.run("limit", &scenario, bench.budget(BUDGET), &more)?;
        pairs.take(&run);
        let gate = run.gate.as_ref().context("no gate was asked")?;
        let claim = gate.claims.first().context("a gate without a claim")?;
        let change = claim.change();
        let is_false = !change.contains(0.0);
        wrong += usize::from(is_false);
        changes.push(change.estimate);
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
    let mut verdicts = vec![Verdict {
        what: format!("{wrong} of {runs} comparisons of a stack with itself found a difference"),
        met: wrong as f64 <= (MOST_FALSE * runs as f64).max(1.0),
    }];
    if bench.pairs {
        pairs.print(out)?;
        let (bias, sd) = mean_and_sd(&changes);
        verdicts.push(Verdict {
            what: format!(
                "mean bias {} with a standard error of {}, at most {} either way",
                format_share(bias),
                format_share(sd / (runs as f64).sqrt()),
                format_share(LARGEST_BIAS)
            ),
            met: bias.abs() <= LARGEST_BIAS,
        });
    }
    Ok(verdicts)
}

/// ln ratios of the arms within pairs, now over before, by measure: as capacity, so that a lower cost is more.
#[derive(Default)]
struct Pairs {
    alone: Vec<f64>,
    throughput_at_once: Vec<f64>,
    cost_at_once: Vec<f64>,
}

impl Pairs {
    fn take(&mut self, run: &Run) {
        let of = |arm: &str| -> Vec<&Trial> {
            let trials = run.trials.iter();
            let pairs = trials.filter(|trial| trial.purpose.starts_with("gate: pair "));
            pairs.filter(|trial| trial.arm == arm).collect()
        };
        // The nth pair has one step of each arm, alone or at once.
        for (before, now) in of(BEFORE).into_iter().zip(of(NOW)) {
            let (before_hz, now_hz) = (before.load.throughput_hz(), now.load.throughput_hz());
            let ln = (now_hz / before_hz).ln();
            if !before.purpose.ends_with(" both") {
                self.alone.push(ln);
                continue;
            }
            self.throughput_at_once.push(ln);
            let cpu_ms = |load: &LoadPoint| load.cpu_ms.map(f64::ln);
            let cost = cpu_ms(&before.load).zip(cpu_ms(&now.load));
            self.cost_at_once
                .extend(cost.map(|(before, now)| before - now));
        }
    }

    fn print(&self, out: &mut impl Write) -> anyhow::Result<()> {
        writeln!(
            out,
            "\n{:<44}{:>7}{:>11}{:>9}{:>9}",
            "measure", "pairs", "sd of one", "mean", "+-"
        )?;
        for (name, values) in [
            ("throughput at saturation, interleaved", &self.alone),
            ("throughput, both at once", &self.throughput_at_once),
            ("CPU time a request, both at once", &self.cost_at_once),
        ] {
            if values.len() < 2 {
                writeln!(out, "{name:<44}{:>7}", values.len())?;
                continue;
            }
            let (mean, sd) = mean_and_sd(values);
            writeln!(
                out,
                "{name:<44}{:>7}{:>10.2} %{:>+7.2} %{:>7.2} %",
                values.len(),
                sd * 100.0,
                mean * 100.0,
                1.96 * sd / (values.len() as f64).sqrt() * 100.0
            )?;
        }
        Ok(())
    }
}
