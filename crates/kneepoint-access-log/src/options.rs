//! How a log is read.

use std::time::Duration;

/// What decides how a log is read.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnOptions {
    /// The format, as [`LineFormat::parse`](crate::LineFormat::parse) reads it; `None` finds out from the first lines.
    pub format: Option<String>,
    /// A visitor who is silent for longer begins a new visit. Half an hour is what web analytics agree on.
    pub visit_gap: Duration,
    /// A request that follows sooner than this after the visitor's last response is no thought: a redirect, or what
    /// a page embeds. 5 ms: nobody acts as fast, a network round trip rarely is, and of real thoughts with a mean
    /// of only 300 ms it takes no more than one in sixty.
    pub at_once: Duration,
    /// A position of a path, or a parameter, that takes more different words than this is folded.
    pub words: usize,
    /// Most real paths a route is replayed with.
    pub paths_per_route: usize,
    /// Most requests the learned workload has: half of them go to routes by their share, and of the routes only
    /// that many are kept, the rarest left out.
    pub most_requests: usize,
}

impl Default for LearnOptions {
    fn default() -> Self {
        Self {
            format: None,
            visit_gap: Duration::from_secs(30 * 60),
            at_once: Duration::from_millis(5),
            words: 30,
            paths_per_route: 50,
            most_requests: 1000,
        }
    }
}
