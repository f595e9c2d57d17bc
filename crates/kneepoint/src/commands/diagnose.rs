//! `kneepoint diagnose`: what binds at the limit, and whether an intervention agrees.

use crate::args::DiagnoseArgs;
use crate::budget::{self, Need};
use crate::session;
use anyhow::Result;
use kneepoint_experiment::compare::ComparisonBase;
use kneepoint_experiment::diagnose::{DiagnosisTime, confirm, diagnose, find_limit};
use kneepoint_experiment::limit::LimitOptions;
use std::process::ExitCode;
use std::time::Duration;

/// Load time for the limit that the diagnosis starts from: it needs the rate, not the last percent.
const LIMIT_TIME: Duration = Duration::from_secs(35);

/// Most pairs of an intervention.
const PAIRS: usize = 10;

pub(super) fn run(args: &DiagnoseArgs) -> Result<ExitCode> {
    let scenario = session::read_scenario(&args.run)?;
    session::run(
        "diagnose",
        &scenario,
        args.run.loopback,
        &args.run.output,
        |testbed, recorder| {
            let least = DiagnosisTime::least();
            let asked = session::asked_budget(&args.run, &scenario);
            budget::keep(recorder, asked, &Need::all_the_same("a diagnosis", least));
            session::stand_up(testbed, recorder, &scenario)?;
            recorder.stage("Limit: where to look");
            let workers = testbed.saturating_workers("base")?;
            let options = match asked {
                Some(_) => {
                    let left = budget::left(recorder, least);
                    LimitOptions::by(DiagnosisTime::of(left, args.confirm).limit, workers)
                }
                None => LimitOptions::within(LIMIT_TIME, workers),
            };
            let options = options.unconfirmed();
            let (limit, slope) = find_limit(testbed, recorder, "base", "base", options)?;
            if limit.rate_hz.estimate <= 0.0 {
                return Ok(());
            }
            recorder.stage("Diagnose: which layer and which cause bind");
            let (evidence, mut findings) = diagnose(testbed, recorder, "base", "base", &limit)?;
            let ground = ComparisonBase::of(&limit, slope, PAIRS);
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
