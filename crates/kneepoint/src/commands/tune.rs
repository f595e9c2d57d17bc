//! `kneepoint tune`: the whole job.

pub(super) mod demo;

use crate::args::TuneArgs;
use crate::budget::{self, Need};
use crate::session;
use anyhow::Result;
use kneepoint_experiment::tune::Tuner;
use std::process::ExitCode;

pub(super) fn run(args: &TuneArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(&args.run)?;
    session::run(
        "tune",
        &scenario,
        args.run.loopback,
        &args.run.output,
        |testbed, recorder| {
            let need = Need {
                what: "tuning",
                least: Tuner::least(),
                otherwise: "remedies stay untried",
            };
            budget::keep(recorder, Some(scenario.budget.time), &need);
            Tuner::new(testbed, recorder).deep(args.deep).run()
        },
    )
}
