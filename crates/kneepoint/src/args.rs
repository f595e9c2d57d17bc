//! The command line.

mod agent;
mod check;
mod compare;
#[cfg(test)]
mod deploy;
mod limit;
mod load;
mod plan;
mod profile;
mod replay;
mod watch;

use clap::{Args as ClapArgs, Parser, Subcommand};
use std::path::PathBuf;

pub use agent::{AgentArgs, AgentCount, BrokerArgs, FleetArgs};
pub use check::{CheckArgs, OnlyArgs};
pub use compare::CompareArgs;
pub use limit::{GateArgs, Inconclusive, LimitArgs};
pub use load::{Interarrival, LoadArgs};
pub use plan::PlanArgs;
pub use profile::ProfileArgs;
pub use replay::ReplayArgs;
pub use watch::WatchArgs;

/// What stands below the help of the program.
const FIRST_STEPS: &str = "\
First steps:
  kneepoint check            a site that runs already: what is wrong with its settings
  kneepoint init DIR         your own site: writes DIR/kneepoint.toml, which limit, diagnose and tune read
  kneepoint tune             the whole job on it; kneepoint demo shows it on an application of ours
R* is the highest rate of requests at which the SLO holds, the limit of errors and response time in kneepoint.toml.";

/// Finds how much load a PHP stack can take, what breaks first, fixes it and proves the gain.
#[derive(Debug, Parser)]
#[command(name = "kneepoint", version, about, after_help = FIRST_STEPS, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the main job on the bundled Laravel application, configured as badly as two real sites were
    #[command(after_help = TUNE_AFTER_HELP)]
    Demo(DemoArgs),
    /// Say what is wrong with the stack that already runs, in seconds, without a request, a write or a signal
    #[command(after_help = check::AFTER_HELP)]
    Check(CheckArgs),
    /// The stack that runs, live: workers, queues, waits, rate, findings; also as Prometheus metrics
    #[command(after_help = watch::AFTER_HELP)]
    Watch(WatchArgs),
    /// Write a scenario file for the application in a directory
    Init(InitArgs),
    /// Find the highest rate at which the SLO holds; with --ci, fail a pipeline that lost capacity
    #[command(after_help = limit::AFTER_HELP)]
    Limit(Box<LimitArgs>),
    /// Name the layer and the cause that bind at the limit, and confirm them
    Diagnose(DiagnoseArgs),
    /// Limit, diagnose, fix, prove, report: the whole job
    #[command(after_help = TUNE_AFTER_HELP)]
    Tune(TuneArgs),
    /// Compare PHP runtimes, scenarios or settings on one bench, in turns
    #[command(after_help = compare::AFTER_HELP)]
    Compare(CompareArgs),
    /// Predict R* from low load, and how many hosts a rate or a number of users needs
    #[command(after_help = plan::AFTER_HELP)]
    Plan(PlanArgs),
    /// Replay field reports: what they tell beside what is measured here
    #[command(after_help = replay::AFTER_HELP)]
    Replay(ReplayArgs),
    /// Drive load at a URL or a FastCGI socket and print what came back
    #[command(after_help = load::AFTER_HELP)]
    Load(Box<LoadArgs>),
    /// Send a share of a load that a coordinator asks for: one of several generators
    #[command(after_help = agent::AFTER_HELP)]
    Agent(AgentArgs),
    /// Sample the PHP stacks of running workers from outside, without stopping them
    #[command(after_help = profile::AFTER_HELP)]
    Profile(ProfileArgs),
    /// Render a stored run again
    Report(ReportArgs),
    /// List stored runs
    Runs(RunsArgs),
    /// List the causes that Kneepoint knows, with their codes
    Rules(RulesArgs),
    /// Tell what a rule is about: what it is, how it shows, how it is confirmed, what to write
    Explain(ExplainArgs),
    /// List the labs on this machine, or clean them up
    Lab {
        /// What to do with them.
        #[command(subcommand)]
        command: LabCommand,
    },
}

/// What `lab` does.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// List labs, running and left behind
    List,
    /// Remove what a lab left whose program and keeper were both killed: processes, control groups, directories
    Clean,
    /// Stand a scenario up and leave it alone until Ctrl-C: to look at it with `check`, `profile` or by hand
    Up {
        /// A scenario, or a field report, whose first stage is taken
        scenario: PathBuf,
        /// Take this stage of a field report
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
        stage: u32,
    },
}

/// Where results go.
#[derive(Debug, Clone, ClapArgs)]
pub struct OutputArgs {
    /// Directory for run files and reports
    #[arg(long, value_name = "DIR", default_value = "kneepoint-runs")]
    pub runs: PathBuf,
    /// Write the run as JSON to this file (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the run as Markdown to this file, for a comment on a pull request (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the run as JUnit XML to this file, for the test view of a pipeline (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the HTML report to this file instead of the directory of runs (- for standard output)
    #[arg(long, value_name = "FILE", conflicts_with = "no_report")]
    pub html: Option<PathBuf>,
    /// Write no HTML report
    #[arg(long)]
    pub no_report: bool,
}

impl OutputArgs {
    /// For what writes no results of its own.
    #[must_use]
    pub fn nowhere() -> Self {
        Self {
            runs: PathBuf::from("kneepoint-runs"),
            json: None,
            markdown: None,
            junit: None,
            html: None,
            no_report: false,
        }
    }
}

/// Where a stack stands, and who loads it.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct GroundArgs {
    /// Run the stack on this machine's own network, and without root: the application then reaches whatever this machine
    /// reaches, so also the real databases, mail servers and payment providers that its settings name
    #[arg(long = "host-network", alias = "loopback")]
    pub loopback: bool,
    /// Who sends, where agents do.
    #[command(flatten)]
    pub fleet: FleetArgs,
}

/// Arguments of every command that runs a scenario.
#[derive(Debug, Clone, ClapArgs)]
pub struct RunArgs {
    /// The scenario file
    #[arg(default_value = "kneepoint.toml")]
    pub scenario: PathBuf,
    /// Lay another TOML file over the scenario: tables merge, arrays replace, `cache = false` leaves a table out, and
    /// [["+request"]] adds to an array; may be repeated
    #[arg(long, value_name = "FILE")]
    pub overlay: Vec<PathBuf>,
    /// Change one setting of the scenario: --set php.pm.max_children=20; may be repeated. A name that there is not is
    /// answered with those that there are
    #[arg(long, value_name = "LAYER.NAME=VALUE")]
    pub set: Vec<String>,
    /// Time the whole command may take, such as 5m; without it, tune takes the budget below [tune] in the scenario or 20m,
    /// and the others end when they have an answer
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Where the stack stands, and who loads it.
    #[command(flatten)]
    pub ground: GroundArgs,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What stands below the help of `tune` and `demo`.
const TUNE_AFTER_HELP: &str = "\
Exit codes:
  0    it ended, and every remedy of a suspected finding was judged
  2    an error: an invalid scenario, a stack that does not answer
  4    it ended, and some remedies could not be judged in the time there was; the report says what would decide them
  130  ended by Ctrl-C; what was measured until then is kept";

/// Arguments of `tune`.
#[derive(Debug, Clone, ClapArgs)]
pub struct TuneArgs {
    /// What to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Search the settings that did something in combinations, too; give it a budget of half an hour or more
    #[arg(long)]
    pub deep: bool,
}

/// Arguments of `diagnose`.
#[derive(Debug, Clone, ClapArgs)]
pub struct DiagnoseArgs {
    /// What to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// How many suspected causes to test by changing them
    #[arg(long, default_value_t = 1)]
    pub confirm: usize,
}

/// Arguments of `demo`.
#[derive(Debug, Clone, ClapArgs)]
pub struct DemoArgs {
    /// Directory with the bundled applications (found by itself in a source tree)
    #[arg(long, value_name = "DIR")]
    pub apps: Option<PathBuf>,
    /// Time the whole job may take, such as 9m
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `init`.
#[derive(Debug, Clone, ClapArgs)]
pub struct InitArgs {
    /// The application's directory
    #[arg(default_value = ".")]
    pub root: PathBuf,
    /// Print the scenario instead of writing kneepoint.toml
    #[arg(long)]
    pub print: bool,
    /// Do not start the application in the lab: you then write the requests of the scenario
    #[arg(long)]
    pub no_visit: bool,
    /// Run the stack on this machine's own network, and without root: the application then reaches whatever this machine
    /// reaches, so also the real databases, mail servers and payment providers that its settings name
    #[arg(long = "host-network", alias = "loopback")]
    pub loopback: bool,
}

/// Arguments of `report`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReportArgs {
    /// A run file, or the beginning of a run's id; the newest run when left out
    pub run: Option<String>,
    /// Format: terminal, html, markdown, json, csv or junit
    #[arg(long, default_value = "terminal")]
    pub format: String,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write the HTML report to this file: the same as --format html --output FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "output"])]
    pub html: Option<PathBuf>,
    /// Show what differs from the flame graphs of another run (html): its file, or the beginning of its id
    #[arg(long, value_name = "RUN")]
    pub against: Option<String>,
    /// Directory of run files
    #[arg(long, value_name = "DIR", default_value = "kneepoint-runs")]
    pub runs: PathBuf,
}

/// Arguments of `runs`.
#[derive(Debug, Clone, ClapArgs)]
pub struct RunsArgs {
    /// Directory of run files
    #[arg(long, value_name = "DIR", default_value = "kneepoint-runs")]
    pub runs: PathBuf,
}

/// Arguments of `explain`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ExplainArgs {
    /// The rule's code, such as FPM-10
    pub code: String,
    /// Print as JSON, with what programs want to know of the rule
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `rules`.
#[derive(Debug, Clone, ClapArgs)]
pub struct RulesArgs {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_help_names_the_exit_code_of_a_run_with_undecided_remedies() {
        let code = crate::UNDECIDED;
        let told = format!(" {code} it ended, and some remedies could not be judged");
        for name in ["tune", "demo"] {
            let mut program = Args::command();
            let command = program.find_subcommand_mut(name).expect("a command");
            let help = command.render_long_help().to_string();
            let words: Vec<&str> = help.split_whitespace().collect();
            assert!(words.join(" ").contains(&told), "{name}: {help}");
        }
    }
}
