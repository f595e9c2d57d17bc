//! `kneepoint demo`: the whole job on the bundled application.

use crate::args::{DemoArgs, GroundArgs, RunArgs};
use crate::session;
use anyhow::{Result, bail};
use kneepoint_experiment::sequences::tune::Tuner;
use std::path::PathBuf;
use std::process::ExitCode;

const SCENARIO: &str = "laravel/demo.toml";

pub(in crate::commands) fn run(args: &DemoArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(&RunArgs {
        scenario: find(args)?,
        overlay: Vec::new(),
        set: Vec::new(),
        budget: args.budget.clone(),
        ground: GroundArgs::default(),
        output: args.output.clone(),
    })?;
    session::run(
        "demo",
        &scenario,
        &GroundArgs::default(),
        &args.output,
        |testbed, recorder| Tuner::new(testbed, recorder).run(),
    )
}

/// The demo's scenario: in the directory given, below the current directory, or above the program.
fn find(args: &DemoArgs) -> Result<PathBuf> {
    let given = args.apps.as_ref().map(|place| place.join(SCENARIO));
    match given
        .filter(|path| path.is_file())
        .or_else(|| session::bundled(&format!("apps/{SCENARIO}")))
    {
        Some(path) => Ok(path),
        None => bail!(
            "cannot find apps/{SCENARIO}; run this in Kneepoint's source tree or name the directory with --apps DIR"
        ),
    }
}
