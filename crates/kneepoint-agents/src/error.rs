//! Why agents and their coordinator cannot work together.

use kneepoint_load::LoadError;

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    /// The broker cannot be used.
    #[error("broker {url}: {problem}")]
    Broker {
        /// Its address, without a password.
        url: String,
        /// What is wrong and what to do.
        problem: String,
    },
    /// There are too few agents, or none.
    #[error("agents: {problem}")]
    Agents {
        /// What is wrong and what to do.
        problem: String,
    },
    /// An agent does not do what it is asked to.
    #[error("agent {name} refuses: {because}")]
    Refused {
        /// Which.
        name: String,
        /// Its own words.
        because: String,
    },
    /// Agents answered a moment ago, and take no part in the load that was to begin.
    #[error(
        "gone before the load began: {names}, {because}; start it again, or ask for fewer with --agents"
    )]
    Gone {
        /// Which.
        names: String,
        /// How that shows.
        because: String,
    },
    /// An engine cannot run its part.
    #[error(transparent)]
    Load(#[from] LoadError),
}
