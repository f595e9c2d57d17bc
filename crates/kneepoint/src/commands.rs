//! One file per command.

mod check;
mod compare;
mod diagnose;
mod init;
mod lab;
mod limit;
mod load;
mod plan;
mod profile;
mod replay;
mod runs;
mod tune;

use crate::args::Command;
use anyhow::Result;
use std::process::ExitCode;

/// Becomes the helper of a command when the program was started as one.
#[must_use]
pub fn helper() -> Option<Result<ExitCode>> {
    let argument = std::env::args_os().nth(1);
    argument
        .is_some_and(|argument| argument == profile::ARGUMENT)
        .then(profile::help)
}

/// Runs one command.
///
/// # Errors
/// In words for the person at the terminal.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Demo(args) => tune::demo::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Agent(args) => load::run_agent(&args),
        Command::Watch(args) => check::watch::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Limit(args) => limit::run(&args),
        Command::Diagnose(args) => diagnose::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Report(args) => runs::report::run(&args),
        Command::Runs(args) => runs::run(&args),
        Command::Rules(args) => diagnose::rules::run(&args),
        Command::Explain(args) => diagnose::rules::explain(&args),
        Command::Lab { command } => lab::run(&command),
    }
}
