//! What the rules judged by: kept beside a bench, and judged anew by a later program without a load.

use anyhow::Context as _;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What becomes of the evidence of a bench.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub(crate) struct Evidence {
    /// Keep there what the rules judged by: DIR/NAME.json each
    #[arg(long = "evidence", value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Run nothing: have the program judge anew what --evidence kept there
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "json"])]
    judge: Option<PathBuf>,
}

impl Evidence {
    /// Makes the directory in which evidence is kept.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn prepare(&mut self) -> anyhow::Result<()> {
        if let Some(dir) = &mut self.keep {
            std::fs::create_dir_all(&dir)
                .with_context(|| format!("cannot make the directory {}", dir.display()))?;
            // The program runs in a directory of its own.
            *dir = std::path::absolute(&dir)?;
        }
        Ok(())
    }

    /// Whether evidence is judged anew.
    pub(crate) fn is_judged(&self) -> bool {
        self.judge.is_some()
    }

    /// What `kneepoint diagnose` is told besides, for what has this name. What an earlier run kept under it goes: it must not
    /// stand for this one, should it fail.
    pub(crate) fn arguments(&self, name: &str) -> Vec<OsString> {
        let Some(dir) = &self.keep else {
            return Vec::new();
        };
        let path = file(dir, name);
        let _ = std::fs::remove_file(&path);
        vec!["--evidence".into(), path.into()]
    }

    /// Whether a result that is known already does for what has this name: its evidence is there too, where it is to be kept.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.keep
            .as_ref()
            .is_none_or(|dir| file(dir, name).is_file())
    }

    /// What the program says of the evidence that was kept, as the record of a run that found nothing else; `None` where
    /// evidence is not to be judged anew.
    pub(crate) fn judged(&self, binary: &Path, name: &str) -> Option<Result<Value, String>> {
        let path = file(self.judge.as_ref()?, name);
        if !path.is_file() {
            return Some(Err(format!("no evidence was kept: {}", path.display())));
        }
        let asked = Command::new(binary)
            .args(["rules", "--json", "--judge"])
            .arg(&path)
            .output();
        Some(match asked {
            Err(error) => Err(format!("`{}` cannot be started: {error}", binary.display())),
            Ok(said) => {
                let findings: Option<Value> = serde_json::from_slice(&said.stdout).ok();
                let record = |findings| json!({"schema": "kneepoint.run/1", "run": {"ended": "finished", "findings": findings}});
                let words = || String::from_utf8_lossy(&said.stderr).trim().to_owned();
                findings.map(record).ok_or_else(words)
            }
        })
    }
}

fn file(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_kept_by_name_and_what_was_not_kept_is_said() {
        let dir = tempfile::tempdir().expect("temp dir");
        let keep = Evidence {
            keep: Some(dir.path().to_owned()),
            judge: None,
        };
        let path = dir.path().join("opcache-off.json");
        assert!(!keep.has("opcache-off"));
        std::fs::write(&path, "an earlier run").expect("written");
        assert!(keep.has("opcache-off"));
        let told: [OsString; 2] = ["--evidence".into(), path.clone().into()];
        assert_eq!(keep.arguments("opcache-off"), told);
        assert!(!path.exists(), "it would stand for the next run");
        assert_eq!(keep.judged(Path::new("/no/program"), "opcache-off"), None);
        let judge = Evidence {
            keep: None,
            judge: Some("/kept".into()),
        };
        assert!(judge.arguments("opcache-off").is_empty());
        let said = judge.judged(Path::new("/no/program"), "opcache-off");
        let words = "no evidence was kept: /kept/opcache-off.json";
        assert_eq!(said, Some(Err(words.to_owned())));
    }
}
