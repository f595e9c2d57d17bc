//! The files under version control, and those about to be.

pub(crate) mod reach;
pub(crate) mod source;
pub(crate) mod test_code;
mod usages;

use anyhow::{Context as _, Result, bail};
use source::Source;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What the checks look at.
pub(crate) struct Tree {
    /// Every text file, by its path relative to the workspace.
    pub(crate) files: BTreeMap<String, String>,
    /// Every Rust file, parsed.
    pub(crate) sources: Vec<Source>,
}

impl Tree {
    /// Reads the files that git tracks or would track.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        for path in listed(root)? {
            // A file can be gone though the index still has it, and binary files hold no rule's subject.
            let Ok(bytes) = std::fs::read(root.join(&path)) else {
                continue;
            };
            if let Ok(text) = String::from_utf8(bytes) {
                files.insert(path, text);
            }
        }
        Ok(Self::new(files))
    }

    /// A planted tree.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self::new(files.iter().map(owned).collect())
    }

    fn new(files: BTreeMap<String, String>) -> Self {
        let mut sources: Vec<Source> = files
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| Source::parse(path, text))
            .collect();
        reach::mark(&mut sources);
        Self { files, sources }
    }

    /// The Rust files of a directory: `crates/kneepoint-model/src/`.
    pub(crate) fn under<'t>(&'t self, dir: &str) -> impl Iterator<Item = &'t Source> {
        let dir = dir.to_owned();
        self.sources
            .iter()
            .filter(move |source| source.path.starts_with(&dir))
    }
}

fn listed(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .context("`git ls-files` cannot be run")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`git ls-files` failed: {}", said.trim());
    }
    let text = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(text.split_terminator('\0').map(str::to_owned).collect())
}
