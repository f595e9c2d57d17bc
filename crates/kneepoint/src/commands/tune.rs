//! `kneepoint tune`: the whole job.

use crate::args::RunArgs;
use crate::session;
use anyhow::Result;
use kneepoint_experiment::tune::Tuner;
use std::process::ExitCode;

pub(super) fn run(args: &RunArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(args)?;
    session::run(
        "tune",
        &scenario,
        args.loopback,
        &args.output,
        |testbed, recorder| Tuner::new(testbed, recorder).run(),
    )
}
