//! `kneepoint plan`: what the stack would bear, from what it does at low load.

use crate::args::PlanArgs;
use crate::rate::parse_rate;
use crate::session;
use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::plan::{Asked, PlanOptions, plan};
use kneepoint_model::capacity::Population;
use kneepoint_model::units;
use std::process::ExitCode;
use std::time::Duration;

/// Time for the load when no budget is given: method.md's two minutes.
const LOAD_TIME: Duration = Duration::from_secs(120);
/// What looks, pauses and resets take of the time that there is, as a share.
const BESIDE: f64 = 0.3;
/// Steps of low load that share the rest.
const STEPS: f64 = 12.0;
/// The shortest and the longest step that is worth it.
const STEP: std::ops::RangeInclusive<Duration> = Duration::from_secs(3)..=Duration::from_secs(60);

pub(super) fn run(args: &PlanArgs) -> Result<ExitCode> {
    let asked = asked(args)?;
    let scenario = session::read_scenario(&args.run)?;
    let time = if args.run.budget.is_some() {
        scenario.budget.time
    } else {
        LOAD_TIME
    };
    let options = PlanOptions {
        asked,
        step: time
            .mul_f64((1.0 - BESIDE) / STEPS)
            .clamp(*STEP.start(), *STEP.end()),
        verify: args.verify.then_some(time),
    };
    session::run(
        "plan",
        &scenario,
        args.run.loopback,
        &args.run.output,
        |testbed, recorder| {
            session::stand_up(testbed, recorder, &scenario)?;
            plan(testbed, recorder, "base", options).map(drop)
        },
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
