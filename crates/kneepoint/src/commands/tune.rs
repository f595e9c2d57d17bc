//! `kneepoint tune`: the whole job.

pub(super) mod demo;

use crate::args::TuneArgs;
use crate::session;
use anyhow::Result;
use kneepoint_experiment::sequences::tune::Tuner;
use std::process::ExitCode;

pub(super) fn run(args: &TuneArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(&args.run)?;
    session::run(
        "tune",
        &scenario,
        &args.run.ground,
        &args.run.output,
        |testbed, recorder| {
            Tuner::warn_of_too_little_time(testbed.scenario(), recorder);
            Tuner::new(testbed, recorder).deep(args.deep).run()
        },
    )
}
