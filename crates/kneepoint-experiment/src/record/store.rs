//! The run file: one SQLite database in WAL mode, committed record by record.
//!
//! A crash loses at most the step in flight. Records are only ever added; reading folds them in order.

use crate::error::ExperimentError;
use kneepoint_model::replay::Replay;
use kneepoint_model::run::{
    Decision, FileDiff, JournalEntry, LimitResult, Machine, Observation, RUN_VERSION, Trial,
};
use kneepoint_model::{
    Account, CallTrace, CapacityPlan, Contest, Effect, Finding, GateResult, Run, Stack,
    StackProfile,
};
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The ending of run files.
const EXTENSION: &str = "kneepoint.sqlite";

/// One thing that happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Record {
    /// The run as it began.
    Header(Box<Run>),
    /// The machine.
    Machine(Machine),
    /// The stack at the start.
    Base(Box<Stack>),
    /// The stack at the end with the configuration diff.
    Best(Box<Stack>, Vec<FileDiff>),
    /// A journal line.
    Journal(JournalEntry),
    /// A measured step.
    Trial(Box<Trial>),
    /// A limit.
    Limit(LimitResult),
    /// A phase of a diagnosis.
    Observation(Box<Observation>),
    /// What requests do, call by call.
    Calls(Box<CallTrace>),
    /// The PHP stacks that workers were met on.
    Stacks(Box<StackProfile>),
    /// Where the CPU and a request's time went.
    Account(Box<Account>),
    /// All findings so far.
    Findings(Vec<Finding>),
    /// All decisions so far.
    Decisions(Vec<Decision>),
    /// Base against best.
    Proof(Effect),
    /// Best freshly started against the same as it stood.
    Restarted(Effect),
    /// What a gate decided.
    Gate(Box<GateResult>),
    /// What was predicted.
    Capacity(Box<CapacityPlan>),
    /// Configurations compared, as far as they are.
    Contest(Box<Contest>),
    /// A replayed report, as far as it is.
    Replay(Box<Replay>),
    /// How it ended.
    End(String),
}

impl Record {
    pub(crate) fn apply(self, run: &mut Run) {
        match self {
            Self::Header(header) => *run = *header,
            Self::Machine(machine) => run.machine = machine,
            Self::Base(stack) => run.base = Some(*stack),
            Self::Best(stack, diff) => {
                run.best = Some(*stack);
                run.diff = diff;
            }
            Self::Journal(entry) => run.journal.push(entry),
            Self::Trial(trial) => run.trials.push(*trial),
            Self::Limit(limit) => run.limits.push(limit),
            Self::Observation(observation) => run.observations.push(*observation),
            Self::Calls(calls) => run.calls.push(*calls),
            Self::Stacks(stacks) => run.stacks.push(*stacks),
            Self::Account(account) => run.accounts.push(*account),
            Self::Findings(findings) => run.findings = findings,
            Self::Decisions(decisions) => run.decisions = decisions,
            Self::Proof(effect) => run.proof = Some(effect),
            Self::Restarted(effect) => run.restarted = Some(effect),
            Self::Gate(gate) => run.gate = Some(*gate),
            Self::Capacity(plan) => run.capacity = Some(*plan),
            Self::Contest(contest) => run.contest = Some(*contest),
            Self::Replay(replay) => run.replay = Some(*replay),
            Self::End(how) => run.ended = how,
        }
    }
}

/// An open run file.
#[derive(Debug)]
pub struct RunStore {
    path: PathBuf,
    connection: Connection,
}

impl RunStore {
    /// Makes the file of a new run in a directory, which is made when it is missing.
    ///
    /// # Errors
    /// The directory or file cannot be made: no permission, no space.
    pub fn create(directory: &Path, run: &Run) -> Result<Self, ExperimentError> {
        let path = directory.join(format!("{}.{EXTENSION}", run.id));
        std::fs::create_dir_all(directory).map_err(|error| ExperimentError::Store {
            path: directory.display().to_string(),
            what: format!("cannot make the directory for runs: {error}; name another with --runs"),
        })?;
        let open = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(&path)?;
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", "normal")?;
            connection.pragma_update(None, "user_version", RUN_VERSION)?;
            connection.execute_batch(
                "create table record (id integer primary key, at_s real not null, json text not null)",
            )?;
            Ok(connection)
        };
        let connection = open().map_err(|error| failure(&path, &error, "cannot be made"))?;
        Ok(Self { path, connection })
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a record; it is on disk when this returns.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn append(&mut self, at_s: f64, record: &Record) -> Result<(), ExperimentError> {
        let json = serde_json::to_string(record)
            .map_err(|error| failure(&self.path, &error, "a record cannot be written as JSON"))?;
        self.connection
            .execute(
                "insert into record (at_s, json) values (?1, ?2)",
                (at_s, json),
            )
            .map_err(|error| {
                failure(&self.path, &error, "cannot be written (is the disk full?)")
            })?;
        Ok(())
    }

    /// Reads a run back, finished or not.
    ///
    /// # Errors
    /// Not a run file, or of a version that this program does not know.
    pub fn read(path: &Path) -> Result<Run, ExperimentError> {
        let fold = || -> rusqlite::Result<Result<Run, String>> {
            let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            let version: u32 =
                connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if version == 0 || version > RUN_VERSION {
                return Ok(Err(format!(
                    "is of version {version}, this program reads 1 to {RUN_VERSION}: use the Kneepoint that wrote it"
                )));
            }
            let mut run = Run::default();
            let mut statement = connection.prepare("select at_s, json from record order by id")?;
            let mut rows = statement.query(())?;
            while let Some(row) = rows.next()? {
                let (at_s, json): (f64, String) = (row.get(0)?, row.get(1)?);
                match serde_json::from_str::<Record>(&json) {
                    Ok(record) => record.apply(&mut run),
                    Err(error) => {
                        return Ok(Err(format!(
                            "holds a record this program cannot read: {error}"
                        )));
                    }
                }
                run.elapsed_s = at_s;
            }
            run.upgrade();
            Ok(Ok(run))
        };
        fold()
            .map_err(|error| failure(path, &error, "is not a run file that can be read"))?
            .map_err(|what| ExperimentError::Store {
                path: path.display().to_string(),
                what,
            })
    }

    /// The run files of a directory, newest last.
    #[must_use]
    pub fn list(directory: &Path) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with(EXTENSION))
            .collect();
        files.sort();
        files
    }
}

fn failure(path: &Path, error: &dyn std::fmt::Display, what: &str) -> ExperimentError {
    ExperimentError::Store {
        path: path.display().to_string(),
        what: format!("{what}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            version: RUN_VERSION,
            id: "20260101-000000-test-limit".into(),
            command: "limit".into(),
            ..Run::default()
        }
    }

    #[test]
    fn what_was_written_is_read_back_though_the_writer_died() {
        let directory = tempfile::tempdir().expect("temp dir");
        let mut store = RunStore::create(directory.path(), &run()).expect("create");
        store
            .append(0.0, &Record::Header(Box::new(run())))
            .expect("header");
        let entry = JournalEntry {
            at_s: 1.0,
            kind: kneepoint_model::run::EntryKind::Stage,
            text: "limit".into(),
        };
        store
            .append(1.0, &Record::Journal(entry.clone()))
            .expect("journal");
        let path = store.path().to_owned();
        // The writer dies without closing the database.
        std::mem::forget(store);
        let read = RunStore::read(&path).expect("reads");
        assert_eq!(read.journal, vec![entry]);
        assert_eq!((read.ended.as_str(), read.elapsed_s), ("", 1.0));
        assert_eq!(RunStore::list(directory.path()), vec![path]);
    }

    #[test]
    fn a_file_that_is_no_run_is_refused_in_words() {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = directory.path().join("x.kneepoint.sqlite");
        for content in [
            &b""[..],
            b"not a database at all, but long enough to look at",
        ] {
            std::fs::write(&path, content).expect("write");
            let error = RunStore::read(&path).expect_err("refused").to_string();
            assert!(error.contains("x.kneepoint.sqlite"), "{error}");
        }
    }
}
