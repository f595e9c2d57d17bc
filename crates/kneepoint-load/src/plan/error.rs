//! Why a load cannot be run.

use kneepoint_model::Unsendable;

/// Why a load could not be run at all. (What goes wrong with single requests is in the `LoadPoint`.)
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan asks for something that cannot be.
    #[error("load plan: {problem}")]
    Plan {
        /// What, and what to do instead.
        problem: String,
    },
    /// The operating system refused something the generator needs.
    #[error("load generator: {what}: {source}; {instead}")]
    System {
        /// What was tried, on what.
        what: String,
        /// The system's answer.
        source: rustix::io::Errno,
        /// What to do.
        instead: &'static str,
    },
    /// The generators that are to send it together cannot.
    #[error("{problem}")]
    Generators {
        /// What happened and what to do.
        problem: String,
    },
    /// A single request outside a load got no response.
    #[error("{request} at {address}: {problem}")]
    Fetch {
        /// `GET /path`.
        request: String,
        /// Where it went.
        address: String,
        /// What happened and what to look at.
        problem: String,
    },
}

impl From<Unsendable> for LoadError {
    fn from(refused: Unsendable) -> Self {
        Self::Plan { problem: refused.0 }
    }
}
