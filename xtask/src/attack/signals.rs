//! Signals at random moments to each process that a run has, as many as are wanted: the test of the program with more of them.

use anyhow::{Context as _, Result};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

/// The test that sends them; sixty in `make test`.
const TEST: &str = "cleanup::signals::signals_at_random_moments_leave_nothing_and_lose_nothing";

/// What was asked for on the command line.
#[derive(Debug, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// How many signals
    #[arg(long, value_name = "N", default_value_t = 1000)]
    count: u64,
    /// The seed of victims, signals and moments (default: the clock)
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Sends them. The exit code is 1 when something was left, stood still or was lost.
///
/// # Errors
/// Cargo cannot be started.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(1, |since| since.as_secs())
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .current_dir(crate::workspace())
        .args(["test", "-p", "kneepoint", "--test", "it", "--"])
        .args(["--exact", "--nocapture", TEST])
        .env("KNEEPOINT_SIGNALS", options.count.to_string())
        .env(
            "KNEEPOINT_SIGNALS_SEED",
            options.seed.unwrap_or_else(now).to_string(),
        )
        .status()
        .context("cargo cannot be started")?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
