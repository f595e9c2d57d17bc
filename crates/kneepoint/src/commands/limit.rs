//! `kneepoint limit`: R* and nothing else.

use crate::args::RunArgs;
use crate::session;
use anyhow::Result;
use kneepoint_experiment::diagnose::find_limit;
use kneepoint_experiment::limit::LimitOptions;
use std::process::ExitCode;
use std::time::Duration;

/// Time for the load when no budget is given.
const LOAD_TIME: Duration = Duration::from_secs(180);

pub(super) fn run(args: &RunArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(args)?;
    let time = if args.budget.is_some() {
        scenario.budget.time
    } else {
        LOAD_TIME
    };
    session::run(
        "limit",
        &scenario,
        args.loopback,
        &args.output,
        |testbed, recorder| {
            recorder.stage("Stand up the stack");
            testbed.stand_up("base", &scenario)?;
            recorder.base(testbed.stack("base")?.clone());
            recorder.stage("Limit: the highest rate at which the SLO holds");
            let workers = testbed.saturating_workers("base")?;
            find_limit(
                testbed,
                recorder,
                "base",
                "base",
                LimitOptions::within(time, workers),
            )
            .map(drop)
        },
    )
}
