//! Chores of the repository: `cargo xtask COMMAND`.
//!
//! What is here serves the people who work on Kneepoint, never the program itself.

#![expect(
    clippy::disallowed_methods,
    reason = "chores run git, cargo, rustfmt and the program that was built"
)]

mod faults;
mod tidy;

use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  faults  run the fault bench on a real stack; faults --help says more
  tidy    check the structure: edges between crates, doors to the world, sizes, lists, format
  help    this text
";

#[expect(clippy::print_stderr, reason = "a chore talks to people")]
fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::from(2)
    })
}

fn run() -> Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let command = args.next().unwrap_or_else(|| "help".into());
    match command.to_string_lossy().as_ref() {
        "faults" => faults::run(args),
        "tidy" => match args.next() {
            None => tidy::run(workspace()).context("tidy cannot check the workspace"),
            Some(surplus) => bail!("tidy takes no argument, found `{}`", surplus.display()),
        },
        "help" | "--help" | "-h" => Ok(help()),
        unknown => bail!("there is no command `{unknown}`; `cargo xtask help` lists them"),
    }
}

#[expect(clippy::print_stdout, reason = "a chore talks to people")]
fn help() -> ExitCode {
    print!("{HELP}");
    ExitCode::SUCCESS
}

/// The workspace this program was built in.
fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}
