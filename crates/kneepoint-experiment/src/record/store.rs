//! The run file: one SQLite database in WAL mode, committed record by record.
//!
//! A crash loses at most the step in flight. Records are only ever added; reading folds them in order.

mod cut_short;
mod read;

use crate::error::ExperimentError;
use kneepoint_model::mending::Mending;
use kneepoint_model::redact::{Redact as _, Secrets};
use kneepoint_model::replay::Replay;
use kneepoint_model::run::{
    Decision, FileDiff, JournalEntry, LimitResult, Machine, Observation, RUN_VERSION, Trial,
};
use kneepoint_model::{
    Account, CallTrace, CapacityPlan, Contest, Effect, Finding, GateResult, LatencyHistogram, Run,
    Second, Stack, StackProfile,
};
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Most runs that begin in one second and are kept apart.
const MOST_AT_ONCE: u32 = 1000;
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
    /// A finished second of a step in flight.
    Second(Box<InFlight>),
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
    /// In which order suspected causes are best mended.
    Mending(Box<Mending>),
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
    /// Takes out of it what nobody may read in a file or in a report.
    pub(crate) fn redact(&mut self, secrets: &Secrets) {
        match self {
            Self::Header(run) => run.redact(secrets),
            Self::Machine(_) | Self::Second(_) => {}
            Self::Base(stack) => stack.redact(secrets),
            Self::Best(stack, diff) => {
                stack.redact(secrets);
                diff.redact(secrets);
            }
            Self::Journal(entry) => entry.redact(secrets),
            Self::Trial(trial) => trial.redact(secrets),
            Self::Limit(limit) => limit.redact(secrets),
            Self::Observation(observation) => observation.redact(secrets),
            Self::Calls(calls) => calls.redact(secrets),
            Self::Stacks(stacks) => stacks.redact(secrets),
            Self::Account(account) => account.redact(secrets),
            Self::Findings(findings) => findings.redact(secrets),
            Self::Mending(order) => order.redact(secrets),
            Self::Decisions(decisions) => decisions.redact(secrets),
            Self::Proof(effect) | Self::Restarted(effect) => effect.redact(secrets),
            Self::Gate(gate) => gate.redact(secrets),
            Self::Capacity(plan) => plan.redact(secrets),
            Self::Contest(contest) => contest.redact(secrets),
            Self::Replay(replay) => replay.redact(secrets),
            Self::End(how) => secrets.prose(how),
        }
    }

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
            // Whoever reads puts seconds together where their step has no end.
            Self::Second(_) => {}
            Self::Trial(trial) => run.trials.push(*trial),
            Self::Limit(limit) => run.limits.push(limit),
            Self::Observation(observation) => run.observations.push(*observation),
            Self::Calls(calls) => run.calls.push(*calls),
            Self::Stacks(stacks) => run.stacks.push(*stacks),
            Self::Account(account) => run.accounts.push(*account),
            Self::Findings(findings) => run.findings = findings,
            Self::Mending(order) => run.mendings.push(*order),
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

/// A finished second of a step whose end is still to come.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct InFlight {
    /// Which configuration, or which target, is loaded.
    pub(super) arm: String,
    pub(super) second: Second,
    /// Response times of its `Ok` requests; `None` where there were none.
    pub(super) response: Option<Box<LatencyHistogram>>,
}

/// An open run file.
#[derive(Debug)]
pub struct RunStore {
    id: String,
    path: PathBuf,
    /// `None` behind a failure: one made anew holds no lock that the last could not give back.
    connection: Option<Connection>,
}

impl RunStore {
    /// Makes the file of a new run in a directory, which is made when it is missing. It is called as the run is, with a
    /// number behind where another run has that name: [`Self::id`] is the name then.
    ///
    /// # Errors
    /// The directory or file cannot be made: no permission, no space.
    pub fn create(directory: &Path, run: &Run) -> Result<Self, ExperimentError> {
        std::fs::create_dir_all(directory).map_err(|error| ExperimentError::Store {
            path: directory.display().to_string(),
            what: format!("cannot make the directory for runs: {error}; name another with --runs"),
        })?;
        let (id, path) = free_file(directory, &run.id)?;
        let make = || -> rusqlite::Result<Connection> {
            let connection = connect(&path)?;
            connection.pragma_update(None, "user_version", RUN_VERSION)?;
            connection.execute_batch(
                "create table record (id integer primary key, at_s real not null, json text not null)",
            )?;
            Ok(connection)
        };
        let connection = make().map_err(|error| failure(&path, &error, "cannot be made"))?;
        Ok(Self {
            id,
            path,
            connection: Some(connection),
        })
    }

    /// What the run of this file is called.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a record without its secrets; it is on disk when this returns, also after a power cut.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn append(
        &mut self,
        at_s: f64,
        record: &Record,
        secrets: &Secrets,
    ) -> Result<(), ExperimentError> {
        let mut record = record.clone();
        record.redact(secrets);
        let json = serde_json::to_value(&record)
            .map(|mut json| {
                // A second net, for a text that nobody thought of.
                secrets.everywhere(&mut json);
                json.to_string()
            })
            .map_err(|error| failure(&self.path, &error, "a record cannot be written as JSON"))?;
        let done = self.insert(at_s, json);
        if done.is_err() {
            self.connection = None;
        }
        done.map_err(|error| failure(&self.path, &error, "cannot be written (is the disk full?)"))
    }

    fn insert(&mut self, at_s: f64, json: String) -> rusqlite::Result<()> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(&self.path)?,
        };
        let insert = "insert into record (at_s, json) values (?1, ?2)";
        self.connection
            .insert(connection)
            .execute(insert, (at_s, json))?;
        Ok(())
    }

    /// Reads a run back, finished or not.
    ///
    /// # Errors
    /// Not a run file, of a version that this program does not know, or larger than any run.
    pub fn read(path: &Path) -> Result<Run, ExperimentError> {
        read::run(path)
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

/// Opens the file of a run to write into it.
fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // In WAL mode a commit reaches the disk before it returns only this way.
    connection.pragma_update(None, "synchronous", "full")?;
    Ok(connection)
}

/// Makes the file of a run of this name, or of one with a number behind: names have a second in them, and two runs may begin in
/// one.
fn free_file(directory: &Path, id: &str) -> Result<(String, PathBuf), ExperimentError> {
    let mut number = 1;
    loop {
        let name = match number {
            1 => id.to_owned(),
            // Behind the first of them in the order of names.
            _ => format!("{id}_{number}"),
        };
        let path = directory.join(format!("{name}.{EXTENSION}"));
        match private_file(&path) {
            Ok(()) => return Ok((name, path)),
            Err(error)
                if error.kind() == std::io::ErrorKind::AlreadyExists && number < MOST_AT_ONCE =>
            {
                number += 1;
            }
            Err(error) => return Err(failure(&path, &error, "cannot be made")),
        }
    }
}

/// Makes a file that its owner alone may read: it tells what an application is like inside. SQLite's files beside it take
/// the mode of this one.
fn private_file(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map(drop)
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
            .append(0.0, &Record::Header(Box::new(run())), &Secrets::default())
            .expect("header");
        let entry = JournalEntry {
            at_s: 1.0,
            kind: kneepoint_model::run::EntryKind::Stage,
            text: "limit".into(),
        };
        store
            .append(1.0, &Record::Journal(entry.clone()), &Secrets::default())
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

    /// A finished run in a directory.
    fn stored(directory: &Path) -> PathBuf {
        let mut store = RunStore::create(directory, &run()).expect("create");
        let header = Record::Header(Box::new(run()));
        store
            .append(0.0, &header, &Secrets::default())
            .expect("header");
        store
            .append(2.0, &Record::End("finished".into()), &Secrets::default())
            .expect("end");
        store.path().to_owned()
    }

    #[test]
    fn a_run_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().expect("temp dir");
        let mut store = RunStore::create(directory.path(), &run()).expect("create");
        let header = Record::Header(Box::new(run()));
        store
            .append(0.0, &header, &Secrets::default())
            .expect("header");
        let mut seen = 0;
        for entry in std::fs::read_dir(directory.path()).expect("a directory") {
            let entry = entry.expect("an entry");
            let mode = entry.metadata().expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", entry.path().display());
            seen += 1;
        }
        assert!(seen >= 2, "the log beside it was looked at too");
        let next = RunStore::create(directory.path(), &run()).expect("create");
        assert_ne!(next.path(), store.path(), "never another's file");
    }

    #[test]
    fn runs_that_begin_in_one_second_have_files_of_their_own() {
        let directory = tempfile::tempdir().expect("temp dir");
        let make = || RunStore::create(directory.path(), &run()).expect("create");
        let stores = [make(), make(), make()];
        let ids = ["", "_2", "_3"].map(|end| format!("{}{end}", run().id));
        assert_eq!(stores.each_ref().map(|store| store.id().to_owned()), ids);
        let listed = RunStore::list(directory.path());
        let paths = stores.each_ref().map(|store| store.path().to_owned());
        assert_eq!(listed, paths);
    }

    #[test]
    fn a_run_is_read_where_nothing_may_be_written() {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = stored(directory.path());
        // As root may write anywhere, what it leaves is looked at instead.
        let set = |mode| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(directory.path(), mode).expect("mode");
        };
        set(0o555);
        let bytes = std::fs::read(&path).expect("readable");
        let read = RunStore::read(&path);
        set(0o755);
        assert_eq!(read.expect("reads").ended, "finished");
        let files = std::fs::read_dir(directory.path()).expect("a directory");
        assert_eq!(files.count(), 1, "reading leaves nothing beside the file");
        assert_eq!(std::fs::read(&path).expect("readable"), bytes);
    }

    #[test]
    fn a_hostile_file_is_refused_in_bounded_time() {
        let directory = tempfile::tempdir().expect("temp dir");
        let endless = "create view record as with recursive n(i) as (select 1 union all select i + 1 from n) \
                       select i as id, 0.0 as at_s, '{}' as json from n";
        let many = "create table record (id integer primary key, at_s real not null, json text not null); \
                    insert into record values (1, 0.0, 5)";
        for (name, script) in [("view", endless), ("type", many)] {
            let path = directory.path().join(format!("{name}.kneepoint.sqlite"));
            let connection = Connection::open(&path).expect("a database");
            connection.execute_batch(script).expect("made");
            connection
                .pragma_update(None, "user_version", RUN_VERSION)
                .expect("set");
            drop(connection);
            let began = std::time::Instant::now();
            let error = RunStore::read(&path).expect_err("refused").to_string();
            assert!(began.elapsed().as_secs() < 5, "{name}: {error}");
        }
    }
}
