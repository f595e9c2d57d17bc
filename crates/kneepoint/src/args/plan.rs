//! Arguments of `kneepoint plan`.

use super::RunArgs;
use clap::Args as ClapArgs;

const WHO: &str = "Who will come";

/// How long it takes without `--budget`.
pub(super) const USUAL_TIME: &str = "2m; with --verify four times that";

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Examples:
  how much load can the site take? It drives at most half of that:
    kneepoint plan kneepoint.toml
  10 000 users online, 30 s on a page, three requests a page, twice that in the busiest minutes:
    kneepoint plan --users 10000 --think 30s --requests-per-page 3 --peak 2
  can the prediction be believed? Drive it up to its limit for once, and see how far off it was:
    kneepoint plan --verify kneepoint.toml
  we run five machines at 400 requests per second: how many do we need?
    kneepoint plan --rate 400/s

Exit codes:
  0    R* was predicted; the output says how far the prediction was off at a rate that was measured but not used for it
  2    an error: an invalid scenario, a stack that does not answer
  130  ended by Ctrl-C; what was measured until then is kept";

/// Arguments of `plan`.
#[derive(Debug, Clone, ClapArgs)]
pub struct PlanArgs {
    /// What to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Users at the same time
    #[arg(long, value_name = "N", help_heading = WHO)]
    pub users: Option<f64>,
    /// Time between a page and the user's next
    #[arg(long, value_name = "TIME", default_value = "30s", requires = "users", help_heading = WHO)]
    pub think: String,
    /// Requests to the application for a page
    #[arg(long, value_name = "N", default_value_t = 1.0, requires = "users", help_heading = WHO)]
    pub requests_per_page: f64,
    /// How many times busier the busiest minutes are
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "users", help_heading = WHO)]
    pub peak: f64,
    /// A rate instead of users, such as 400/s
    #[arg(long, value_name = "RATE", conflicts_with = "users", help_heading = WHO)]
    pub rate: Option<String>,
    /// Then drive the stack up to its limit, and tell how far off the prediction was; takes four times --budget
    #[arg(long)]
    pub verify: bool,
}
