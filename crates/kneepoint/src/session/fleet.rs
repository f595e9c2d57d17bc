//! The agents that a command is to have its loads sent by.

use crate::args::{AgentCount, BrokerArgs, FleetArgs};
use anyhow::{Context as _, Result, bail};
use kneepoint_agents::{Access, Fleet, Wanted};
use kneepoint_model::units::format_rate;

/// The agents that were asked for; nobody, where this process is to send.
pub(crate) fn gather(args: &FleetArgs) -> Result<Option<Fleet>> {
    let wanted = match args.agents {
        None if args.broker.nats.is_some() => {
            bail!("--nats is where agents meet; say how many are to send: --agents all")
        }
        None => return Ok(None),
        Some(AgentCount::All) => Wanted::All,
        Some(AgentCount::Some(count)) => Wanted::Some(count),
    };
    Ok(Some(Fleet::gather(&access(&args.broker)?, wanted)?))
}

/// Who they are, a line each.
pub(crate) fn told(fleet: &Fleet) -> Vec<String> {
    let members = fleet.members().iter();
    let line = members.map(|agent| {
        let (name, cores) = (&agent.name, agent.cores);
        let ceiling = format_rate(agent.ceiling_hz);
        let tag = agent
            .tag
            .as_deref()
            .map_or_else(String::new, |tag| format!(", {tag}"));
        let cap = agent.max_rate_hz.map_or_else(String::new, |most| {
            format!(", at most {}", format_rate(most))
        });
        format!("agent {name}: {cores} cores, ceiling {ceiling} a thread{cap}{tag}")
    });
    line.collect()
}

/// The broker that was named.
pub(crate) fn access(args: &BrokerArgs) -> Result<Access> {
    let url = args
        .nats
        .clone()
        .context("name the NATS server that agents meet at: --nats nats://broker:4222")?;
    Ok(Access {
        url,
        creds: args.creds.clone(),
        netns: None,
    })
}
