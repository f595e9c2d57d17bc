//! `kneepoint plan`: what the stack would bear, from what it does at low load.

use crate::args::PlanArgs;
use crate::rate::parse_rate;
use crate::session;
use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::sequences::plan::{PlanOptions, plan_base};
use kneepoint_model::capacity::Population;
use kneepoint_model::units;
use kneepoint_planner::capacity::Asked;
use std::process::ExitCode;

pub(super) fn run(args: &PlanArgs) -> Result<ExitCode> {
    let asked = asked(args)?;
    let scenario = session::read_scenario(&args.run)?;
    let time = session::asked_budget(&args.run, &scenario);
    let options = PlanOptions::within(time, asked, args.verify);
    session::run(
        "plan",
        &scenario,
        &args.run.ground,
        &args.run.output,
        |testbed, recorder| plan_base(testbed, recorder, &scenario, options),
    )
}

fn asked(args: &PlanArgs) -> Result<Asked> {
    if let Some(rate) = &args.rate {
        return parse_rate("--rate", rate).map(Asked::Rate);
    }
    let Some(users) = args.users else {
        return Ok(Asked::Limit);
    };
    let think =
        units::parse_duration(&args.think).with_context(|| format!("--think {}", args.think))?;
    let population = Population {
        users,
        think_s: think.as_secs_f64(),
        requests_per_page: args.requests_per_page,
        peak: args.peak,
    };
    let numbers = [
        ("--users", users),
        ("--requests-per-page", args.requests_per_page),
        ("--peak", args.peak),
    ];
    for (flag, number) in numbers {
        if !(number.is_finite() && number > 0.0) {
            bail!("{flag} {number}: write a number above 0");
        }
    }
    Ok(Asked::Users(population))
}
