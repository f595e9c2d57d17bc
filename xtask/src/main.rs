//! Chores of the repository: `cargo xtask COMMAND`.
//!
//! What is here serves the people who work on Kneepoint, never the program itself.

#![expect(
    clippy::disallowed_methods,
    reason = "chores run git, cargo, rustfmt, the program that was built, and for its bench servers and its peers"
)]

mod apps;
mod attack;
mod bench_load;
mod costs;
mod faults;
mod flags;
mod method;
mod noise;
mod program;
mod real;
mod shapes;
mod tidy;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use costs::{memory, profile_cost, scale};
use std::path::Path;
use std::process::ExitCode;

/// Chores of the repository, for the people who work on Kneepoint.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Several generators as one, and what becomes of a load when one of them, the broker or the coordinator fails
    Agents(real::agents::Options),
    /// Applications that nobody here wrote, and faults planted in them
    Apps(apps::Options),
    /// Try to get out of the lab, as a hostile application, another user and a hostile file
    Attack(attack::Options),
    /// Compare the load engine with wrk, oha, k6 and others in the same run
    BenchLoad(bench_load::Options),
    /// Run the fault bench on a real stack
    Faults(faults::Options),
    /// The rooms of each crate, a line each, and the arrows between them
    Map,
    /// Measure the load engine's memory: 10 000 connections, and half an hour
    Memory(memory::Options),
    /// Try limits and comparisons on simulated stacks
    Method(method::Options),
    /// The demo alone and beside a busy program
    Noise(noise::Options),
    /// What profiling costs busy workers, and itself
    ProfileCost(profile_cost::Options),
    /// Try limits, comparisons, plans and tuning on real stacks
    Real(real::Options),
    /// Simulate 10 to 10 000 agents: skew, detection of the dead, the coordinator's CPU and bandwidth, broker restarts
    Scale(scale::Options),
    /// Try `kneepoint check` on stacks as people have them, broken and healthy
    Shapes(shapes::Options),
    /// Send signals at random moments to each process of real runs, and see that nothing is left or lost
    Signals(attack::signals::Options),
    /// Check the structure: edges between crates, doors to the world, sizes, lists, format
    Tidy,
}

#[expect(clippy::print_stderr, reason = "a chore talks to people")]
fn main() -> ExitCode {
    run(Xtask::parse().command).unwrap_or_else(|error| {
        eprintln!("xtask: {error:#}");
        ExitCode::from(2)
    })
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Agents(options) => real::agents::run(&options),
        Command::Apps(options) => apps::run(&options),
        Command::Attack(options) => attack::run(&options),
        Command::BenchLoad(options) => bench_load::run(options),
        Command::Faults(options) => faults::run(options),
        Command::Map => tidy::map::run(workspace()),
        Command::Memory(options) => memory::run(options),
        Command::Method(options) => method::run(&options),
        Command::Noise(options) => noise::run(&options),
        Command::ProfileCost(options) => profile_cost::run(options),
        Command::Real(options) => real::run(&options),
        Command::Scale(options) => scale::run(&options),
        Command::Shapes(options) => shapes::run(&options),
        Command::Signals(options) => attack::signals::run(&options),
        Command::Tidy => tidy::run(workspace()).context("tidy cannot check the workspace"),
    }
}

/// The workspace this program was built in.
fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Xtask::command().debug_assert();
    }
}
