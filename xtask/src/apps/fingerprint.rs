//! Whether a directory is bit for bit as it was.

use anyhow::{Context as _, ensure};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What `init` is asked to write; everything else has to stay as it is.
const WRITTEN_BY_INIT: &str = "./kneepoint.toml";

/// Every path below a directory with its kind, mode, owner, time of change, target and content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fingerprint(BTreeMap<String, String>);

impl Fingerprint {
    /// Takes it now. The time of a directory is left out: writing the scenario changes that of the topmost.
    ///
    /// # Errors
    /// Something cannot be read.
    pub(super) fn of(dir: &Path) -> anyhow::Result<Self> {
        let mut entries = BTreeMap::new();
        let listed = output(
            dir,
            &["find", ".", "-type", "d", "-printf", "%p\\t%y %m %U %G\\n"],
        )?;
        let others = "%p\\t%y %m %U %G %s %T@ %l\\n";
        let files = output(dir, &["find", ".", "!", "-type", "d", "-printf", others])?;
        for line in listed.lines().chain(files.lines()) {
            let (path, rest) = line.split_once('\t').unwrap_or((line, ""));
            entries.insert(path.to_owned(), rest.to_owned());
        }
        // Content by a program: in an unoptimised build, hashing a wiki here takes a minute.
        let hashes = output(
            dir,
            &["find", ".", "-type", "f", "-exec", "sha256sum", "{}", "+"],
        )?;
        for line in hashes.lines() {
            let (hash, path) = line.split_once("  ").unwrap_or((line, ""));
            entries.entry(path.to_owned()).or_default().push_str(hash);
        }
        entries.remove(WRITTEN_BY_INIT);
        Ok(Self(entries))
    }

    /// What is different in a later one, in a sentence; `None` when nothing is.
    pub(super) fn changed(&self, later: &Self) -> Option<String> {
        let gone = self
            .0
            .iter()
            .filter(|(path, what)| later.0.get(*path) != Some(what));
        let new = later.0.keys().filter(|path| !self.0.contains_key(*path));
        let paths: Vec<&str> = gone
            .map(|(path, _)| path)
            .chain(new)
            .map(String::as_str)
            .collect();
        match paths.as_slice() {
            [] => None,
            [one] => Some(format!("{one} was changed")),
            [first, rest @ ..] => Some(format!("{first} and {} more were changed", rest.len())),
        }
    }
}

fn output(dir: &Path, command: &[&str]) -> anyhow::Result<String> {
    let done = Command::new(command[0])
        .args(&command[1..])
        .current_dir(dir)
        .output()
        .with_context(|| format!("{} cannot be started", command[0]))?;
    ensure!(
        done.status.success(),
        "`{}` cannot be read: {}",
        dir.display(),
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn whatever_is_changed_is_told_and_the_scenario_of_init_is_not() {
        let dir = tempfile::tempdir().expect("directory");
        fs::create_dir(dir.path().join("data")).expect("directory");
        fs::write(dir.path().join("data/a.txt"), "one").expect("file");
        let before = Fingerprint::of(dir.path()).expect("fingerprint");
        let changed = || before.changed(&Fingerprint::of(dir.path()).expect("fingerprint"));
        fs::write(dir.path().join("kneepoint.toml"), "[app]").expect("file");
        assert_eq!(changed(), None);
        fs::write(dir.path().join("data/b.txt"), "new").expect("file");
        assert_eq!(changed().as_deref(), Some("./data/b.txt was changed"));
        fs::write(dir.path().join("data/a.txt"), "two").expect("file");
        assert_eq!(
            changed().as_deref(),
            Some("./data/a.txt and 1 more were changed")
        );
        fs::remove_file(dir.path().join("data/b.txt")).expect("file");
        fs::remove_file(dir.path().join("data/a.txt")).expect("file");
        assert_eq!(changed().as_deref(), Some("./data/a.txt was changed"));
    }
}
