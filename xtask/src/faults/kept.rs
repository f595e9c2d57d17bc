//! Results of an earlier call: a bench of hours is run in parts.

use super::fault::Fault;
use super::table::{Row, Table};
use crate::flags;
use anyhow::Context as _;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the same program was asked before, and where results are written.
#[derive(Debug, Default)]
pub(super) struct Kept {
    path: Option<PathBuf>,
    build: String,
    /// Rows as [`Table::to_json`] writes them.
    rows: Vec<Value>,
}

impl Kept {
    /// Reads the file that [`Kept::write`] fills. It has nothing for us when it is not there or is about another program.
    ///
    /// # Errors
    /// The file is there and is none of ours.
    pub(super) fn read(path: Option<&Path>, build: String) -> anyhow::Result<Self> {
        let mut kept = Self {
            path: path.map(Path::to_owned),
            build,
            rows: Vec::new(),
        };
        let Some(path) = path else { return Ok(kept) };
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(kept),
            text => text?,
        };
        let ours = || {
            format!(
                "`{}` holds no results of this bench: name another --json",
                path.display()
            )
        };
        let mut value: Value = serde_json::from_str(&text).with_context(ours)?;
        if value["build"] == kept.build.as_str() {
            kept.rows = serde_json::from_value(value["rows"].take()).with_context(ours)?;
        }
        Ok(kept)
    }

    /// What came of this very fault; `None` when it was not asked, or its file was another one. What was skipped may be
    /// there now.
    pub(super) fn row(&self, fault: &Fault) -> Option<Row> {
        let row = self.rows.iter().find(|row| row["name"] == *fault.name)?;
        if row["asked"] != fault.digest().as_str() {
            return None;
        }
        let elapsed = Duration::try_from_secs_f64(row["elapsed_s"].as_f64()?).ok()?;
        let outcome = match row["outcome"].as_str()? {
            "judged" => serde_json::from_value(row["verdict"].clone())
                .ok()
                .map(super::Outcome::Judged)?,
            "failed" => super::Outcome::Failed(row["why"].as_str()?.to_owned()),
            _ => return None,
        };
        Some(Row::new(fault.clone(), elapsed, outcome))
    }

    /// Writes the results so far, with those rows of before that this call did not come to.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, table: &Table) -> anyhow::Result<()> {
        let mut all = table.to_json();
        all["build"] = self.build.as_str().into();
        let Some(rows) = all["rows"].as_array_mut() else {
            return Ok(());
        };
        let others = self.rows.iter();
        let others: Vec<Value> = others
            .filter(|old| rows.iter().all(|new| new["name"] != old["name"]))
            .cloned()
            .collect();
        rows.extend(others);
        flags::write_json(self.path.as_deref(), &all)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    fn fault(name: &str, rest: &str) -> Fault {
        let text = format!("about = \"x\"\nscenario = \"s.toml\"\nexpect = \"OPC-01\"\n{rest}");
        Fault::read(Path::new(&format!("/f/{name}.toml")), &text).expect(name)
    }

    fn failed(name: &str) -> Row {
        let outcome = Outcome::Failed("it said nothing".into());
        Row::new(fault(name, ""), Duration::from_secs(71), outcome)
    }

    /// A file that `build` filled with the results of faults `a` and `b`.
    fn filled(dir: &tempfile::TempDir, build: &str) -> PathBuf {
        let path = dir.path().join("results.json");
        let kept = Kept::read(Some(&path), build.into()).expect("no file yet");
        let table = Table {
            rows: vec![failed("a"), failed("b")],
        };
        kept.write(&table).expect("written");
        path
    }

    #[test]
    fn what_the_same_program_was_asked_is_not_asked_again() {
        let dir = tempfile::tempdir().expect("directory");
        let path = filled(&dir, "one");
        let kept = Kept::read(Some(&path), "one".into()).expect("ours");
        assert_eq!(kept.row(&fault("a", "")), Some(failed("a")));
        assert_eq!(kept.row(&fault("c", "")), None, "it was not asked");
        let other = fault("a", "[inject.hosts.php]\ncpus = 1\n");
        assert_eq!(kept.row(&other), None, "its file is another one now");
        let kept = Kept::read(Some(&path), "two".into()).expect("ours");
        assert_eq!(
            kept.row(&fault("a", "")),
            None,
            "the program is another one"
        );
    }

    #[test]
    fn parts_are_joined() {
        let dir = tempfile::tempdir().expect("directory");
        let path = filled(&dir, "one");
        let kept = Kept::read(Some(&path), "one".into()).expect("ours");
        let table = Table {
            rows: vec![failed("c")],
        };
        kept.write(&table).expect("written");
        let kept = Kept::read(Some(&path), "one".into()).expect("ours");
        for name in ["a", "b", "c"] {
            assert_eq!(kept.row(&fault(name, "")), Some(failed(name)));
        }
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("mine.txt");
        std::fs::write(&path, "my notes").expect("written");
        let error = Kept::read(Some(&path), "one".into()).expect_err("not ours");
        assert!(error.to_string().contains("name another --json"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "my notes");
    }
}
