//! Arguments of `kneepoint agent`, and those by which a command asks for agents.

use clap::Args as ClapArgs;
use kneepoint_load::Owned;
use std::path::PathBuf;
use std::str::FromStr;

/// Each argument names it by itself: `next_help_heading` would hold for all that follow, too.
const AGENTS: &str = "Agents and their broker";

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Examples:
  on each machine that is to send, for those who have an account at the broker:
    kneepoint agent --nats nats://broker:4222 --creds agent.creds --max-rate 5000
  then, from anywhere, one load from all of them:
    kneepoint load http://shop.test/ -q 8000 -z 1m --agents all --nats nats://broker:4222 --creds me.creds

  agents on this machine find the limit of a stack on its own network:
    kneepoint limit --host-network --agents all --nats nats://127.0.0.1:4222

An agent loads a target when the target consents (a file at /.well-known/kneepoint that the agent reads itself) or when its
operator says --i-own HOST here. It loads its own machine only where the broker is on it, too. docs/agents.md tells the rest.";

/// How many agents are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentCount {
    /// All that answer and have nothing to do.
    All,
    /// So many.
    Some(usize),
}

impl FromStr for AgentCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            _ if text == "all" => Ok(Self::All),
            Ok(count) if count > 0 => Ok(Self::Some(count)),
            _ => Err("write a number of agents, such as 3, or all".into()),
        }
    }
}

/// How many agents send, and where they meet.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct FleetArgs {
    /// Have agents send the load together, N of them or all: each `kneepoint agent` at the broker takes a share (docs/agents.md)
    #[arg(long, value_name = "N|all", requires = "nats", help_heading = AGENTS)]
    pub agents: Option<AgentCount>,
    /// The broker
    #[command(flatten)]
    pub broker: BrokerArgs,
}

/// How the NATS server is reached.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct BrokerArgs {
    /// The NATS server that agents and their coordinator meet at: nats://HOST:4222 or tls://HOST:4222, with an account
    /// before the host where it wants one: nats://USER:PASSWORD@HOST:4222 or nats://TOKEN@HOST:4222
    #[arg(long, value_name = "URL", help_heading = AGENTS)]
    pub nats: Option<String>,
    /// The file of credentials of this account there (.creds)
    #[arg(long, value_name = "FILE", requires = "nats", help_heading = AGENTS)]
    pub creds: Option<PathBuf>,
}

/// Arguments of `agent`.
#[derive(Debug, Clone, ClapArgs)]
pub struct AgentArgs {
    /// How the broker is reached
    #[command(flatten)]
    pub broker: BrokerArgs,
    /// The agent's name, which no other has: letters, digits, - and _; the host's name and a number when left out
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// A word about it for people that look for agents, such as its place or its network
    #[arg(long, value_name = "TAG")]
    pub tag: Option<String>,
    /// Never send more than this many requests a second; `none` sends as many as are asked for. With --i-own 1000 a second
    /// when left out
    #[arg(long, value_name = "RATE")]
    pub max_rate: Option<String>,
    /// A host, an address or a network (10.0.0.0/24) that is yours and may be loaded although it serves no consent; may be
    /// repeated
    #[arg(long, value_name = "HOST")]
    pub i_own: Vec<Owned>,
}
