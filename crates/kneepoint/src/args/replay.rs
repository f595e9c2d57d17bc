//! Arguments of `kneepoint replay`.

use super::{GroundArgs, OutputArgs};
use clap::Args as ClapArgs;
use std::path::PathBuf;

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Examples:
  one report:
    kneepoint replay S2
  all of them, some ten minutes each:
    kneepoint replay all
  what one of yours says, in a file of the same form:
    kneepoint replay our-incident.toml

A report's stacks stand side by side and are offered the report's own load in turns. What limits the \
first stack is diagnosed by rules that know nothing of the report.

Exit codes:
  0    every claim is met, and every cause was named first
  1    one is not
  2    an error: a stack that does not answer, a report that is wrong
  130  ended by Ctrl-C; what was measured until then is kept";

/// Arguments of `replay`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReplayArgs {
    /// S1 to S5, `all`, or the file of a report
    #[arg(required = true)]
    pub reports: Vec<String>,
    /// Directory of the reports [default: `scenarios/field-reports` here or above the program]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Where the stack stands, and who loads it.
    #[command(flatten)]
    pub ground: GroundArgs,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}
