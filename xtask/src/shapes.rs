//! The bench of shapes: `kneepoint check` on stacks as people have them, in containers, pods and below panels, each
//! once with faults planted and once healthy.
//!
//! `shapes/README.md` documents the format. Each twin stands in a machine of its own: namespaces for processes, mounts
//! and network, so that the check sees a whole machine on which nothing else runs, and nothing is left when it is over.
//! The bench knows no rule: it compares codes with what a shape's file says.

mod chores;
mod engine;
mod image;
mod machine;
mod many;
mod place;
mod quiet;
mod reports;
mod shape;
mod table;
mod twin;
mod verdict;

use crate::{flags, program};
use anyhow::{Context as _, bail};
use shape::{Shape, Twin};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use table::{Outcome, Row, Table};

/// What was asked for on the command line.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// Directory of *.toml shapes (default: shapes/ of this repository)
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Try this shape only: its file name without .toml; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Also write the results there, renewed after every shape
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show what the check says of each twin
    #[arg(long)]
    show: bool,
    /// Look at the first stages of the field reports instead
    #[arg(long)]
    reports: bool,
    /// Measure the check and the watch on 300 workers in 50 pools instead, watching this many seconds twice
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "90")]
    many: Option<u64>,
    /// Stand one twin up in this directory: how the bench starts itself inside of a machine
    #[arg(long, hide = true, requires = "twin")]
    inside: Option<PathBuf>,
    /// Which twin
    #[arg(long, hide = true)]
    twin: Option<Twin>,
}

/// Runs the bench. The exit code is 1 when a planted fault is missed, when something is named that was not planted, when
/// the check did more than read, or when nothing ran.
///
/// # Errors
/// A shape cannot be read, the program cannot be built, or this is not Linux as root.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let binary = program::find(options.binary.as_deref())?;
    if options.reports {
        return reports::run(options, &binary);
    }
    if let Some(seconds) = options.many {
        return match &options.inside {
            Some(inside) => many::measure(inside, &binary, seconds).map(|()| ExitCode::SUCCESS),
            None => many::run(&binary, seconds),
        };
    }
    let dir = options.dir.clone();
    let dir = dir.unwrap_or_else(|| repository.join("shapes"));
    let shapes = flags::only(shape::read_dir(&dir)?, "shape", &options.only, |shape| {
        &shape.name
    })?;
    if let (Some(inside), Some(twin)) = (&options.inside, options.twin) {
        let [both] = shapes.as_slice() else {
            bail!("--inside takes one shape: name it with --only");
        };
        machine::stand(both.twin(twin), inside, &binary)?;
        return Ok(ExitCode::SUCCESS);
    }
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "the shapes need root: they stand in namespaces, as containers do"
    );
    let interrupted = flags::raised_by_signals()?;
    let table = run_all(&shapes, &binary, options, &interrupted)?;
    let mut out = std::io::stdout();
    write!(out, "{table}")?;
    let complete = !interrupted.load(Ordering::Relaxed);
    if !complete {
        writeln!(out, "interrupted: the table is not complete")?;
    }
    Ok(if complete && table.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn run_all(
    shapes: &[Shape],
    binary: &Path,
    options: &Options,
    interrupted: &AtomicBool,
) -> anyhow::Result<Table> {
    // Images of containers are made once, and go with the directory.
    let scratch = tempfile::Builder::new()
        .prefix("kneepoint-shapes-")
        .tempdir_in("/var/tmp")
        .context("there is no place for the shapes' images below /var/tmp")?;
    let mut progress = std::io::stderr();
    let mut table = Table::default();
    for (at, shape) in shapes.iter().enumerate() {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        writeln!(
            progress,
            "[{}/{}] {}: {}",
            at + 1,
            shapes.len(),
            shape.name,
            shape.healthy.about
        )?;
        let outcome = match shape.healthy.missing() {
            Some(missing) => Outcome::Skipped(format!("there is no {missing}")),
            None => twin::both(shape, binary, scratch.path(), options.show, interrupted),
        };
        let row = Row::new(shape, outcome);
        writeln!(progress, "      {}", row.in_words())?;
        table.rows.push(row);
        flags::write_json(options.json.as_deref(), &table.to_json())?;
    }
    Ok(table)
}
