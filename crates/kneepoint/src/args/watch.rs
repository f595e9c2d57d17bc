//! Arguments of `watch`.

use super::OnlyArgs;
use clap::Args as ClapArgs;

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Nothing is sent, written, signalled or stopped. Without a terminal, or with --once, it prints plain lines.

Keys: Up and Down choose, Tab, Left and Right change between pools and findings, r reads everything anew, q ends it.";

/// Arguments of `watch`.
#[derive(Debug, Clone, ClapArgs)]
pub struct WatchArgs {
    /// What to look at.
    #[command(flatten)]
    pub only: OnlyArgs,
    /// Look once, print it, and end
    #[arg(long)]
    pub once: bool,
    /// Least time between two looks at the workers; a large stack is looked at less often, so that it costs little
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub every: String,
    /// End after this time
    #[arg(long = "for", value_name = "TIME")]
    pub lasting: Option<String>,
    /// Serve Prometheus metrics at this address, http://ADDR/metrics; a port alone is one of 127.0.0.1
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:9753")]
    pub listen: Option<String>,
}
