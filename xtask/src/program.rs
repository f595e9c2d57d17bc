//! The program under test: the one that was named, or one that is built for the occasion.

pub(crate) mod evidence;
pub(crate) mod measured;
pub(crate) mod site;

use anyhow::{Context as _, ensure};
use kneepoint_model::LoadPoint;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program at this path, or, without one, the program of this repository, built and optimised.
///
/// # Errors
/// There is nothing at the path, or the program does not build.
pub(crate) fn find(binary: Option<&Path>) -> anyhow::Result<PathBuf> {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let binary = match binary {
        Some(path) => std::path::absolute(path)?,
        None => build(&repository)?,
    };
    ensure!(
        binary.is_file(),
        "there is no program at `{}`: give another --binary, or none to have it built",
        binary.display()
    );
    Ok(binary)
}

/// Which program it is, for results that are kept: what another one said does not count.
///
/// # Errors
/// It cannot be looked at.
pub(crate) fn identity(binary: &Path) -> anyhow::Result<String> {
    let about = std::fs::metadata(binary)?;
    let changed = about.modified()?.duration_since(std::time::UNIX_EPOCH)?;
    Ok(format!("{} bytes, {} s", about.len(), changed.as_secs()))
}

/// What `kneepoint load --json` says of its only target.
///
/// # Errors
/// It is not what the program prints.
pub(crate) fn load_point(stdout: &str) -> anyhow::Result<LoadPoint> {
    let mut all: Value = serde_json::from_str(stdout).context("the answer is not JSON")?;
    let point = all
        .pointer_mut("/0/result")
        .map(Value::take)
        .context("the answer has no result")?;
    serde_json::from_value(point).context("the result is no load point")
}

fn build(repository: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "-p", "kneepoint"])
        .current_dir(repository)
        .status()
        .context("cargo cannot be started to build the program")?;
    ensure!(
        status.success(),
        "the program does not build: repair it, or test another one with --binary"
    );
    let metadata = cargo_metadata::MetadataCommand::new()
        .current_dir(repository)
        .no_deps()
        .exec()?;
    Ok(metadata.target_directory.join("release/kneepoint").into())
}
