//! `kneepoint diagnose`: what binds at the limit, and whether an intervention agrees.

mod evidence;
pub(super) mod rules;
mod unmeasured;

use crate::args::DiagnoseArgs;
use crate::session;
use anyhow::Result;
use kneepoint_diagnosis::Evidence;
use kneepoint_experiment::Recorder;
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
            let mut written = false;
            let mut judged_by = |recorder: &mut Recorder<'_>, evidence: &Evidence| {
                written = true;
                if let Some(path) = &args.evidence
                    && let Err(why) = evidence::write(evidence, &scenario, path)
                {
                    recorder.warn(format!("--evidence: {why:#}"));
                }
            };
            let most = args.confirm;
            diagnose_and_confirm(testbed, recorder, &scenario, asked, most, &mut judged_by)?;
            if args.evidence.is_some() && !written {
                recorder.warn("--evidence: there is none, since the stack bore no load".to_owned());
            }
            unmeasured::note(testbed, recorder, BASE)
        },
    )
}
