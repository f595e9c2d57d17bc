//! What the makers of machines and of containers share: files written, commands run to their end.

use anyhow::{Context as _, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a file, and the directories above it.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    parents(path)?;
    fs::write(path, text).with_context(|| format!("`{}` cannot be written", path.display()))
}

/// Makes the directories above a file.
///
/// # Errors
/// They cannot be made.
pub(super) fn parents(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(parent).with_context(|| format!("`{}` cannot be made", parent.display()))
}

/// Runs a command to its end; what it printed.
///
/// # Errors
/// It cannot be started, or fails: its last words.
pub(super) fn tell(command: &[&str]) -> anyhow::Result<String> {
    let line = command.join(" ");
    let output = Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{}` cannot be started", command[0]))?;
    ensure!(
        output.status.success(),
        "`{line}` failed: {}",
        crate::faults::last_words(&String::from_utf8_lossy(&output.stderr))
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
