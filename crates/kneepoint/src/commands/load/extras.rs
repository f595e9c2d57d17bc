//! What a plan may have beside its rate: pauses and a ramp of a closed loop, source addresses, what ends it early.

use super::restraint::{Hopeless, Short};
use crate::args::LoadArgs;
use anyhow::{Context as _, Result, bail};
use kneepoint_linux::machine::MemoryLeft;
use kneepoint_load::{LoadPlan, Mode, StopWhen};
use kneepoint_model::ThinkTime;
use kneepoint_model::autostop::{Autostop, Observed};
use kneepoint_model::units::parse_duration;
use std::net::IpAddr;
use std::time::Duration;

/// Puts into a plan what the arguments say of these.
pub(super) fn apply(args: &LoadArgs, plan: &mut LoadPlan) -> Result<()> {
    plan.source_addresses = args
        .source
        .iter()
        .map(|text| {
            text.parse().with_context(|| {
                format!("--source {text}: write an address of this machine, such as 127.0.0.2")
            })
        })
        .collect::<Result<Vec<IpAddr>>>()?;
    plan.stop_when = stop_when(args)?;
    match &mut plan.mode {
        Mode::Closed(closed) => {
            if let Some(text) = &args.think {
                closed.think_time = think_time(text)?;
            }
            if let Some(text) = &args.ramp {
                closed.ramp = length("--ramp", text)?;
            }
        }
        Mode::Open { .. } if args.think.is_some() || args.ramp.is_some() => bail!(
            "--think and --ramp are for a closed loop, where answers decide when requests start; write -c 10 without a rate"
        ),
        Mode::Open { .. } => {}
    }
    Ok(())
}

fn length(flag: &str, text: &str) -> Result<Duration> {
    parse_duration(text).map_err(|error| anyhow::anyhow!("{flag}: {error}"))
}

/// `300ms`, always the same, or `exp:300ms`, exponential with this mean.
fn think_time(text: &str) -> Result<ThinkTime> {
    Ok(match text.strip_prefix("exp:") {
        Some(mean) => ThinkTime::Exponential {
            mean: length("--think", mean)?,
        },
        None => ThinkTime::Fixed(length("--think", text)?),
    })
}

fn autostop(args: &LoadArgs) -> Result<Autostop> {
    args.autostop
        .join(" ")
        .parse()
        .map_err(|error| anyhow::anyhow!("--autostop: {error}"))
}

/// A rule for one run: it remembers the seconds it has seen.
fn stop_when(args: &LoadArgs) -> Result<Option<StopWhen>> {
    let asked = !args.autostop.is_empty();
    let mut conditions = asked.then(|| autostop(args)).transpose()?;
    let mut hopeless = (!args.go_on).then(Hopeless::default);
    let mut short = Short::default();
    let rule = move |second: &Observed<'_>| {
        let told = conditions
            .as_mut()
            .and_then(|conditions| conditions.push(*second))
            .map(|stop| stop.sentence);
        let by_itself = hopeless
            .as_mut()
            .and_then(|hopeless| hopeless.second(second.second));
        told.or(by_itself)
            .or_else(|| short.second(MemoryLeft::now()))
    };
    Ok(Some(StopWhen::new(rule)))
}

/// The same in words, beginning with a comma; nothing where there is nothing to say.
pub(super) fn described(plan: &LoadPlan) -> String {
    let mut text = String::new();
    if let Mode::Closed(closed) = &plan.mode {
        if !closed.ramp.is_zero() {
            text.push_str(&format!(", started over {} s", closed.ramp.as_secs_f64()));
        }
        match &closed.think_time {
            ThinkTime::Fixed(pause) => {
                text.push_str(&format!(", with pauses of {} s", pause.as_secs_f64()));
            }
            ThinkTime::Exponential { mean } => {
                let mean = mean.as_secs_f64();
                text.push_str(&format!(", with pauses of {mean} s on average"));
            }
            ThinkTime::None | ThinkTime::Empirical { .. } => {}
        }
    }
    let sources: Vec<String> = plan
        .source_addresses
        .iter()
        .map(IpAddr::to_string)
        .collect();
    if !sources.is_empty() {
        text.push_str(&format!(", from {}", sources.join(" and ")));
    }
    text
}
