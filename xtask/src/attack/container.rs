//! Everything once more as root of a container: one that may make namespaces, in which a lab is closed, and one with the usual
//! rights, in which none is started.

use super::site::run;
use super::table::{Row, Verdict};
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Longest time until a container has refused.
const LIMIT: Duration = Duration::from_secs(120);

/// A container that sees this machine's files and may change none of them, without a network.
fn podman(rights: &[&str]) -> Command {
    let mut command = Command::new("podman");
    command
        .args([
            "--cgroup-manager=cgroupfs",
            "--runtime",
            "runc",
            "run",
            "--rm",
        ])
        // Not more than this machine may allow itself.
        .args([
            "--ulimit",
            "nofile=8192:8192",
            "--ulimit",
            "nproc=8192:8192",
        ])
        .args(["--network", "none"])
        .args(rights)
        .args(["--rootfs", "/:O"]);
    command
}

/// Tries everything in one that may make namespaces, after a look whether one that may not is refused.
///
/// # Errors
/// There is no podman, or it starts nothing here.
pub(super) fn attempts(program: &Path) -> Result<(Row, ExitCode)> {
    let scenario = crate::workspace().join("apps/plain/kneepoint.toml");
    let mut usual = podman(&[]);
    usual.arg(program).arg("limit").arg(scenario);
    let tried = run(
        usual.args(["--budget", "10s", "--runs", "/tmp/runs"]),
        LIMIT,
    )?;
    // 125 to 127 are podman's own.
    ensure!(
        !matches!(tried.code, Some(125..=127)),
        "podman starts nothing here (packages podman and runc): {}",
        tried.said
    );
    let verdict = match tried.code {
        Some(2) => Verdict::Refused(tried.why()),
        code => Verdict::GotOut(format!("it ended with {code:?}")),
    };
    let what = "runs a limit as root of a container with the usual rights (1)";
    let row = Row::new("container", "usual-rights", what, verdict);
    let own = std::env::current_exe().context("this program")?;
    // A shell is the first process of the container: it collects what is orphaned there.
    let script = format!(
        "'{}' attack --binary '{}'; exit $?",
        own.display(),
        program.display()
    );
    let status = podman(&["--privileged"])
        .args(["sh", "-c", &script])
        .status()
        .context("podman cannot be started")?;
    Ok((
        row,
        match status.success() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    ))
}
