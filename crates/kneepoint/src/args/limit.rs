//! Arguments of `kneepoint limit`.

use super::RunArgs;
use clap::{Args as ClapArgs, ValueEnum};
use std::path::PathBuf;

const GATE: &str = "Gate for a pipeline";

/// How long it takes without `--budget`.
pub(super) const USUAL_TIME: &str = "about 3 minutes of load, with --baseline-app about 5";

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Examples:
  the highest rate of the site as it is, kept as the baseline of later commits:
    kneepoint limit kneepoint.toml
  did this commit cost capacity? Against the application as it was, both side by side:
    kneepoint limit --ci --baseline-app ../main --max-loss 5%
  the same against a stored run, on the same kind of machine:
    kneepoint limit --ci --baseline main.kneepoint.sqlite \\
      --markdown comment.md --junit kneepoint.xml

Exit codes:
  0    R* was measured; with --ci, capacity did not drop by more than --max-loss
  1    with --ci, it did
  2    an error: an invalid scenario, a stack that does not answer, a baseline that does not fit
  3    with --ci, it could not tell: too noisy for the time there was, or measured on another machine \
       (--inconclusive pass makes it 0, --inconclusive fail makes it 1)
  130  ended by Ctrl-C; what was measured until then is kept";

/// What an answer that is neither counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Inconclusive {
    /// The pipeline goes on
    Pass,
    /// The pipeline stops
    Fail,
}

/// Arguments of `limit`.
#[derive(Debug, Clone, ClapArgs)]
pub struct LimitArgs {
    /// What to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// What a pipeline asks.
    #[command(flatten)]
    pub gate: GateArgs,
    /// Dry run on a simulated stack on a machine of this noise: none, quiet, medium (when left out), high, or busy
    /// (medium, and other programs come and go). No server is started; workers, cores, backlog and SLO are the
    /// scenario's, what requests take is made up
    #[arg(long, value_name = "NOISE", num_args = 0..=1, require_equals = true, default_missing_value = "medium", conflicts_with = "ci")]
    pub simulate: Option<String>,
    /// Seed of the arrivals, and of the simulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// What a pipeline asks.
#[derive(Debug, Clone, ClapArgs)]
pub struct GateArgs {
    /// Compare with a baseline, and tell by the exit code whether capacity was lost
    #[arg(long, requires = "against", help_heading = GATE)]
    pub ci: bool,
    /// The baseline: a run file, or the beginning of a run's id
    #[arg(long, value_name = "RUN", requires = "ci", group = "against", help_heading = GATE)]
    pub baseline: Option<String>,
    /// The baseline: a checkout of the application as it was, measured beside the present one. Sees smaller losses, on
    /// any machine. Its own scenario file is used where it has one, for all but requests, jobs, SLO and limits of hosts
    #[arg(long, value_name = "DIR", requires = "ci", group = "against", help_heading = GATE)]
    pub baseline_app: Option<PathBuf>,
    /// Share of capacity that may be lost
    #[arg(long, value_name = "SHARE", default_value = "10%", requires = "ci", help_heading = GATE)]
    pub max_loss: String,
    /// What an inconclusive answer counts as, instead of exit code 3
    #[arg(long, requires = "ci", help_heading = GATE)]
    pub inconclusive: Option<Inconclusive>,
}
