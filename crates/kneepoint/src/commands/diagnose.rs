//! `kneepoint diagnose`: what binds at the limit, and whether an intervention agrees.

use crate::args::DiagnoseArgs;
use crate::session;
use anyhow::Result;
use kneepoint_experiment::compare::Ground;
use kneepoint_experiment::diagnose::{confirm, diagnose, find_limit};
use kneepoint_experiment::limit::LimitOptions;
use std::process::ExitCode;
use std::time::Duration;

/// Load time for the limit that the diagnosis starts from: it needs the rate, not the last percent.
const LIMIT_TIME: Duration = Duration::from_secs(35);

pub(super) fn run(args: &DiagnoseArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(&args.run)?;
    session::run(
        "diagnose",
        &scenario,
        args.run.loopback,
        &args.run.output,
        |testbed, recorder| {
            session::stand_up(testbed, recorder, &scenario)?;
            recorder.stage("Limit: where to look");
            let workers = testbed.saturating_workers("base")?;
            let options = LimitOptions::within(LIMIT_TIME, workers).unconfirmed();
            let (limit, slope) = find_limit(testbed, recorder, "base", "base", options)?;
            if limit.rate_hz.estimate <= 0.0 {
                return Ok(());
            }
            recorder.stage("Diagnose: which layer and which cause bind");
            let (evidence, mut findings) = diagnose(testbed, recorder, "base", "base", &limit)?;
            let ground = Ground::of(&limit, slope, 10);
            confirm(
                testbed,
                recorder,
                "base",
                &scenario,
                (&evidence, &mut findings),
                ground,
                args.confirm,
            )
        },
    )
}
