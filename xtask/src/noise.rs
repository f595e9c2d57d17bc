//! The demo on a quiet machine and beside another program that comes and goes: the same answer is asked of both.
//!
//! Every run is the built program as anybody would start it; what is judged stands in its record.

mod burner;
mod table;

use crate::method::Verdict;
use crate::program::measured;
use crate::{flags, program};
use anyhow::Context as _;
use burner::Burner;
use kneepoint_model::Run;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Demos of each kind when nobody says how many.
const RUNS: usize = 3;
/// Longest time of one demo.
const PATIENCE: Duration = Duration::from_secs(25 * 60);

/// One demo.
struct Demo {
    busy: bool,
    took: Duration,
    run: Run,
}

/// What was asked for on the command line.
#[derive(Debug, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// Demos alone, and as many beside a busy program: 3 take 65 minutes, 1 takes 22
    #[arg(long, value_name = "N", default_value_t = RUNS, value_parser = flags::number(1..=1000usize))]
    runs: usize,
    /// Seed of the busy program's bursts
    #[arg(long, value_name = "S", default_value = "1")]
    seed: u64,
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Runs the demos with the arguments that follow `noise`. The exit code is 1 when a requirement is not met.
///
/// # Errors
/// The arguments cannot be read, the program cannot be built, or a demo left no record.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let binary = program::find(options.binary.as_deref())?;
    let interrupted = flags::raised_by_signals()?;
    let mut demos = Vec::new();
    table::head(&mut out)?;
    for nth in 0..options.runs as u64 {
        for busy in [false, true] {
            let burner = busy.then(|| Burner::start(options.seed + nth));
            let began = Instant::now();
            let run = demo(&binary, &interrupted)?;
            let took = began.elapsed();
            drop(burner);
            let demo = Demo { busy, took, run };
            table::row(&demo, &mut out)?;
            demos.push(demo);
        }
    }
    Verdict::print(&table::judged(&demos), &mut out)
}

fn demo(
    binary: &std::path::Path,
    interrupted: &std::sync::atomic::AtomicBool,
) -> anyhow::Result<Run> {
    let directory = tempfile::tempdir()?;
    let done = measured::run(
        Command::new(binary)
            .args(["demo", "--no-report", "--json", "-", "--runs"])
            .arg(directory.path()),
        PATIENCE,
        interrupted,
        &mut |_, _| {},
    )?;
    crate::real::read(&done.stdout)
        .with_context(|| format!("`kneepoint demo` left no record: {}", done.stderr.trim()))
}
