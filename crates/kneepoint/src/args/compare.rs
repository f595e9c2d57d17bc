//! Arguments of `kneepoint compare`.

use super::{GroundArgs, OutputArgs};
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Examples:
  is Apache as fast as PHP-FPM on our application?
    kneepoint compare kneepoint.toml --runtime fpm --runtime apache
  the configuration we have against the one somebody proposes, neither of them tuned:
    kneepoint compare now.toml proposed.toml --as-is
  one setting:
    kneepoint compare kneepoint.toml --with jit:php.opcache.jit=tracing \\
      --as-is

The first named is what the others are compared with. Each is tuned before, in a run of its own, so that runtimes are \
compared and not configurations; --as-is leaves that out.

Exit codes:
  0    compared; what was found is in the output
  2    an error: an invalid scenario, a stack that does not answer
  130  ended by Ctrl-C; what was measured until then is kept";

/// Arguments of `compare`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CompareArgs {
    /// Scenario files; all must ask for the same requests
    #[arg(default_value = "kneepoint.toml")]
    pub scenarios: Vec<PathBuf>,
    /// Compare PHP runtimes on the scenario: fpm, apache, unit, frankenphp, swoole, roadrunner; may be repeated (docs/runtimes.md says
    /// where the last four come from)
    #[arg(long, value_name = "RUNTIME")]
    pub runtime: Vec<String>,
    /// Compare the scenario with one that has other settings: NAME:TIER.NAME=VALUE[,TIER.NAME=VALUE]; may be repeated
    #[arg(long, value_name = "NAME:SETTINGS")]
    pub with: Vec<String>,
    /// Compare them as they are, without tuning each first
    #[arg(long)]
    pub as_is: bool,
    /// Time for the comparison itself, such as 10m
    #[arg(long, value_name = "TIME", default_value = "10m")]
    pub budget: String,
    /// Time for tuning each, such as 10m
    #[arg(
        long,
        value_name = "TIME",
        default_value = "10m",
        conflicts_with = "as_is"
    )]
    pub tune_budget: String,
    /// Where the stack stands, and who loads it.
    #[command(flatten)]
    pub ground: GroundArgs,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}
