//! `kneepoint agent`: one of several generators, which does what a coordinator asks and its operator allows.

use super::restraint::allowed_hz;
use crate::args::AgentArgs;
use crate::say::say_line;
use crate::session::fleet::access;
use crate::session::stop_flag;
use anyhow::Result;
use kneepoint_agents::{AgentOptions, serve};
use std::process::ExitCode;

/// The machine's own name, by the kernel.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

pub(in crate::commands) fn run(args: &AgentArgs) -> Result<ExitCode> {
    let options = AgentOptions {
        access: access(&args.broker)?,
        name: args.name.clone().unwrap_or_else(usual_name),
        tag: args.tag.clone(),
        max_rate_hz: allowed_hz(args.max_rate.as_deref(), !args.i_own.is_empty())?,
        i_own: args.i_own.clone(),
    };
    let stop = stop_flag()?;
    serve(&options, &say_line, &stop)?;
    Ok(ExitCode::SUCCESS)
}

/// The host's name and this process: two agents on one machine have two names.
fn usual_name() -> String {
    let host = std::fs::read_to_string(HOSTNAME).unwrap_or_default();
    let fits = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let host: String = host.trim().chars().filter(fits).take(48).collect();
    format!("{host}-{}", std::process::id())
}
