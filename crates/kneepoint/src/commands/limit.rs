//! `kneepoint limit`: R* and nothing else.

mod simulate;

use crate::args::LimitArgs;
use crate::session;
use anyhow::Result;
use kneepoint_experiment::diagnose::find_limit;
use kneepoint_experiment::limit::LimitOptions;
use kneepoint_model::Scenario;
use std::process::ExitCode;
use std::time::Duration;

/// Time for the load when no budget is given.
const LOAD_TIME: Duration = Duration::from_secs(180);

pub(super) fn run(args: &LimitArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(&args.run)?;
    if let Some(noise) = &args.simulate {
        return simulate::run(args, &scenario, noise);
    }
    session::run(
        "limit",
        &scenario,
        args.run.loopback,
        &args.run.output,
        |testbed, recorder| {
            recorder.stage("Stand up the stack");
            testbed.stand_up("base", &scenario)?;
            recorder.base(testbed.stack("base")?.clone());
            recorder.stage("Limit: the highest rate at which the SLO holds");
            let workers = testbed.saturating_workers("base")?;
            let options = options(args, &scenario, workers);
            find_limit(testbed, recorder, "base", "base", options).map(drop)
        },
    )
}

/// The search that the time allows: all of method.md's where there are five minutes for it.
fn options(args: &LimitArgs, scenario: &Scenario, workers: u32) -> LimitOptions {
    let time = if args.run.budget.is_some() {
        scenario.budget.time
    } else {
        LOAD_TIME
    };
    let thorough = LimitOptions::thorough(workers);
    let options = if time >= thorough.load_time + thorough.soak {
        thorough
    } else {
        LimitOptions::within(time, workers)
    };
    LimitOptions {
        seed: args.seed,
        ..options
    }
}
