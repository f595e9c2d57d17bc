//! Writes down what happens, in the order it happens: in memory, in the run file, and to whoever watches.

use super::budget::{ENDING, RunBudget, TimeNeed};
use super::flight::Flight;
use super::in_words;
use super::store::{Record, RunStore};
use crate::error::ExperimentError;
use kneepoint_model::redact::Secrets;
use kneepoint_model::run::{Decision, EntryKind, JournalEntry, RUN_VERSION, Trial, TrialId};
use kneepoint_model::{
    CallTrace, CpuTime, Effect, Finding, LoadPoint, Outcome, Run, Scenario, StackProfile, Validity,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Something a watcher may show.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A line of the journal.
    Journal(&'a JournalEntry),
    /// What is being done, how much of it is done (0 to 1) and how long it may still take.
    Progress {
        /// In words.
        what: &'a str,
        /// Share done.
        share: f64,
        /// Time left, when it can be told.
        left: Option<Duration>,
    },
    /// Something happened to one of several generators: silent, gone, back.
    Generator(&'a str),
    /// Load is being driven: the last second.
    Load {
        /// Requests per second that met the SLO.
        goodput_hz: f64,
        /// 95th percentile of the response time in ms.
        p95_ms: Option<f64>,
        /// Requests that failed.
        failed: u64,
    },
}

/// Whoever watches a run.
pub trait Observer: Sync {
    /// Called as things happen; must not block for long.
    fn event(&self, event: &Event<'_>);
}

/// Watches nothing.
impl Observer for () {
    fn event(&self, _event: &Event<'_>) {}
}

/// The notebook of a run. What leaves it has lost its secrets: the lines that are told, the file, and the run at its end.
/// What a run goes on by, such as a setting that was kept, stays as it is until then.
pub struct Recorder<'a> {
    run: Run,
    secrets: Secrets,
    store: Option<Arc<Mutex<RunStore>>>,
    path: Option<PathBuf>,
    store_error: Option<String>,
    budget: RunBudget,
    observer: &'a dyn Observer,
    stop: Arc<AtomicBool>,
}

impl<'a> Recorder<'a> {
    /// Opens a run. With a directory, it is also written to a file in it, step by step.
    ///
    /// # Errors
    /// The run file cannot be made.
    pub fn new(
        command: &str,
        scenario: &Scenario,
        directory: Option<&Path>,
        observer: &'a dyn Observer,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, ExperimentError> {
        let run = Run {
            scenario: Some(scenario.clone()),
            ..begun(command, &format!("{}-{command}", scenario.slug()))
        };
        let mut secrets = Secrets::default();
        learn(&mut secrets, scenario);
        Self::open(run, secrets, directory, observer, stop)
    }

    /// Opens the record of a load that no scenario asked for.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_load(
        directory: &Path,
        observer: &'a dyn Observer,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, ExperimentError> {
        let run = begun("load", "load");
        Self::open(run, Secrets::default(), Some(directory), observer, stop)
    }

    fn open(
        mut run: Run,
        secrets: Secrets,
        directory: Option<&Path>,
        observer: &'a dyn Observer,
        stop: Arc<AtomicBool>,
    ) -> Result<Self, ExperimentError> {
        let mut store = directory
            .map(|directory| RunStore::create(directory, &run))
            .transpose()?;
        if let Some(store) = &mut store {
            store.id().clone_into(&mut run.id);
            store.append(0.0, &Record::Header(Box::new(run.clone())), &secrets)?;
        }
        Ok(Self {
            run,
            secrets,
            path: store.as_ref().map(|store| store.path().to_owned()),
            store: store.map(|store| Arc::new(Mutex::new(store))),
            store_error: None,
            budget: RunBudget::begin(),
            observer,
            stop,
        })
    }

    /// Learns what a further scenario of the run gives away, before anything is recorded of it.
    pub fn know(&mut self, scenario: &Scenario) {
        learn(&mut self.secrets, scenario);
    }

    /// What was recorded so far.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The file the run is written to.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Where the seconds of steps in flight are written down; nothing without a file.
    #[must_use]
    pub fn flight(&self) -> Option<Flight> {
        let store = Arc::clone(self.store.as_ref()?);
        Some(Flight::new(store, self.budget.began()))
    }

    /// Time since the run began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.budget.elapsed()
    }

    /// Sets how long the run may take in all, counted from its beginning.
    pub fn set_budget(&mut self, budget: Duration) {
        self.budget.set(budget);
    }

    /// Keeps the run to a budget, where one was given, and says so before anything starts if it is too short for what it is to
    /// do.
    pub fn keep_to(&mut self, budget: Option<Duration>, need: &TimeNeed) {
        let Some(budget) = budget else { return };
        self.set_budget(budget);
        if let Some(warning) = need.warning(budget) {
            self.warn(warning);
        }
    }

    /// Time left of the budget; very long without one.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.budget.left()
    }

    /// Time left of the budget; nothing where none was set.
    #[must_use]
    pub fn left_of_budget(&self) -> Option<Duration> {
        self.budget.left_of_it()
    }

    /// What is left for measuring once the stack stands: all but what stopping it takes, and at least as much as an answer
    /// needs.
    #[must_use]
    pub fn left_to_measure(&self, least: Duration) -> Duration {
        self.left().saturating_sub(ENDING).max(least)
    }

    /// Ends here when somebody asked to stop.
    ///
    /// # Errors
    /// [`ExperimentError::Interrupted`].
    pub fn check_stop(&self) -> Result<(), ExperimentError> {
        if self.stop.load(Ordering::Relaxed) {
            Err(ExperimentError::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Says what is being done.
    pub fn progress(&self, what: &str, share: f64, left: Option<Duration>) {
        let left = left.or_else(|| self.budget.left_of_it());
        self.observer.event(&Event::Progress { what, share, left });
    }

    /// Writes a record to the file, without its secrets.
    fn append(&mut self, record: &Record) {
        let at_s = self.elapsed().as_secs_f64();
        self.run.elapsed_s = at_s;
        let Some(store) = &self.store else { return };
        let written = {
            let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
            store.append(at_s, record, &self.secrets)
        };
        if let Err(error) = written {
            // A finished measurement is not lost to a full disk: it stays in memory and in the report.
            if self.store_error.is_none() {
                let entry = self.entry(
                    EntryKind::Warning,
                    format!("{error}; the run goes on in memory"),
                );
                self.observer.event(&Event::Journal(&entry));
                self.run.journal.push(entry);
            }
            self.store_error = Some(error.to_string());
        }
    }

    fn entry(&self, kind: EntryKind, mut text: String) -> JournalEntry {
        self.secrets.prose(&mut text);
        JournalEntry {
            at_s: self.elapsed().as_secs_f64(),
            kind,
            text,
        }
    }

    fn journal(&mut self, kind: EntryKind, text: String) {
        let entry = self.entry(kind, text);
        self.observer.event(&Event::Journal(&entry));
        self.write(Record::Journal(entry));
    }

    /// A part of the job begins.
    pub fn stage(&mut self, text: impl Into<String>) {
        self.journal(EntryKind::Stage, text.into());
    }

    /// Something was measured or found.
    pub fn result(&mut self, text: impl Into<String>) {
        self.journal(EntryKind::Result, text.into());
    }

    /// A change was tried, kept or dropped.
    pub fn change(&mut self, text: impl Into<String>) {
        self.journal(EntryKind::Change, text.into());
    }

    /// Something is doubtful.
    pub fn warn(&mut self, text: impl Into<String>) {
        self.journal(EntryKind::Warning, text.into());
    }

    /// Records a measured step; returns its id.
    pub fn trial(&mut self, purpose: &str, arm: &str, load: LoadPoint) -> TrialId {
        self.trial_with_cpu(purpose, arm, load, None)
    }

    /// The same with the CPU time that was used meanwhile.
    pub fn trial_with_cpu(
        &mut self,
        purpose: &str,
        arm: &str,
        load: LoadPoint,
        cpu: Option<CpuTime>,
    ) -> TrialId {
        self.tell_other_pages(arm, &load);
        let id = TrialId(self.run.trials.len() as u64);
        let at_s = (self.elapsed().as_secs_f64() - load.window_s).max(0.0);
        let trial = Trial {
            id,
            purpose: purpose.to_owned(),
            arm: arm.to_owned(),
            at_s,
            load,
            cpu,
        };
        self.write(Record::Trial(Box::new(trial)));
        id
    }

    /// Says why a step does not count. The report sums such steps up from their own verdicts.
    pub(crate) fn say_when_invalid(&mut self, point: &LoadPoint) {
        if let Validity::Invalid { because } = &point.validity {
            self.result(format!("that step does not count: {}", because.join("; ")));
        }
    }

    /// Says once of each configuration and page when answers are other pages than they should be.
    fn tell_other_pages(&mut self, arm: &str, load: &LoadPoint) {
        let errors = self.run.scenario.as_ref().map_or(0.0, |s| s.slo.errors);
        let told = other_pages(&in_words(&self.run, arm), load, errors);
        let known = |what: &String| self.run.journal.iter().any(|entry| entry.text == *what);
        if let Some(what) = told.filter(|what| !known(what)) {
            self.warn(what);
        }
    }

    /// Writes down one thing that happened: in the run, and in its file.
    pub fn write(&mut self, record: Record) {
        self.append(&record);
        record.apply(&mut self.run);
    }

    /// Records what was seen from within the workers: the PHP stacks they were met on, and what requests do.
    pub fn inside(&mut self, stacks: Option<&StackProfile>, calls: Option<&CallTrace>) {
        let kept = |stacks: &StackProfile| StackProfile {
            moments: Vec::new(),
            ..stacks.clone()
        };
        let stacks = stacks.map(|stacks| Record::Stacks(Box::new(kept(stacks))));
        let calls = calls.map(|calls| Record::Calls(Box::new(calls.clone())));
        for record in stacks.into_iter().chain(calls) {
            self.write(record);
        }
    }

    /// Adds findings, or raises what is known about those there are ([`Run::find`]).
    pub fn findings(&mut self, findings: &[Finding]) {
        self.run.find(findings);
        let all = self.run.findings.clone();
        self.append(&Record::Findings(all));
    }

    /// Adds a decision ([`Run::decide`]).
    pub fn decision(&mut self, decision: Decision) {
        self.run.decide(decision);
        self.decisions();
    }

    /// Adds the leave-one-out of a kept decision.
    pub fn leave_one_out(&mut self, index: usize, effect: Effect) {
        if let Some(decision) = self.run.decisions.get_mut(index) {
            decision.leave_one_out = Some(effect);
        }
        self.decisions();
    }

    /// Takes a kept change back.
    pub fn take_back(&mut self, index: usize, reason: String) {
        if let Some(decision) = self.run.decisions.get_mut(index) {
            decision.kept = false;
            decision.reason = reason;
        }
        self.decisions();
    }

    /// Writes down all decisions as they are.
    fn decisions(&mut self) {
        let all = self.run.decisions.clone();
        self.append(&Record::Decisions(all));
    }

    /// Closes the run and hands it over, with why its file is incomplete, when it is.
    #[must_use]
    pub fn end(mut self, how: &str) -> (Run, Option<String>) {
        self.write(Record::End(how.to_owned()));
        self.secrets.take_out_of(&mut self.run);
        (self.run, self.store_error)
    }
}

/// A run that begins now.
fn begun(command: &str, name: &str) -> Run {
    let now = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC);
    Run {
        version: RUN_VERSION,
        id: format!("{}-{name}", now.strftime("%Y%m%d-%H%M%S")),
        command: command.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        ..Run::default()
    }
}

/// What a scenario gives away, and what its application reads from a file beside it.
#[must_use]
pub fn secrets_of(scenario: &Scenario) -> Secrets {
    let mut secrets = Secrets::default();
    learn(&mut secrets, scenario);
    secrets
}

/// Learns what a scenario gives away, and what its application reads from a file beside it, which may turn up in what the
/// application says.
fn learn(secrets: &mut Secrets, scenario: &Scenario) {
    secrets.know(scenario);
    // What cannot be read the application cannot read either.
    secrets.know_dotenv(&kneepoint_stack::application::dotenv_text(&scenario.root));
}

/// That more answers than the share that may fail came in time and with the right status, and were another page.
fn other_pages(arm: &str, load: &LoadPoint, errors: f64) -> Option<String> {
    let wrong = load.outcomes.of(Outcome::WrongBody);
    let kind = format!(": {}, ", Outcome::WrongBody.name());
    let example = load.examples.iter().find(|text| text.contains(&kind))?;
    (wrong as f64 > errors * load.arrivals as f64).then(|| {
        format!(
            "answers of {arm} are another page under load than they should be, and count as failed. For example {example}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_file_that_lacks_nothing_but_its_end_is_incomplete() {
        let directory = tempfile::tempdir().expect("temp dir");
        let recorder = Recorder::of_load(directory.path(), &(), Arc::default()).expect("a run");
        let file = recorder.path().expect("a file").to_owned();
        let other = rusqlite::Connection::open(file).expect("a database");
        other.execute_batch("drop table record").expect("dropped");
        let (run, incomplete) = recorder.end("finished");
        assert_eq!(run.ended, "finished");
        assert!(incomplete.is_some());
    }

    /// Whether something is said of a load in which so many of 1000 answers were another page.
    fn told(wrong: u64) -> Option<String> {
        let mut load = LoadPoint {
            arrivals: 1000,
            examples: vec![
                "GET /: wrong body, status 200, expected a body with \"x\": Sorry".into(),
            ],
            ..LoadPoint::default()
        };
        load.outcomes.by_outcome.insert(Outcome::WrongBody, wrong);
        other_pages("base", &load, 0.001)
    }

    #[test]
    fn another_page_under_load_is_told_beyond_what_may_fail() {
        let said = told(2).expect("more than one of 1000");
        assert!(
            said.ends_with("expected a body with \"x\": Sorry"),
            "{said}"
        );
        assert_eq!((told(0), told(1)), (None, None));
    }
}
