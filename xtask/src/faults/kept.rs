//! Results of an earlier call: a bench of hours is run in parts.

use super::fault::Fault;
use super::table::{Outcome, Row, SCHEMA, Table};
use crate::flags;
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
        Ok(Self {
            rows: flags::kept_rows(path, SCHEMA, &build)?,
            path: path.map(Path::to_owned),
            build,
        })
    }

    /// What came of this very fault; `None` when it was not asked, or its file was another one. What was skipped may be
    /// there now, and what failed may not fail again.
    pub(super) fn row(&self, fault: &Fault) -> Option<Row> {
        let row = self.rows.iter().find(|row| row["name"] == *fault.name)?;
        if row["asked"] != fault.digest().as_str() || row["outcome"] != "judged" {
            return None;
        }
        let elapsed = Duration::try_from_secs_f64(row["elapsed_s"].as_f64()?).ok()?;
        let verdict = serde_json::from_value(row["verdict"].clone()).ok()?;
        Some(Row::new(fault.clone(), elapsed, Outcome::Judged(verdict)))
    }

    /// Writes the results so far, with those rows of before that this call did not come to. The summary counts those of this
    /// call, as the table for people does.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, table: &Table) -> anyhow::Result<()> {
        let mut all = table.to_json();
        all["build"] = self.build.as_str().into();
        all["summary_of"] = "this call".into();
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
    use super::super::verdict::Verdict;
    use super::*;

    fn fault(name: &str, rest: &str) -> Fault {
        let text = format!("about = \"x\"\nscenario = \"s.toml\"\nexpect = \"OPC-01\"\n{rest}");
        Fault::read(Path::new(&format!("/f/{name}.toml")), &text).expect(name)
    }

    fn row(name: &str, outcome: Outcome) -> Row {
        Row::new(fault(name, ""), Duration::from_secs(71), outcome)
    }

    fn judged(name: &str) -> Row {
        let verdict = Verdict {
            named: Some("OPC-01".into()),
            title: Some("title".into()),
            right: true,
            standing: "not tried".into(),
            won: false,
            gain: None,
            unmet: Vec::new(),
            times: None,
            false_alarms: Vec::new(),
        };
        row(name, Outcome::Judged(Box::new(verdict)))
    }

    /// A file that `build` filled with the results of faults `a` and `b`.
    fn filled(dir: &tempfile::TempDir, build: &str) -> PathBuf {
        let path = dir.path().join("results.json");
        let kept = Kept::read(Some(&path), build.into()).expect("no file yet");
        let table = Table {
            rows: vec![judged("a"), judged("b")],
        };
        kept.write(&table).expect("written");
        path
    }

    #[test]
    fn what_the_same_program_was_asked_is_not_asked_again() {
        let dir = tempfile::tempdir().expect("directory");
        let path = filled(&dir, "one");
        let kept = Kept::read(Some(&path), "one".into()).expect("ours");
        assert_eq!(kept.row(&fault("a", "")), Some(judged("a")));
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
            rows: vec![judged("c")],
        };
        kept.write(&table).expect("written");
        let kept = Kept::read(Some(&path), "one".into()).expect("ours");
        for name in ["a", "b", "c"] {
            assert_eq!(kept.row(&fault(name, "")), Some(judged(name)));
        }
        let text = std::fs::read_to_string(&path).expect("there");
        let all: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(all["summary"]["faults"], 1);
        assert_eq!(all["summary_of"], "this call");
    }

    #[test]
    fn what_failed_or_was_skipped_is_asked_again() {
        let dir = tempfile::tempdir().expect("directory");
        let path = filled(&dir, "one");
        let kept = Kept::read(Some(&path), "one".into()).expect("ours");
        let table = Table {
            rows: vec![
                row("a", Outcome::Failed("it said nothing".into())),
                row("b", Outcome::Skipped("needs root")),
            ],
        };
        kept.write(&table).expect("written");
        let kept = Kept::read(Some(&path), "one".into()).expect("ours");
        assert_eq!(kept.row(&fault("a", "")), None, "it may not fail again");
        assert_eq!(kept.row(&fault("b", "")), None, "it may be there now");
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let dir = tempfile::tempdir().expect("directory");
        let path = dir.path().join("mine.txt");
        for notes in [
            "my notes",
            "[1]",
            "{\"schema\": \"kneepoint.apps-faults/1\", \"build\": \"one\", \"rows\": []}",
        ] {
            std::fs::write(&path, notes).expect("written");
            let error = Kept::read(Some(&path), "one".into()).expect_err("not ours");
            assert!(error.to_string().contains("name another --json"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).expect("there"), notes);
        }
    }
}
