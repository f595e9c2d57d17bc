//! The demo on a quiet machine and beside another program that comes and goes: the same answer is asked of both.
//!
//! Every run is the built program as anybody would start it; what is judged stands in its record.

mod burner;
mod table;

use crate::method::Verdict;
use crate::{flags, measured, program};
use anyhow::{Context as _, bail};
use burner::Burner;
use kneepoint_model::Run;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const USAGE: &str = "\
cargo xtask noise [--runs N] [--seed S] [--binary PATH]

  --runs N       demos alone, and as many beside a busy program (default: 3, 65 minutes; 1 takes 22)
  --seed S       seed of the busy program's bursts (default: 1)
  --binary PATH  the program to test (default: built with cargo build --release -p kneepoint)";

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

struct Options {
    runs: usize,
    seed: u64,
    binary: Option<PathBuf>,
    help: bool,
}

impl Options {
    fn read(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<Self> {
        let mut options = Self {
            runs: RUNS,
            seed: 1,
            binary: None,
            help: false,
        };
        options.help = flags::each("noise", USAGE, args, |name, value| {
            let text = value.to_string_lossy().into_owned();
            match name {
                "--runs" => match text.parse() {
                    Ok(runs) if runs > 0 => options.runs = runs,
                    _ => bail!("`--runs {text}`: write a whole number above 0"),
                },
                "--seed" => match text.parse() {
                    Ok(seed) => options.seed = seed,
                    Err(_) => bail!("`--seed {text}`: write a whole number"),
                },
                _ => options.binary = Some(value.into()),
            }
            Ok(())
        })?;
        Ok(options)
    }
}

/// Runs the demos with the arguments that follow `noise`. The exit code is 1 when a requirement is not met.
///
/// # Errors
/// The arguments cannot be read, the program cannot be built, or a demo left no record.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let options = Options::read(args)?;
    let mut out = std::io::stdout();
    if options.help {
        writeln!(out, "{USAGE}")?;
        return Ok(ExitCode::SUCCESS);
    }
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
