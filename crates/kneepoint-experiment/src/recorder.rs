//! Writes down what happens, in the order it happens: in memory, in the run file, and to whoever watches.

use crate::error::ExperimentError;
use crate::store::{Record, RunStore};
use kneepoint_model::replay::Replay;
use kneepoint_model::run::{
    Decision, EntryKind, FileDiff, JournalEntry, LimitResult, Machine, Observation, RUN_VERSION,
    Standing, Trial,
};
use kneepoint_model::{
    Account, CallTrace, CapacityPlan, Contest, CpuTime, Effect, Finding, GateResult, LoadPoint,
    Run, Scenario, Stack, StackProfile,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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

/// The notebook of a run.
pub struct Recorder<'a> {
    run: Run,
    store: Option<RunStore>,
    store_error: Option<String>,
    began: Instant,
    deadline: Option<Duration>,
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
        let now = jiff::Zoned::now().with_time_zone(jiff::tz::TimeZone::UTC);
        let run = Run {
            version: RUN_VERSION,
            id: format!(
                "{}-{}-{command}",
                now.strftime("%Y%m%d-%H%M%S"),
                scenario.slug()
            ),
            command: command.to_owned(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_at: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            scenario: Some(scenario.clone()),
            ..Run::default()
        };
        let mut store = directory
            .map(|directory| RunStore::create(directory, &run))
            .transpose()?;
        if let Some(store) = &mut store {
            store.append(0.0, &Record::Header(Box::new(run.clone())))?;
        }
        Ok(Self {
            run,
            store,
            store_error: None,
            began: Instant::now(),
            deadline: None,
            observer,
            stop,
        })
    }

    /// What was recorded so far.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The file the run is written to.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.store.as_ref().map(RunStore::path)
    }

    /// Why the run file is incomplete, when it is.
    #[must_use]
    pub fn store_error(&self) -> Option<&str> {
        self.store_error.as_deref()
    }

    /// Time since the run began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Sets how long the run may take in all, counted from its beginning.
    pub fn set_budget(&mut self, budget: Duration) {
        self.deadline = Some(budget);
    }

    /// Time left of the budget; very long without one.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.deadline
            .map_or(Duration::from_secs(86_400), |deadline| {
                deadline.saturating_sub(self.elapsed())
            })
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
        let left = left.or_else(|| self.deadline.map(|_| self.left()));
        self.observer.event(&Event::Progress { what, share, left });
    }

    fn append(&mut self, record: &Record) {
        let at_s = self.elapsed().as_secs_f64();
        self.run.elapsed_s = at_s;
        let Some(store) = &mut self.store else { return };
        if let Err(error) = store.append(at_s, record) {
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

    fn entry(&self, kind: EntryKind, text: String) -> JournalEntry {
        JournalEntry {
            at_s: self.elapsed().as_secs_f64(),
            kind,
            text,
        }
    }

    fn journal(&mut self, kind: EntryKind, text: String) {
        let entry = self.entry(kind, text);
        self.observer.event(&Event::Journal(&entry));
        self.append(&Record::Journal(entry.clone()));
        self.run.journal.push(entry);
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
    pub fn trial(&mut self, purpose: &str, arm: &str, load: LoadPoint) -> u64 {
        self.trial_with_cpu(purpose, arm, load, None)
    }

    /// The same with the CPU time that was used meanwhile.
    pub fn trial_with_cpu(
        &mut self,
        purpose: &str,
        arm: &str,
        load: LoadPoint,
        cpu: Option<CpuTime>,
    ) -> u64 {
        let id = self.run.trials.len() as u64;
        let at_s = (self.elapsed().as_secs_f64() - load.window_s).max(0.0);
        let trial = Trial {
            id,
            purpose: purpose.to_owned(),
            arm: arm.to_owned(),
            at_s,
            load,
            cpu,
        };
        self.append(&Record::Trial(Box::new(trial.clone())));
        self.run.trials.push(trial);
        id
    }

    /// Records the machine.
    pub fn machine(&mut self, machine: Machine) {
        self.append(&Record::Machine(machine.clone()));
        self.run.machine = machine;
    }

    /// Records the stack as configured at the start.
    pub fn base(&mut self, stack: Stack) {
        self.append(&Record::Base(Box::new(stack.clone())));
        self.run.base = Some(stack);
    }

    /// Records the stack and the configuration diff at the end.
    pub fn best(&mut self, stack: Stack, diff: Vec<FileDiff>) {
        self.append(&Record::Best(Box::new(stack.clone()), diff.clone()));
        self.run.best = Some(stack);
        self.run.diff = diff;
    }

    /// Records a limit.
    pub fn limit(&mut self, limit: LimitResult) {
        self.append(&Record::Limit(limit.clone()));
        self.run.limits.push(limit);
    }

    /// Records a phase of a diagnosis.
    pub fn observation(&mut self, observation: Observation) {
        self.append(&Record::Observation(Box::new(observation.clone())));
        self.run.observations.push(observation);
    }

    /// Records what was seen from within the workers: the PHP stacks they were met on, and what requests do.
    pub fn inside(&mut self, stacks: Option<&StackProfile>, calls: Option<&CallTrace>) {
        if let Some(stacks) = stacks {
            self.append(&Record::Stacks(Box::new(stacks.clone())));
            self.run.stacks.push(stacks.clone());
        }
        if let Some(calls) = calls {
            self.append(&Record::Calls(Box::new(calls.clone())));
            self.run.calls.push(calls.clone());
        }
    }

    /// Records where the CPU and a request's time went in a diagnosis.
    pub fn account(&mut self, account: Account) {
        self.append(&Record::Account(Box::new(account.clone())));
        self.run.accounts.push(account);
    }

    /// Adds findings, or raises what is known about those there are.
    pub fn findings(&mut self, findings: &[Finding]) {
        for finding in findings {
            match self
                .run
                .findings
                .iter_mut()
                .find(|known| known.code == finding.code)
            {
                Some(known) if known.confidence <= finding.confidence => {
                    // What an A/B said of it before stays said.
                    let mut raised = finding.clone();
                    if raised.effects.is_empty() {
                        raised.effects = std::mem::take(&mut known.effects);
                    }
                    *known = raised;
                }
                Some(_) => {}
                None => self.run.findings.push(finding.clone()),
            }
        }
        let all = self.run.findings.clone();
        self.append(&Record::Findings(all));
    }

    /// Adds a decision. One on a change that was undecided takes the place of what was said of it before.
    pub fn decision(&mut self, decision: Decision) {
        let mut known = self.run.decisions.iter_mut();
        let open = known.find(|known| {
            let same = known.code == decision.code && known.settings == decision.settings;
            same && known.standing() == Standing::Undecided
        });
        match open {
            Some(open) => *open = decision,
            None => self.run.decisions.push(decision),
        }
        let all = self.run.decisions.clone();
        self.append(&Record::Decisions(all));
    }

    /// Adds the leave-one-out of a kept decision.
    pub fn leave_one_out(&mut self, index: usize, effect: Effect) {
        if let Some(decision) = self.run.decisions.get_mut(index) {
            decision.leave_one_out = Some(effect);
        }
        let all = self.run.decisions.clone();
        self.append(&Record::Decisions(all));
    }

    /// Takes a kept change back.
    pub fn take_back(&mut self, index: usize, reason: String) {
        if let Some(decision) = self.run.decisions.get_mut(index) {
            decision.kept = false;
            decision.reason = reason;
        }
        let all = self.run.decisions.clone();
        self.append(&Record::Decisions(all));
    }

    /// Records base against best.
    pub fn proof(&mut self, effect: Effect) {
        self.append(&Record::Proof(effect.clone()));
        self.run.proof = Some(effect);
    }

    /// Records best freshly started against the same as it stood.
    pub fn restarted(&mut self, effect: Effect) {
        self.append(&Record::Restarted(effect.clone()));
        self.run.restarted = Some(effect);
    }

    /// Records what a gate decided.
    pub fn gate(&mut self, gate: GateResult) {
        self.append(&Record::Gate(Box::new(gate.clone())));
        self.run.gate = Some(gate);
    }

    /// Records a comparison of several configurations, as far as it is.
    pub fn contest(&mut self, contest: Contest) {
        self.append(&Record::Contest(Box::new(contest.clone())));
        self.run.contest = Some(contest);
    }

    /// Records a replayed report, as far as it is.
    pub fn replay(&mut self, replay: Replay) {
        self.append(&Record::Replay(Box::new(replay.clone())));
        self.run.replay = Some(replay);
    }

    /// Records what was predicted.
    pub fn capacity(&mut self, plan: CapacityPlan) {
        self.append(&Record::Capacity(Box::new(plan.clone())));
        self.run.capacity = Some(plan);
    }

    /// Closes the run and hands it over.
    #[must_use]
    pub fn end(mut self, how: &str) -> Run {
        how.clone_into(&mut self.run.ended);
        self.append(&Record::End(how.to_owned()));
        self.run
    }
}
