//! Arguments of `watch`.

use clap::Args as ClapArgs;

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Nothing is sent, written, signalled or stopped. Without a terminal, or with --once, it prints plain lines.

Keys: arrows choose, Tab changes between pools and findings, r reads everything anew, q ends it.";

/// Arguments of `watch`.
#[derive(Debug, Clone, ClapArgs)]
pub struct WatchArgs {
    /// Only this pool of PHP-FPM, and the servers connected to it
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Only services in the container whose name, compose service or id begins so
    #[arg(long, value_name = "NAME")]
    pub container: Option<String>,
    /// Only the application in this directory, as PHP sees it, and the servers connected to it
    #[arg(long, value_name = "DIR")]
    pub app: Option<String>,
    /// Only the service with this first process; may be repeated
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
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
