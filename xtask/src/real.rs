//! Whether the statistics hold on a real stack: limits that agree, comparisons of a stack with itself, plans that are
//! put to the test, and tuning beside an exhaustive grid.
//!
//! Everything here runs the built program as anybody would and reads its record of a run. `benches/README.md` says what
//! each part is for and how long it takes.

pub(crate) mod agents;
mod disturbed;
mod grid;
mod limits;
mod plans;
mod selves;

use crate::method::Verdict;
use crate::program::measured;
use crate::{flags, program};
use anyhow::Context as _;
use kneepoint_model::Run;
use kneepoint_model::units::parse_duration;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum Part {
    /// The same stack searched again and again: do the intervals agree?
    Limits,
    /// Something else takes the CPU in the middle of a search: is R* still right?
    Disturbed,
    /// The stack compared with itself: does it ever win or lose, and how do pairs scatter?
    Selves,
    /// Predicted from half of R*, then driven up to it: how far off?
    Plans,
    /// Tune beside every combination of three settings.
    Grid,
}

/// What a run may take beyond its load: starting, warming, resets, waiting for rest.
const BESIDE: f64 = 4.0;
/// The same where there is hardly any load.
const LEAST_PATIENCE: Duration = Duration::from_secs(240);

/// What was asked for on the command line.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// This part only; may be repeated (default: all, four hours)
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Runs of each (default: 5 limits, 3 disturbed, 20 selves, 3 plans of each application)
    #[arg(long, value_name = "N", value_parser = flags::number(1..=10_000usize))]
    runs: Option<usize>,
    /// Load time of each run (default: 5m of a limit, 50s of a self, 4m of a plan, 150s of a grid's point)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    budget: Option<Duration>,
    /// Selves take all the pairs they may, and how those scatter is told by measure
    #[arg(long)]
    pairs: bool,
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

impl Options {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// What a run is given.
#[derive(Debug, Clone, Copy)]
struct Time {
    /// Load time that it is told.
    budget: Duration,
    /// How many times as long it drives load by design.
    takes: f64,
}

impl From<Duration> for Time {
    fn from(budget: Duration) -> Self {
        Self { budget, takes: 1.0 }
    }
}

/// Runs the program and reads what it recorded.
struct Bench {
    binary: PathBuf,
    repository: PathBuf,
    runs: Option<usize>,
    budget: Option<Duration>,
    pairs: bool,
    interrupted: Arc<AtomicBool>,
}

impl Bench {
    /// The load time of a run, unless another was asked for.
    fn budget(&self, usual: Duration) -> Duration {
        self.budget.unwrap_or(usual)
    }

    /// A scenario of this repository, such as `laravel/kneepoint.toml`.
    fn scenario(&self, name: &str) -> PathBuf {
        self.repository.join("apps").join(name)
    }

    /// One run of the program: `command` and its scenario, within a load time, with more arguments.
    ///
    /// # Errors
    /// It does not end, or leaves no record; its exit code is not looked at, since a verdict has one, too.
    fn run(
        &self,
        command: &str,
        scenario: &Path,
        time: impl Into<Time>,
        more: &[&str],
    ) -> anyhow::Result<Run> {
        self.run_beside(command, scenario, time, more, &mut |_| {})
    }

    /// The same. `look` is called about ten times a second with the time since the start.
    fn run_beside(
        &self,
        command: &str,
        scenario: &Path,
        time: impl Into<Time>,
        more: &[&str],
        look: &mut dyn FnMut(Duration),
    ) -> anyhow::Result<Run> {
        let time = time.into();
        let directory = tempfile::tempdir()?;
        let patience = time.budget.mul_f64(BESIDE * time.takes).max(LEAST_PATIENCE);
        let done = measured::run(
            Command::new(&self.binary)
                .arg(command)
                .arg(scenario)
                .args(["--no-report", "--json", "-", "--budget"])
                .arg(format!("{}s", time.budget.as_secs()))
                .arg("--runs")
                .arg(directory.path())
                .args(more),
            patience,
            &self.interrupted,
            &mut |_, elapsed| look(elapsed),
        )?;
        read(&done.stdout).with_context(|| {
            format!(
                "`kneepoint {command} {}` left no record: {}",
                scenario.display(),
                done.stderr.trim()
            )
        })
    }
}

/// The record that the program printed with `--json -`.
pub(crate) fn read(stdout: &str) -> anyhow::Result<Run> {
    let mut document: serde_json::Value = serde_json::from_str(stdout)?;
    Ok(serde_json::from_value(document["run"].take())?)
}

/// Runs the parts with the arguments that follow `real`. The exit code is 1 when a requirement is not met.
///
/// # Errors
/// The arguments cannot be read, the program cannot be built, or a run left no record.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let bench = Bench {
        binary: program::find(options.binary.as_deref())?,
        repository: crate::workspace().to_owned(),
        runs: options.runs,
        budget: options.budget,
        pairs: options.pairs,
        interrupted: flags::raised_by_signals()?,
    };
    let mut verdicts: Vec<Verdict> = Vec::new();
    if options.wants(Part::Limits) {
        verdicts.push(limits::run(&bench, &mut out)?);
    }
    if options.wants(Part::Disturbed) {
        verdicts.extend(disturbed::run(&bench, &mut out)?);
    }
    if options.wants(Part::Selves) {
        verdicts.extend(selves::run(&bench, &mut out)?);
    }
    if options.wants(Part::Plans) {
        verdicts.extend(plans::run(&bench, &mut out)?);
    }
    if options.wants(Part::Grid) {
        verdicts.extend(grid::run(&bench, &mut out)?);
    }
    Verdict::print(&verdicts, &mut out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let options: Options =
            flags::read(&["--only", "plans", "--runs", "2", "--budget", "90s"]).expect("valid");
        assert!(options.wants(Part::Plans) && !options.wants(Part::Limits));
        assert!(!options.pairs && flags::read::<Options>(&["--pairs"]).expect("valid").pairs);
        assert_eq!(options.budget, Some(Duration::from_secs(90)));
        assert!(
            flags::read::<Options>(&[])
                .expect("valid")
                .wants(Part::Grid)
        );
        assert!(flags::read::<Options>(&["--only", "nothing"]).is_err());
        assert!(flags::read::<Options>(&["--runs", "0"]).is_err());
    }

    #[test]
    fn a_record_is_read_from_what_the_program_prints() {
        let run = Run {
            command: "limit".into(),
            ..Run::default()
        };
        let printed = serde_json::json!({ "run": run }).to_string();
        assert_eq!(read(&printed).expect("a record").command, "limit");
        assert!(read("").is_err());
    }
}
