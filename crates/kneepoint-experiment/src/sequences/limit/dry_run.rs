//! The whole search on a stack that is only calculated, and what was true of it.

use super::{find_limit, options};
use crate::error::ExperimentError;
use crate::record::{Record, Recorder};
use kneepoint_model::run::Machine;
use kneepoint_model::units::format_rate;
use kneepoint_model::{Layer, Scenario};
use kneepoint_planner::bench::Bench as _;
use kneepoint_planner::simulated::{App, Noise, SimulatedStack, truth};
use std::time::Duration;

/// Windows that the truth is read from: good for half a percent.
const WINDOWS: usize = 150;

/// A machine that is only calculated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimulatedMachine<'a> {
    /// What people call its noise.
    pub name: &'a str,
    /// How its speed varies.
    pub noise: Noise,
    /// Seed of the arrivals, and of the simulation.
    pub seed: u64,
}

/// Searches R* of a simulated stack of the scenario's size, and says what was true of it.
///
/// # Errors
/// Somebody asked to stop.
pub fn dry_run(
    recorder: &mut Recorder<'_>,
    scenario: &Scenario,
    machine: SimulatedMachine<'_>,
    asked: Option<Duration>,
) -> Result<(), ExperimentError> {
    let SimulatedMachine { name, noise, seed } = machine;
    let app = application(scenario);
    let size = app.size;
    recorder.warn(format!(
        "this is a dry run on a simulated stack ({} workers, {} cores, backlog {}, noise {name}, seed {seed}): no number in \
         it says anything about the application",
        size.workers, size.cores, size.backlog
    ));
    recorder.write(Record::Machine(Machine {
        cores: size.cores.ceil() as u32,
        cpu: format!("simulated, noise {name}, seed {seed}"),
        kernel: "simulated".to_owned(),
        ..Machine::default()
    }));
    recorder.stage("Limit: the highest rate at which the SLO holds");
    let slo = scenario.slo.clone();
    let mut stack = SimulatedStack::new(app.clone(), slo.clone(), noise, seed);
    let workers = stack.saturating_workers();
    find_limit(
        &mut stack,
        recorder,
        "base",
        "base",
        options(asked, workers, seed),
    )?;
    let truth = truth(&app, &slo, noise.without_drift(), WINDOWS, 1);
    recorder.result(format!(
        "the simulated stack's true R* at reference speed is {} and its R90 {}; the search took {:.0} s of simulated time",
        format_rate(truth.limit_hz),
        format_rate(truth.r90_hz),
        stack.now().as_secs_f64()
    ));
    Ok(())
}

/// The simulation's usual application, in a pool of the scenario's size where it gives one.
fn application(scenario: &Scenario) -> App {
    let mut app = App::default();
    let php = scenario.tiers.iter().find(|tier| tier.layer == Layer::Php);
    let setting = |name: &str| php?.settings.get(name)?.parse::<u32>().ok();
    if let Some(workers) = setting("pm.max_children").filter(|workers| *workers > 0) {
        app.size.workers = workers;
    }
    if let Some(backlog) = setting("listen.backlog") {
        app.size.backlog = backlog;
    }
    if let Some(cores) = scenario.hosts.get(&Layer::Php).and_then(|host| host.cpus) {
        app.size.cores = cores;
    }
    app
}
