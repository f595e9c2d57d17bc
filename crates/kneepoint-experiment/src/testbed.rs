//! The testbed: a lab in which configurations stand side by side, warm, and are measured in turn.

mod app;
mod arm;
mod chain;
mod copy;
mod drain;
mod log;
pub(crate) mod machine;
mod offers;
mod rehearse;
mod seen;
mod senders;
mod visit;

use crate::error::ExperimentError;
use crate::record::{Event, Flight, Observer};
pub use arm::ColdStart;
use arm::{AppFacts, Arm};
use kneepoint_lab::{HostPlan, Lab, LabPlan};
use kneepoint_load::{AbortRule, Generator, LoadPlan, Mode, REQUEST_ID};
use kneepoint_model::run::{FileDiff, Machine};
use kneepoint_model::{
    Arrivals, ClosedLoop, JobSpec, Layer, LoadPoint, RunningTier, Scenario, Schedule, Sessions,
    Slo, Stack, ThinkTime, VisitShape, Workload,
};
use kneepoint_planner::ab::AbMeasure;
use kneepoint_planner::bench::{Bench, Canary, Offer, Step};
use kneepoint_stack::Program;
use kneepoint_telemetry::{Collector, CollectorOptions, Recording};
use machine::canary;
use machine::others::Others;
use rehearse::nowhere::Nowhere;
pub use rehearse::outsiders::{Advice, Outsider, Reason};
pub use rehearse::tripwire::Watch;
use senders::Senders;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
pub use visit::{Php, Visited};

/// The host the generator sends from.
const CLIENT: &str = "client";
/// Connections the generator opens at most: enough for every queue in the chain, and far from a flood.
const MOST_CONNECTIONS: usize = 1500;
/// Factor on how long telemetry waits between two samples where only the first and the last of a step are asked for.
const SELDOM: f64 = 100.0;

/// A lab with arms: each arm is one configuration of the whole stack, on hosts of its own.
pub struct Testbed {
    lab: Lab,
    scenario: Scenario,
    client: kneepoint_lab::HostInfo,
    programs: BTreeMap<String, Program>,
    /// Freshly initialised data directories that further arms copy, by the kind of database.
    db_templates: BTreeMap<String, PathBuf>,
    /// By the user's directory: the application as this run first saw it.
    pristine: BTreeMap<PathBuf, Arc<copy::Pristine>>,
    arms: BTreeMap<String, Arm>,
    /// What was watched for whom it tries to reach, and need not be again.
    watched: Vec<Scenario>,
    /// Jobs that were tried, and need not be again.
    tried_jobs: Vec<JobSpec>,
    /// Attempts of PHP that led nowhere during load.
    nowhere: Mutex<Nowhere>,
    /// When the last load of several generators began: they agree on a moment first.
    began: Mutex<Option<Instant>>,
    /// How long the last step that was watched waited for that.
    waited: Mutex<Duration>,
    machine: Machine,
    senders: Senders,
    /// Where the seconds of a step are kept before its end.
    flight: Option<Flight>,
    /// The canary's first reading in this run: the machine's reference speed.
    canary_ms: Option<f64>,
    stop: Arc<AtomicBool>,
    notes: Vec<String>,
    /// Whether what arms are made of is not the user's alone.
    tries_remedies: bool,
    nonce: u64,
    observer: Arc<dyn Observer + Send + Sync>,
    opened: Instant,
}

impl Testbed {
    /// Opens a lab for a scenario and checks the generator in it: one that is given, those that the scenario asks for, or this
    /// process.
    ///
    /// # Errors
    /// The lab cannot be made, or the generator does not work.
    pub fn open(
        scenario: &Scenario,
        loopback: bool,
        given: Option<Box<dyn Generator>>,
        stop: Arc<AtomicBool>,
        observer: Arc<dyn Observer + Send + Sync>,
    ) -> Result<Self, ExperimentError> {
        let lab = Lab::start(LabPlan {
            name: scenario.slug(),
            hosts: vec![HostPlan::new(CLIENT)],
            loopback,
        })?;
        let client = lab.host(CLIENT).ok_or_else(|| {
            ExperimentError::Unfit("the lab has no host for the generator".into())
        })?;
        let notes = lab.capabilities().missing.clone();
        let senders = Senders::of(scenario, given, &lab, &client, &observer)?;
        Ok(Self {
            lab,
            scenario: scenario.clone(),
            client,
            programs: BTreeMap::new(),
            db_templates: BTreeMap::new(),
            pristine: BTreeMap::new(),
            arms: BTreeMap::new(),
            watched: Vec::new(),
            tried_jobs: Vec::new(),
            nowhere: Mutex::default(),
            began: Mutex::default(),
            waited: Mutex::default(),
            machine: Machine {
                generator_ceiling_hz: Some(senders.ceiling_hz),
                ..machine::machine()
            },
            senders,
            flight: None,
            canary_ms: None,
            stop,
            notes,
            tries_remedies: false,
            nonce: machine::nonce(),
            observer,
            opened: Instant::now(),
        })
    }

    /// Keeps the finished seconds of steps there, where several generators send.
    pub fn keep_seconds(&mut self, flight: Option<Flight>) {
        self.flight = flight.filter(|_| self.senders.are_several());
    }

    /// From now on arms may have changes that nobody but a rule asked for.
    pub(crate) fn try_remedies(&mut self) {
        self.tries_remedies = true;
    }

    /// What the lab cannot do on this machine, a sentence each.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The machine.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The scenario the testbed was opened with.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The SLO.
    #[must_use]
    pub fn slo(&self) -> &Slo {
        &self.scenario.slo
    }

    /// Stops everything and removes the lab.
    pub fn close(self) {
        let Self { lab, arms, .. } = self;
        drop(arms);
        // What the keeper could not remove, `lab clean` names and removes.
        let _ = lab.stop();
    }

    fn arm(&self, name: &str) -> Result<&Arm, ExperimentError> {
        self.arms
            .get(name)
            .ok_or_else(|| ExperimentError::NoArm(name.to_owned()))
    }

    /// The stack of an arm as configured.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn stack(&self, name: &str) -> Result<&Stack, ExperimentError> {
        Ok(&self.arm(name)?.stack)
    }

    /// How long an arm took from nothing to its first answer; the latter only of one that was stood up without a watch.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn cold_start(&self, name: &str) -> Result<ColdStart, ExperimentError> {
        Ok(self.arm(name)?.cold_start)
    }

    /// Removes an arm with its hosts. Unknown names are no error.
    pub fn tear_down(&mut self, name: &str) {
        if self.arms.remove(name).is_some() {
            self.remove_hosts(name);
        }
    }

    fn remove_hosts(&self, name: &str) {
        for host in arm::doubles::hosts(name, &self.lab) {
            // A host that cannot be removed now goes with the lab.
            let _ = self.lab.remove_host(&host);
        }
    }

    /// The configuration changes between two arms, file by file.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn diff(&self, from: &str, to: &str) -> Result<Vec<FileDiff>, ExperimentError> {
        let (from, to) = (self.arm(from)?, self.arm(to)?);
        Ok(arm::difference::diff(from, to))
    }

    /// Closed-loop workers that keep an arm's pool full: twice its size, within 8 and 64.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn saturating_workers(&self, name: &str) -> Result<u32, ExperimentError> {
        let pool = self
            .stack(name)?
            .tier(Layer::Php)
            .and_then(|tier| tier.pool.as_ref());
        Ok(pool.map_or(16, |pool| (pool.max_workers * 2).clamp(8, 64) as u32))
    }

    /// Throughput with as many workers as keep the pools of two arms full.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn saturation_of(&self, without: &str, with: &str) -> Result<AbMeasure, ExperimentError> {
        let of = |arm| self.saturating_workers(arm);
        Ok(AbMeasure::Saturation {
            workers: of(without)?.max(of(with)?),
        })
    }

    /// Drives a step while every layer is sampled. With `reset`, the application's state is put back before.
    ///
    /// # Errors
    /// The arm is gone or the load cannot be driven.
    pub fn observe(
        &mut self,
        name: &str,
        step: &Step,
        reset: bool,
    ) -> Result<(LoadPoint, Recording), ExperimentError> {
        self.settle(name, step, reset)?;
        self.observe_settled(name, step)
    }

    /// Waits until what came before is over, and puts the application's state back where `reset` says so: what comes before a
    /// step that is watched.
    ///
    /// # Errors
    /// The arm is gone, or its state cannot be put back.
    pub fn settle(&self, name: &str, step: &Step, reset: bool) -> Result<(), ExperimentError> {
        self.drain(name, step.rested)?;
        if reset {
            self.put_back(name)?;
        }
        Ok(())
    }

    /// Drives a step while every layer is sampled, from where the arm stands.
    ///
    /// # Errors
    /// The arm is gone or the load cannot be driven.
    pub fn observe_settled(
        &self,
        name: &str,
        step: &Step,
    ) -> Result<(LoadPoint, Recording), ExperimentError> {
        self.watched(name, CollectorOptions::default(), || self.drive(name, step))
    }

    /// How long whoever began to look when the last step began had to wait for its first request: several generators agree on a
    /// moment first.
    #[must_use]
    pub fn waited(&self) -> Duration {
        *self.waited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same with the state put back, sampled when it begins and when it ends only: enough for totals such as CPU time.
    /// Sampling in between takes CPU itself, which those who ask how much a step took would find in their answer.
    ///
    /// # Errors
    /// The arm is gone or the load cannot be driven.
    pub fn observe_totals(
        &mut self,
        name: &str,
        step: &Step,
    ) -> Result<(LoadPoint, Recording), ExperimentError> {
        let seldom = CollectorOptions {
            slow_down: SELDOM,
            ..CollectorOptions::default()
        };
        self.settle(name, step, true)?;
        self.watched(name, seldom, || self.drive(name, step))
    }

    /// Drives load while every layer of an arm is sampled.
    fn watched(
        &self,
        name: &str,
        options: CollectorOptions,
        drive: impl FnOnce() -> Result<LoadPoint, ExperimentError>,
    ) -> Result<(LoadPoint, Recording), ExperimentError> {
        let running = self.arm(name)?.running.clone();
        let collector = Collector::start(running, options)
            .map_err(|error| ExperimentError::Unfit(error.to_string()))?;
        let started = Instant::now();
        self.took_began();
        let load = drive()?;
        let mut recording = collector.finish();
        self.note_wait(Duration::ZERO);
        if let Some(began) = self.took_began() {
            let waited = began.saturating_duration_since(started);
            self.note_wait(waited);
            recording.series = recording.series.since(waited.as_secs_f64());
        }
        Ok((load, recording))
    }

    fn note_wait(&self, waited: Duration) {
        *self.waited.lock().unwrap_or_else(PoisonError::into_inner) = waited;
    }

    /// When a load of several generators began, told once.
    fn took_began(&self) -> Option<Instant> {
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        began.take()
    }

    /// The PHP-FPM of an arm and where its application lies; `None` when another runtime serves it.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn fpm(&self, name: &str) -> Result<Option<(RunningTier, PathBuf)>, ExperimentError> {
        let arm = self.arm(name)?;
        let mut tiers = arm.running.iter();
        let fpm = tiers.find(|tier| tier.layer == Layer::Php && tier.server.as_str() == "fpm");
        Ok(fpm.map(|tier| (tier.clone(), arm.app_root.clone())))
    }

    /// What an arm's application said of itself before its first request.
    ///
    /// # Errors
    /// The arm was never stood up.
    pub(crate) fn app_facts(&self, name: &str) -> Result<AppFacts, ExperimentError> {
        Ok(self.arm(name)?.app_facts.clone())
    }

    /// The running tiers of an arm, with the doors that telemetry may use.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn running(&self, name: &str) -> Result<Vec<RunningTier>, ExperimentError> {
        Ok(self.arm(name)?.running.clone())
    }

    /// The tiers of an arm with the first process of each.
    ///
    /// # Errors
    /// There is no such arm.
    pub fn first_processes(&self, name: &str) -> Result<Vec<(Layer, u32)>, ExperimentError> {
        let tiers = self.arm(name)?.running.iter();
        Ok(tiers.map(|tier| (tier.layer, tier.pid)).collect())
    }

    /// Drives load of any shape at an arm at rest, with the application's state put back, while every layer is sampled.
    ///
    /// # Errors
    /// The arm is gone or the load cannot be driven.
    pub fn play(
        &mut self,
        name: &str,
        mode: Mode,
        seed: u64,
    ) -> Result<(LoadPoint, Recording), ExperimentError> {
        self.drain(name, true)?;
        self.put_back(name)?;
        let workload = self.arm(name)?.workload.clone();
        let plan = LoadPlan {
            seed,
            ..self.plan(name, workload, mode)?
        };
        self.watched(name, CollectorOptions::default(), || self.send(name, &plan))
    }

    fn drive(&self, name: &str, step: &Step) -> Result<LoadPoint, ExperimentError> {
        let plan = self.step_plan(name, step)?;
        self.send(name, &plan)
    }

    /// The load of a step at an arm.
    fn step_plan(&self, name: &str, step: &Step) -> Result<LoadPlan, ExperimentError> {
        let mode = match step.offer {
            Offer::Rate(rate) => Mode::Open {
                schedule: Schedule::constant(rate, step.duration),
                arrivals: Arrivals::Poisson { seed: step.seed },
            },
            Offer::Workers(workers) => Mode::Closed(ClosedLoop::new(workers, step.duration)),
        };
        let mut workload = self.arm(name)?.workload.clone();
        if let (Offer::Workers(_), Some(sessions)) = (step.offer, &mut workload.sessions) {
            // Workers who pause leave the stack idle, however many requests it could serve.
            sessions.think_time = ThinkTime::None;
        }
        if step.slowest > 0 {
            name_requests(&mut workload);
        }
        Ok(LoadPlan {
            slowest: step.slowest,
            skip: step.skip,
            abort: step.may_abort.then(AbortRule::default),
            seed: step.seed,
            ..self.plan(name, workload, mode)?
        })
    }

    /// A load at an arm, from the lab's generator.
    fn plan(
        &self,
        name: &str,
        workload: Workload,
        mode: Mode,
    ) -> Result<LoadPlan, ExperimentError> {
        let mut plan = LoadPlan::new(self.arm(name)?.target.clone(), workload, mode);
        plan.slo = self.scenario.slo.clone();
        plan.max_connections = MOST_CONNECTIONS;
        plan.netns.clone_from(&self.client.netns);
        plan.ceiling_hz = Some(self.senders.ceiling_hz);
        Ok(plan)
    }

    /// Sends requests to an arm, and says what ran beside it.
    fn send(&self, name: &str, plan: &LoadPlan) -> Result<LoadPoint, ExperimentError> {
        self.attended(&[name], |goes| {
            let others = Mutex::new(Others::from(self));
            let progress = |progress: &kneepoint_load::Progress| {
                goes(progress);
                self.show(progress);
                self.keep(name, progress);
                self.look_at_others(&others);
            };
            let mut point = self.senders.generator.run(plan, &progress, &self.stop)?;
            let others = others.into_inner().unwrap_or_else(PoisonError::into_inner);
            point.health.foreign_peak_share = self.peak_of(&others, &point);
            Ok([point])
        })
        .map(|[point]| point)
    }

    /// Sends requests to two arms in the same seconds: what the machine does then, it does to both.
    fn send_to_both(
        &self,
        names: [&str; 2],
        plans: &[LoadPlan; 2],
    ) -> Result<[LoadPoint; 2], ExperimentError> {
        self.attended(&names, |goes| {
            let show = |progress: &kneepoint_load::Progress| {
                goes(progress);
                self.show(progress);
                self.keep(names[0], progress);
            };
            let generator = &self.senders.generator;
            Ok(generator.run_both(plans, &show, &self.stop)?)
        })
    }

    /// Attempts of PHP that led nowhere during all load so far.
    fn nowhere(&self) -> Nowhere {
        *self.nowhere.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the application's state back to the beginning, and fills the caches that were emptied with it.
    fn put_back(&self, name: &str) -> Result<(), ExperimentError> {
        let arm = self.arm(name)?;
        arm.reset(&self.lab)?;
        match arm.keeps_state() {
            true => arm.fill_caches(&self.client, &self.stop),
            false => Ok(()),
        }
    }

    /// Drives a step at an arm that is at rest, with the application's state put back.
    fn drive_from_reset(&self, name: &str, step: &Step) -> Result<LoadPoint, ExperimentError> {
        self.put_back(name)?;
        self.drive(name, step)
    }

    fn keep(&self, name: &str, progress: &kneepoint_load::Progress) {
        if let Some(flight) = &self.flight {
            flight.keep(name, progress);
        }
    }

    fn show(&self, progress: &kneepoint_load::Progress) {
        self.observer.event(&Event::Load {
            goodput_hz: progress.goodput_hz,
            p95_ms: progress.p95_ms,
            failed: progress.recent.failed(),
        });
    }
}

/// Lets each request carry a name of its own, unless the scenario gives it one.
fn name_requests(workload: &mut Workload) {
    const HEADER: &str = "X-Request-Id";
    for request in &mut workload.requests {
        let mut headers = request.headers.iter();
        if !headers.any(|(name, _)| name.eq_ignore_ascii_case(HEADER)) {
            let value = format!("{{{{{REQUEST_ID}}}}}");
            request.headers.push((HEADER.to_owned(), value));
        }
    }
}

impl Bench for Testbed {
    type Error = ExperimentError;

    fn slo(&self) -> &Slo {
        &self.scenario.slo
    }

    fn visit(&self) -> Option<VisitShape> {
        let sessions = self.scenario.workload.sessions.as_ref();
        sessions.map(Sessions::shape)
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    fn measure(&mut self, arm: &str, step: &Step) -> Result<LoadPoint, ExperimentError> {
        self.drain(arm, step.rested)?;
        self.drive_from_reset(arm, step)
    }

    fn measure_both(
        &mut self,
        arms: [&str; 2],
        step: &Step,
    ) -> Result<[LoadPoint; 2], ExperimentError> {
        for arm in arms {
            self.drain(arm, step.rested)?;
            self.put_back(arm)?;
        }
        let plans = [
            self.step_plan(arms[0], step)?,
            self.step_plan(arms[1], step)?,
        ];
        self.send_to_both(arms, &plans)
    }

    fn canary(&mut self) -> Option<f64> {
        canary::cpu_ms().map(|ms| *self.canary_ms.get_or_insert(ms) / ms)
    }

    fn canary_ms(&self) -> Option<f64> {
        self.canary_ms
    }

    /// The canary runs while the stack is at rest: before the step it waits for the pool as the step would, and after
    /// it as the next one will.
    fn measure_with_canary(
        &mut self,
        arm: &str,
        step: &Step,
    ) -> Result<(LoadPoint, Canary), ExperimentError> {
        self.drain(arm, step.rested)?;
        let before = self.canary();
        let point = self.drive_from_reset(arm, step)?;
        self.drain(arm, false)?;
        let after = self.canary();
        Ok((point, Canary { before, after }))
    }
}
