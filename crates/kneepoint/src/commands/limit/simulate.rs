//! `kneepoint limit --simulate`: the whole search on a stack that is only calculated, and what was true of it.

use super::options;
use crate::args::LimitArgs;
use crate::session;
use anyhow::{Context as _, Result};
use kneepoint_experiment::Record;
use kneepoint_experiment::diagnose::find_limit;
use kneepoint_experiment::simulated::{App, Noise, SimulatedStack, truth};
use kneepoint_model::run::Machine;
use kneepoint_model::units::format_rate;
use kneepoint_model::{Layer, Scenario};
use std::process::ExitCode;

/// Windows that the truth is read from: good for half a percent.
const WINDOWS: usize = 150;

pub(super) fn run(args: &LimitArgs, scenario: &Scenario, noise: &str) -> Result<ExitCode> {
    let known = Noise::named(noise).with_context(|| {
        format!(
            "--simulate={noise}: write none, quiet, medium, high or busy, or nothing for medium"
        )
    })?;
    let app = application(scenario);
    let size = app.size;
    session::run_without_testbed("limit", scenario, &args.run.output, |recorder| {
        recorder.warn(format!(
            "this is a dry run on a simulated stack ({} workers, {} cores, backlog {}, noise {noise}, seed {}): no \
             number in it says anything about the application",
            size.workers, size.cores, size.backlog, args.seed
        ));
        recorder.write(Record::Machine(Machine {
            cores: size.cores.ceil() as u32,
            cpu: format!("simulated, noise {noise}, seed {}", args.seed),
            kernel: "simulated".to_owned(),
            ..Machine::default()
        }));
        recorder.stage("Limit: the highest rate at which the SLO holds");
        let slo = scenario.slo.clone();
        let mut stack = SimulatedStack::new(app.clone(), slo.clone(), known, args.seed);
        let workers = stack.saturating_workers();
        let left = session::asked_budget(&args.run, scenario);
        let options = options(args, left, workers);
        find_limit(&mut stack, recorder, "base", "base", options)?;
        let truth = truth(&app, &slo, known.without_drift(), WINDOWS, 1);
        recorder.result(format!(
            "the simulated stack's true R* at reference speed is {} and its R90 {}; the search took {:.0} s of \
             simulated time",
            format_rate(truth.limit_hz),
            format_rate(truth.r90_hz),
            stack.elapsed().as_secs_f64()
        ));
        Ok(())
    })
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
