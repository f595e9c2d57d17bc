//! Past this machine: what becomes of a coordinator, a broker and 10, 100 or 1000 agents.
//!
//! A simulation of discrete events, fed with what `--measure` finds on this machine. docs/scale.md keeps the constants
//! and the results, and says what they mean.

mod calendar;
mod constants;
mod dice;
mod fleet;
mod measure;
mod tables;
mod world;

use anyhow::Context as _;
use constants::{MEASURED, Measured, TABLES, with_block};
use std::io::Write as _;
use std::process::ExitCode;

/// What was asked for on the command line.
#[derive(Debug, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// Measure the constants here (starts a nats-server on loopback) instead of reading them from docs/scale.md
    #[arg(long)]
    measure: bool,
    /// Write the constants and the results into docs/scale.md
    #[arg(long)]
    write: bool,
    /// Seed of all chances
    #[arg(long, value_name = "S", default_value = "1")]
    seed: u64,
}

/// Measures where that was asked for, simulates, and prints.
///
/// # Errors
/// docs/scale.md cannot be read or written, or there is no `nats-server` to measure.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let path = crate::workspace().join("docs/scale.md");
    let document = std::fs::read_to_string(&path)
        .with_context(|| format!("`{}` cannot be read", path.display()))?;
    let measured = if options.measure {
        measure::run(&mut out)?
    } else {
        Measured::from_document(&document)?
    };
    let tables = tables::render(&measured, options.seed);
    write!(out, "{tables}")?;
    if options.write {
        let document = with_block(&document, MEASURED, &measured.to_block()?)?;
        let document = with_block(&document, TABLES, &tables)?;
        std::fs::write(&path, document)
            .with_context(|| format!("`{}` cannot be written", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
