//! `kneepoint diagnose`: what binds at the limit, and whether an intervention agrees.

mod evidence;
pub(super) mod rules;
mod unmeasured;

use crate::args::DiagnoseArgs;
use crate::session;
use anyhow::Result;
use kneepoint_experiment::record::BASE;
use kneepoint_experiment::sequences::diagnose::diagnose_and_confirm;
use std::process::ExitCode;

pub(super) fn run(args: &DiagnoseArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(&args.run)?;
    session::run(
        "diagnose",
        &scenario,
        &args.run.ground,
        &args.run.output,
        |testbed, recorder| {
            let asked = session::asked_budget(&args.run, &scenario);
            let judged_by =
                diagnose_and_confirm(testbed, recorder, &scenario, asked, args.confirm)?;
            if let Some((path, judged_by)) = args.evidence.as_ref().zip(judged_by)
                && let Err(why) = evidence::write(judged_by, &scenario, path)
            {
                recorder.warn(format!("--evidence: {why:#}"));
            }
            unmeasured::note(testbed, recorder, BASE)
        },
    )
}
