//! Kneepoint at the terminal: arguments, scenario files, progress, exit codes.
//!
//! This crate alone talks to people: it is the only one that prints, and the only one that knows clap,
//! indicatif or console. It must not measure, judge or configure anything itself.

pub mod args;
pub mod commands;
pub mod config;
pub mod field_report;
pub mod init;
pub mod progress;
mod rate;
mod say;
mod screen;
pub mod session;
pub mod stored;
mod table;

use clap::Parser as _;
use std::process::ExitCode;

/// Exit code when a threshold failed or something was found that needs a person.
pub const FOUND: u8 = 1;
/// Exit code when the tool itself failed.
pub const FAILED: u8 = 2;
/// Exit code when a gate could not tell.
pub const INCONCLUSIVE: u8 = 3;
/// Exit code when tuning ended and remedies of suspected findings could not be judged.
pub const UNDECIDED: u8 = 4;
/// Exit code after Ctrl-C, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Runs the program on the process' own arguments.
#[must_use]
pub fn main() -> ExitCode {
    let outcome = commands::helper().unwrap_or_else(|| commands::run(args::Args::parse().command));
    match outcome {
        Ok(code) => code,
        Err(error) => report_failure(&error),
    }
}

fn report_failure(error: &anyhow::Error) -> ExitCode {
    let line = |text: String| say::say_line(&kneepoint_report::redact_text(&text));
    line(format!("kneepoint: {error}"));
    for cause in error.chain().skip(1) {
        line(format!("  because {cause}"));
    }
    ExitCode::from(FAILED)
}
