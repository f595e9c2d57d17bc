//! Whether the statistics hold: limits and comparisons on simulated stacks whose truth is known.
//!
//! Every figure is from whole experiments, planned by the same state machines that plan real ones.

mod comparisons;
mod limits;
mod parallel;
mod searches;

use crate::flags;
use kneepoint_planner::simulated::{App, Noise, SimulatedStack, Truth, truth};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

/// Windows at each rate that the truth is read from: good for 0.2 % of R*.
const TRUTH_WINDOWS: usize = 600;

/// Which of the tool's own searches for a limit is meant.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Search {
    /// Shortest step, where it is not the program's.
    step: Option<Duration>,
    /// Load time, where it is not that of a whole search.
    budget: Option<Duration>,
}

/// One of the two parts.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum Part {
    /// Limits at each noise.
    Limits,
    /// Comparisons, most of a stack with itself.
    Comparisons,
}

/// What was asked for on the command line.
#[derive(Debug, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// Limits at each noise, by each method
    #[arg(long, value_name = "N", default_value = "200", value_parser = flags::number(10..=u64::MAX))]
    experiments: u64,
    /// A/A runs, and a third as many with an effect
    #[arg(long, value_name = "N", default_value = "1000", value_parser = flags::number(30..=u64::MAX))]
    comparisons: u64,
    /// Seed of all of it
    #[arg(long, value_name = "S", default_value = "1")]
    seed: u64,
    /// Standard deviation of a canary reading in percent
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = flags::number(0.0..=50.0f64))]
    canary_error: f64,
    /// Shortest step of a limit in seconds (default: as the program does)
    #[arg(long, value_name = "SECONDS", value_parser = flags::number(1..=86_400u64))]
    step: Option<u64>,
    /// Limits in this much load time, in seconds (default: the five minutes of a whole search)
    #[arg(long, value_name = "SECONDS", value_parser = flags::number(20..=86_400u64))]
    budget: Option<u64>,
    /// Limits or comparisons only
    #[arg(long)]
    only: Option<Part>,
}

impl Options {
    fn search(&self) -> Search {
        Search {
            step: self.step.map(Duration::from_secs),
            budget: self.budget.map(Duration::from_secs),
        }
    }

    fn noise(&self, of: fn() -> Noise) -> Noise {
        Noise {
            canary_error: self.canary_error / 100.0,
            ..of()
        }
    }
}

/// A requirement, and whether it was met.
pub(crate) struct Verdict {
    pub(crate) what: String,
    pub(crate) met: bool,
}

impl Verdict {
    /// A line for each. The exit code is 1 when one is not met.
    ///
    /// # Errors
    /// Standard output is gone.
    pub(crate) fn print(verdicts: &[Self], out: &mut impl Write) -> anyhow::Result<ExitCode> {
        for verdict in verdicts {
            let word = if verdict.met { "PASS" } else { "FAIL" };
            writeln!(out, "{word}  {}", verdict.what)?;
        }
        Ok(if verdicts.iter().all(|verdict| verdict.met) {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// A level of noise: its name, and what makes it.
type Level = (&'static str, fn() -> Noise);

/// The noise levels of method.md, and a machine on which other programs come and go.
const LEVELS: [Level; 4] = [
    ("quiet", Noise::quiet),
    ("medium", Noise::medium),
    ("high", Noise::high),
    ("busy", Noise::busy),
];

/// Runs the experiments with the arguments that follow `method`. The exit code is 1 when a requirement is not met.
///
/// # Errors
/// The arguments cannot be read, or standard output is gone.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let mut verdicts = Vec::new();
    if options.only != Some(Part::Comparisons) {
        verdicts.extend(limits::run(options, &mut out)?);
    }
    if options.only != Some(Part::Limits) {
        verdicts.extend(comparisons::run(options, &mut out)?);
    }
    Verdict::print(&verdicts, &mut out)
}

/// What is true of an application at reference speed: the machine's stalls, without its drift.
fn known(app: &App, noise: Noise, windows: usize) -> Truth {
    let slo = SimulatedStack::usual_slo();
    truth(app, &slo, noise.without_drift(), windows, 4711)
}

/// Mean and standard deviation.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / (n - 1.0).max(1.0);
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::read;

    #[test]
    fn the_command_line_is_read() {
        let args = [
            "--experiments",
            "30",
            "--canary-error",
            "3",
            "--only",
            "limits",
        ];
        let options: Options = read(&args).expect("valid");
        assert_eq!(
            (options.experiments, options.only),
            (30, Some(Part::Limits))
        );
        assert!((options.noise(Noise::quiet).canary_error - 0.03).abs() < 1e-12);
        assert_eq!(options.search(), Search::default());
        assert!(read::<Options>(&["--experiments", "2"]).is_err());
        assert!(read::<Options>(&["--only", "nothing"]).is_err());
    }

    #[test]
    fn moments_are_the_known_ones() {
        assert_eq!(moments(&[1.0, 2.0, 3.0]), (2.0, 1.0));
    }
}
