//! Who sends a load: this program, or agents together.

mod serve;

pub(in crate::commands) use serve::run as run_agent;

use super::watch::{Watch, line};
use crate::args::{AgentCount, LoadArgs};
use anyhow::{Result, bail};
use kneepoint_agents::{Fleet, Wanted};
use kneepoint_load::{Engine, LoadPlan};
use kneepoint_model::LoadPoint;
use kneepoint_model::units::format_rate;
use serve::access;
use std::sync::atomic::AtomicBool;

/// Whoever sends.
pub(super) enum Generator {
    /// This process.
    Own,
    /// Agents.
    Fleet(Fleet),
}

/// The agents that were asked for, or this process.
pub(super) fn gather(args: &LoadArgs) -> Result<Generator> {
    let wanted = match args.agents {
        None if args.broker.nats.is_some() => {
            bail!("--nats is where agents meet; say how many are to send: --agents all")
        }
        None => return Ok(Generator::Own),
        Some(AgentCount::All) => Wanted::All,
        Some(AgentCount::Some(count)) => Wanted::Some(count),
    };
    if !args.source.is_empty() {
        bail!(
            "--source names addresses of this machine, and agents send from theirs; leave it out"
        );
    }
    let fleet = Fleet::gather(&access(&args.broker)?, wanted)?;
    if !args.quiet {
        for agent in fleet.members() {
            let (name, ceiling) = (&agent.name, format_rate(agent.ceiling_hz));
            let tag = agent
                .tag
                .as_deref()
                .map_or_else(String::new, |tag| format!(", {tag}"));
            let cap = agent.max_rate_hz.map_or_else(String::new, |most| {
                format!(", at most {}", format_rate(most))
            });
            let cores = agent.cores;
            line(&format!(
                "agent {name}: {cores} cores, ceiling {ceiling} a thread{cap}{tag}"
            ));
        }
    }
    Ok(Generator::Fleet(fleet))
}

impl Generator {
    /// Sends a plan.
    pub(super) fn run(
        &self,
        plan: &LoadPlan,
        watch: &Watch<'_>,
        stop: &AtomicBool,
    ) -> Result<LoadPoint> {
        Ok(match self {
            Self::Own => Engine::run(plan, &|progress| watch.tell(progress), stop)?,
            Self::Fleet(fleet) => {
                let tell = |words: &str| line(words);
                fleet.run(plan, &tell, &|progress| watch.tell(progress), stop)?
            }
        })
    }
}
