//! `kneepoint limit`: R* and nothing else; with `--ci`, whether it fell.

use crate::args::{GateArgs, Inconclusive, LimitArgs, RunArgs};
use crate::{session, stored};
use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::RunStore;
use kneepoint_experiment::sequences::gate::{Gate, against_run, baseline_limit, side_by_side};
use kneepoint_experiment::sequences::limit::{SimulatedMachine, USUAL_TIME, dry_run, limit};
use kneepoint_model::comparable::not_comparable;
use kneepoint_model::{GateVerdict, Run, Scenario, units};
use kneepoint_planner::simulated::Noise;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Time for the load when no budget is given, where two applications are measured side by side.
const SIDE_BY_SIDE_TIME: Duration = Duration::from_secs(300);

pub(super) fn run(args: &LimitArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(&args.run)?;
    if let Some(noise) = &args.simulate {
        return simulate(args, &scenario, noise);
    }
    let (run, gate) = (&args.run, &args.gate);
    if let Some(directory) = &gate.baseline_app {
        let gate = asked(gate, load_time(run, &scenario, SIDE_BY_SIDE_TIME))?;
        let before = scenario_before(run, &scenario, directory)?;
        return session::run(
            "limit",
            &scenario,
            &run.ground,
            &run.output,
            |testbed, recorder| side_by_side(testbed, recorder, &scenario, &before, &gate),
        );
    }
    let time = load_time(run, &scenario, USUAL_TIME);
    if let Some(baseline) = &gate.baseline {
        let gate = asked(gate, time)?;
        let before = stored_run(&run.output.runs, baseline, &scenario)?;
        return session::run(
            "limit",
            &scenario,
            &run.ground,
            &run.output,
            |testbed, recorder| against_run(testbed, recorder, &scenario, &gate, &before),
        );
    }
    session::run(
        "limit",
        &scenario,
        &run.ground,
        &run.output,
        |testbed, recorder| {
            let asked = session::asked_budget(run, &scenario);
            limit(testbed, recorder, &scenario, asked, args.seed)
        },
    )
}

/// The whole search on a stack that is only calculated.
fn simulate(args: &LimitArgs, scenario: &Scenario, name: &str) -> Result<ExitCode> {
    let noise = Noise::named(name).with_context(|| {
        format!("--simulate={name}: write none, quiet, medium, high or busy, or nothing for medium")
    })?;
    let machine = SimulatedMachine {
        name,
        noise,
        seed: args.seed,
    };
    let asked = session::asked_budget(&args.run, scenario);
    session::run_without_testbed("limit", scenario, &args.run.output, |recorder| {
        dry_run(recorder, scenario, machine, asked)
    })
}

fn load_time(run: &RunArgs, scenario: &Scenario, usual: Duration) -> Duration {
    session::asked_budget(run, scenario).unwrap_or(usual)
}

fn asked(gate: &GateArgs, load_time: Duration) -> Result<Gate> {
    let max_loss = units::parse_share(&gate.max_loss)
        .with_context(|| format!("--max-loss {}", gate.max_loss))?;
    if !(0.0..1.0).contains(&max_loss) {
        bail!(
            "--max-loss {}: it must be below 100 %; write a share such as 5%",
            gate.max_loss
        );
    }
    Ok(Gate {
        max_loss,
        inconclusive_as: match gate.inconclusive {
            None => GateVerdict::Inconclusive,
            Some(Inconclusive::Pass) => GateVerdict::Pass,
            Some(Inconclusive::Fail) => GateVerdict::Fail,
        },
        load_time,
    })
}

/// The stored run, where R* of it is the quantity that will be measured now.
fn stored_run(runs: &Path, name: &str, scenario: &Scenario) -> Result<Run> {
    let path = stored::find(runs, Some(name)).context(
        "--baseline: a baseline is the run file that `kneepoint limit` wrote for the commit to compare with",
    )?;
    let run = RunStore::read(&path)?;
    let Some(limit) = baseline_limit(&run) else {
        bail!(
            "--baseline {}: the run has no R* of the stack as it was; take one of `kneepoint limit` that finished and found a \
             rate that meets the SLO",
            path.display()
        );
    };
    if run.mixes_units(limit) {
        bail!(
            "--baseline {}: its R* was measured by a version that took requests for visits; measure a new baseline with \
             `kneepoint limit`",
            path.display()
        );
    }
    let reasons = run
        .scenario
        .as_ref()
        .map_or_else(Vec::new, |before| not_comparable(before, scenario));
    if !reasons.is_empty() {
        bail!(
            "--baseline {}: its R* is another quantity, since {}; measure a new baseline with `kneepoint limit`, or \
             compare with --baseline-app",
            path.display(),
            reasons.join("; ")
        );
    }
    Ok(run)
}

/// The scenario of the application as it was: its own where the checkout has one, under the present requests, SLO and
/// limits of hosts.
fn scenario_before(run: &RunArgs, now: &Scenario, directory: &Path) -> Result<Scenario> {
    let root = directory.canonicalize().with_context(|| {
        format!(
            "--baseline-app {}: there is no such directory",
            directory.display()
        )
    })?;
    let name = run.scenario.file_name().unwrap_or_default();
    let own = root.join(name);
    if !own.is_file() {
        if !root.join(&now.front).is_file() {
            bail!(
                "--baseline-app {}: there is neither {} nor {} in it; name the application's directory in a checkout \
                 of the commit to compare with",
                directory.display(),
                Path::new(name).display(),
                now.front.display()
            );
        }
        return Ok(Scenario {
            root,
            ..now.clone()
        });
    }
    let before = session::read_scenario(&RunArgs {
        scenario: own,
        ..run.clone()
    })
    .context("--baseline-app: the scenario of the application as it was")?;
    Ok(Scenario {
        name: now.name.clone(),
        workload: now.workload.clone(),
        slo: now.slo.clone(),
        hosts: now.hosts.clone(),
        jobs: now.jobs.clone(),
        budget: now.budget.clone(),
        ..before
    })
}
