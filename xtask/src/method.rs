//! Whether the statistics hold: limits and comparisons on simulated stacks whose truth is known.
//!
//! Every figure is from whole experiments, planned by the same state machines that plan real ones.

mod comparisons;
mod limits;
mod parallel;
mod searches;

use crate::flags;
use anyhow::bail;
use kneepoint_planner::simulated::{App, Noise, SimulatedStack, Truth, truth};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
cargo xtask method [--experiments N] [--comparisons N] [--seed S] [--canary-error PERCENT] [--step SECONDS]
                   [--budget SECONDS] [--only limits|comparisons]

  --experiments N           limits at each noise, by each method (default: 200)
  --comparisons N           A/A runs, and a third as many with an effect (default: 1000)
  --seed S                  seed of all of it (default: 1)
  --canary-error PERCENT    standard deviation of a canary reading (default: 0.5)
  --step SECONDS            shortest step of a limit (default: as the program does)
  --budget SECONDS          limits in this much load time (default: the five minutes of a whole search)
  --only WHICH              limits or comparisons only";

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

/// What was asked for on the command line.
#[derive(Debug, PartialEq)]
struct Options {
    experiments: u64,
    comparisons: u64,
    seed: u64,
    canary_error: f64,
    search: Search,
    limits: bool,
    ab: bool,
    help: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            experiments: 200,
            comparisons: 1000,
            seed: 1,
            canary_error: 0.005,
            search: Search::default(),
            limits: true,
            ab: true,
            help: false,
        }
    }
}

impl Options {
    fn read(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<Self> {
        let mut options = Self::default();
        options.help = flags::each("method", USAGE, args, |name, value| {
            let text = value.to_string_lossy().into_owned();
            let number = |least: u64| match text.parse() {
                Ok(number) if number >= least => Ok(number),
                _ => bail!("`{name} {text}`: write a whole number from {least} on"),
            };
            match (name, text.as_str()) {
                ("--experiments", _) => options.experiments = number(10)?,
                ("--comparisons", _) => options.comparisons = number(30)?,
                ("--seed", _) => options.seed = number(0)?,
                ("--canary-error", _) => match text.parse::<f64>() {
                    Ok(percent) if (0.0..=50.0).contains(&percent) => {
                        options.canary_error = percent / 100.0;
                    }
                    _ => bail!("`{name} {text}`: write a number from 0 to 50"),
                },
                ("--step", _) => options.search.step = Some(Duration::from_secs(number(1)?)),
                ("--budget", _) => {
                    options.search.budget = Some(Duration::from_secs(number(20)?));
                }
                ("--only", "limits") => options.ab = false,
                ("--only", "comparisons") => options.limits = false,
                _ => bail!("`{name} {text}`: write limits or comparisons"),
            }
            Ok(())
        })?;
        Ok(options)
    }

    fn noise(&self, of: fn() -> Noise) -> Noise {
        Noise {
            canary_error: self.canary_error,
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
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let options = Options::read(args)?;
    let mut out = std::io::stdout();
    if options.help {
        writeln!(out, "{USAGE}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut verdicts = Vec::new();
    if options.limits {
        verdicts.extend(limits::run(&options, &mut out)?);
    }
    if options.ab {
        verdicts.extend(comparisons::run(&options, &mut out)?);
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

    fn read(args: &[&str]) -> anyhow::Result<Options> {
        Options::read(args.iter().map(|arg| OsString::from(*arg)))
    }

    #[test]
    fn the_command_line_is_read() {
        let options = read(&[
            "--experiments",
            "30",
            "--canary-error",
            "3",
            "--only",
            "limits",
        ])
        .expect("valid");
        assert_eq!((options.experiments, options.ab), (30, false));
        assert!((options.canary_error - 0.03).abs() < 1e-12);
        assert!(read(&["--experiments", "2"]).is_err());
        assert!(read(&["--only", "nothing"]).is_err());
    }

    #[test]
    fn moments_are_the_known_ones() {
        assert_eq!(moments(&[1.0, 2.0, 3.0]), (2.0, 1.0));
    }
}
