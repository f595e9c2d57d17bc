//! Chores of the repository: `cargo xtask COMMAND`.
//!
//! What is here serves the people who work on Kneepoint, never the program itself.

#![expect(
    clippy::disallowed_methods,
    reason = "chores run git, cargo, rustfmt, the program that was built, and for its bench servers and its peers"
)]

mod apps;
mod bench_load;
mod faults;
mod flags;
mod map;
mod measured;
mod memory;
mod method;
mod noise;
mod profile_cost;
mod program;
mod real;
mod site;
mod tidy;

use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  apps        applications that nobody here wrote, and faults planted in them; apps --help says more
  bench-load  compare the load engine with wrk, oha, k6 and others in the same run; bench-load --help says more
  faults      run the fault bench on a real stack; faults --help says more
  map         the rooms of each crate, a line each, and the arrows between them
  memory      measure the load engine's memory: 10 000 connections, and half an hour; memory --help says more
  method      try limits and comparisons on simulated stacks; method --help says more
  noise       the demo alone and beside a busy program; noise --help says more
  profile-cost
              what profiling costs busy workers, and itself; profile-cost --help says more
  real        try limits, comparisons, plans and tuning on real stacks; real --help says more
  tidy        check the structure: edges between crates, doors to the world, sizes, lists, format
  help        this text
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
        "apps" => apps::run(args),
        "bench-load" => bench_load::run(args),
        "faults" => faults::run(args),
        "map" => map::run(workspace()),
        "memory" => memory::run(args),
        "method" => method::run(args),
        "noise" => noise::run(args),
        "profile-cost" => profile_cost::run(args),
        "real" => real::run(args),
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
