//! The built program, run as anybody would run it.

use crate::program::evidence::Evidence;
use crate::program::measured;
use anyhow::Context as _;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Load time of a limit and of a diagnosis, unless another was asked for.
const LIMIT: Duration = Duration::from_secs(90);
const DIAGNOSIS: Duration = Duration::from_secs(120);

/// Runs the program.
pub(super) struct Program {
    pub(super) binary: PathBuf,
    pub(super) interrupted: Arc<AtomicBool>,
    /// Whether what the rules of a diagnosis judged by is kept.
    pub(super) evidence: Evidence,
    /// What it is told to take; `None` for what is usual.
    pub(super) budget: Option<Duration>,
}

impl Program {
    /// `kneepoint init DIR`.
    ///
    /// # Errors
    /// It refuses, or takes too long: its last words.
    pub(super) fn init(&self, dir: &Path, patience: Duration) -> Result<(), String> {
        let mut command = Command::new(&self.binary);
        let done = measured::run(
            command.arg("init").arg(dir),
            patience,
            &self.interrupted,
            &mut |_, _| {},
        )
        .map_err(|error| format!("{error:#}"))?;
        if done.status.success() {
            return Ok(());
        }
        Err(crate::faults::last_words(&done.stderr))
    }

    /// The record of `limit` or `diagnose` of a scenario, with more arguments, or what went wrong in the program's own last
    /// words. Runs and reports go into `scratch`.
    ///
    /// # Errors
    /// The scratch directory cannot be used. A program that fails is not an error.
    pub(super) fn measure(
        &self,
        command: &str,
        scenario: &Path,
        more: &[&std::ffi::OsStr],
        scratch: &Path,
        patience: Duration,
    ) -> anyhow::Result<Result<Value, String>> {
        let record = scratch.join(format!("{command}.json"));
        let usual = if command == "limit" { LIMIT } else { DIAGNOSIS };
        let budget = self.budget.unwrap_or(usual);
        let done = measured::run(
            Command::new(&self.binary)
                .arg(command)
                .arg(scenario)
                .args(["--no-report", "--budget"])
                .arg(format!("{}s", budget.as_secs()))
                .arg("--runs")
                .arg(scratch.join("runs"))
                .arg("--json")
                .arg(&record)
                .args(more)
                .current_dir(scratch),
            patience,
            &self.interrupted,
            &mut |_, _| {},
        );
        Ok(match done {
            Err(error) => Err(format!("{error:#}")),
            // The record decides, not the exit code: a verdict has one, too.
            Ok(done) => match std::fs::read_to_string(&record) {
                Ok(text) => Ok(serde_json::from_str(&text).context("the record is not JSON")?),
                Err(_) => Err(crate::faults::last_words(&done.stderr)),
            },
        })
    }
}
