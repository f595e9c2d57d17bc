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
    evidence::check_place(args)?;
    let mut is_lost = false;
    let ended = session::run(
        "diagnose",
        &scenario,
        &args.run.ground,
        &args.run.output,
        |testbed, recorder| {
            let asked = session::asked_budget(&args.run, &scenario);
            let mut written = false;
            let mut judged_by = |recorder: &mut Recorder<'_>, evidence: &Evidence| {
                written = true;
                let Some(path) = &args.evidence else { return };
                match evidence::write(evidence, &scenario, path) {
                    Ok(()) => {
                        recorder.result(format!("what the rules judged by: {}", path.display()))
                    }
                    Err(why) => {
                        is_lost = true;
                        recorder.warn(format!("--evidence: {why:#}"));
                    }
                }
            };
            let most = args.confirm;
            diagnose_and_confirm(testbed, recorder, &scenario, asked, most, &mut judged_by)?;
            if let Some(path) = args.evidence.as_deref().filter(|_| !written) {
                let older = match path.exists() {
                    true => "; the file there is of an earlier run",
                    false => "",
                };
                recorder.warn(format!(
                    "--evidence: there is none, since the stack bore no load{older}"
                ));
            }
            unmeasured::note(testbed, recorder, BASE)
        },
    )?;
    Ok(if is_lost {
        ExitCode::from(crate::FAILED)
    } else {
        ended
    })
}
