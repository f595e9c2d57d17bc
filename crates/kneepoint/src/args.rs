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

use clap::{Arg, Args as ClapArgs, Parser, Subcommand};
use std::path::{Path, PathBuf};

pub use agent::{AgentArgs, AgentCount, BrokerArgs, FleetArgs};
pub use check::{CheckArgs, OnlyArgs};
pub use compare::CompareArgs;
pub use limit::{GateArgs, Inconclusive, LimitArgs};
pub use load::{Interarrival, LoadArgs};
pub use plan::PlanArgs;
pub use profile::ProfileArgs;
pub use replay::ReplayArgs;
pub use watch::WatchArgs;

/// The heading of where results go, in the help of every command that has results.
const OUTPUT: &str = "Output";

/// What stands below the help of the program.
const FIRST_STEPS: &str = "\
First steps:
  kneepoint check            a site that runs already: what is wrong with its settings
  kneepoint init DIR         your own site: writes DIR/kneepoint.toml, which limit, diagnose and tune read
  kneepoint tune             the whole job on it; kneepoint demo shows it on an application of ours
The SLO is your promise: how long requests may take and how many may fail. It stands in kneepoint.toml.
R* is the highest number of requests a second at which the SLO holds.";

/// Measures how much load a PHP site can take, names what breaks first, and tries the fix on a copy.
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
    #[command(after_help = TUNE_AFTER_HELP, mut_arg("budget", |arg| usual(arg, DEMO_TIME)))]
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
    #[command(after_help = limit::AFTER_HELP, mut_arg("budget", |arg| usual(arg, limit::USUAL_TIME)))]
    Limit(Box<LimitArgs>),
    /// Name the tier and the cause that bind at the limit, and confirm them
    #[command(after_help = DIAGNOSE_AFTER_HELP, mut_arg("budget", |arg| usual(arg, DIAGNOSE_TIME)))]
    Diagnose(DiagnoseArgs),
    /// Limit, diagnose, fix, prove, report: the whole job
    #[command(after_help = TUNE_AFTER_HELP, mut_arg("budget", |arg| usual(arg, TUNE_TIME)))]
    Tune(TuneArgs),
    /// Compare PHP runtimes, scenarios or settings on one bench, in turns
    #[command(after_help = compare::AFTER_HELP)]
    Compare(CompareArgs),
    /// Predict R* from low load, and how many hosts a rate or a number of users needs
    #[command(after_help = plan::AFTER_HELP, mut_arg("budget", |arg| usual(arg, plan::USUAL_TIME)))]
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
    #[arg(long, value_name = "DIR", default_value = "kneepoint-runs", help_heading = OUTPUT)]
    pub runs: PathBuf,
    /// Write the run as JSON to this file (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub json: Option<PathBuf>,
    /// Write the run as Markdown to this file, for a comment on a pull request (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub markdown: Option<PathBuf>,
    /// Write the run as JUnit XML to this file, for the test view of a pipeline (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub junit: Option<PathBuf>,
    /// Write the HTML report to this file instead of the directory of runs (- for standard output)
    #[arg(long, value_name = "FILE", conflicts_with = "no_report", help_heading = OUTPUT)]
    pub html: Option<PathBuf>,
    /// Write no HTML report
    #[arg(long, help_heading = OUTPUT)]
    pub no_report: bool,
    /// Whether standard output is another run's: the summary goes to standard error
    #[arg(skip)]
    pub aside: bool,
}

/// Whether a path stands for standard output.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
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
            aside: false,
        }
    }

    /// Each format by its name, which is its flag's, and where it is to go.
    #[must_use]
    pub fn asked(&self) -> [(&'static str, Option<&Path>); 4] {
        [
            ("json", self.json.as_deref()),
            ("markdown", self.markdown.as_deref()),
            ("junit", self.junit.as_deref()),
            ("html", self.html.as_deref()),
        ]
    }

    /// Whether a format goes to standard output.
    #[must_use]
    pub fn takes_stdout(&self) -> bool {
        let asked = self.asked();
        asked.iter().any(|(_, path)| path.is_some_and(is_stdout))
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
    /// Lay another TOML file over the scenario: tables merge and arrays replace. [["+request"]] adds requests instead;
    /// `cache = false` below [stack] removes the cache tier. May be repeated
    #[arg(long, value_name = "FILE")]
    pub overlay: Vec<PathBuf>,
    /// Change one setting of a tier, or of the application (app): --set php.pm.max_children=20; may be repeated. An unknown
    /// name prints the known ones
    #[arg(long, value_name = "TIER.NAME=VALUE")]
    pub set: Vec<String>,
    /// Time it may take; each command says at its own what holds without it
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Where the stack stands, and who loads it.
    #[command(flatten)]
    pub ground: GroundArgs,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How long a command takes without `--budget`: each says it at its own.
const DEMO_TIME: &str = "9m30s";
const TUNE_TIME: &str = "tune.budget in the scenario, or 20m";
const DIAGNOSE_TIME: &str = "until it has its answer, some minutes";

/// `--budget` in the help of a command, with what holds without it.
fn usual(budget: Arg, without: &str) -> Arg {
    budget.help(format!("Time it may take, such as 5m [default: {without}]"))
}

/// What stands below the help of `diagnose`.
const DIAGNOSE_AFTER_HELP: &str = "\
Exit codes:
  0    it ended; what was found is in the output
  2    an error: an invalid scenario, a stack that does not answer
  130  ended by Ctrl-C; what was measured until then is kept";

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
    /// Also write what the rules judged by there: `rules --judge FILE` judges it anew, without a load
    #[arg(long, value_name = "FILE")]
    pub evidence: Option<PathBuf>,
}

/// Arguments of `demo`.
#[derive(Debug, Clone, ClapArgs)]
pub struct DemoArgs {
    /// Directory with the bundled applications (found by itself in a source tree)
    #[arg(long, value_name = "DIR")]
    pub apps: Option<PathBuf>,
    /// Time it may take; each command says at its own what holds without it
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
    /// Judge what `diagnose --evidence FILE` wrote, by the rules of this version
    #[arg(long, value_name = "FILE")]
    pub judge: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    /// That the help of a command says something, wherever its lines break.
    #[track_caller]
    fn help_says(name: &str, told: &str) {
        let mut program = Args::command();
        let command = program.find_subcommand_mut(name).expect("a command");
        let help = command.render_long_help().to_string();
        let words: Vec<&str> = help.split_whitespace().collect();
        assert!(words.join(" ").contains(told), "{name}: {help}");
    }

    #[test]
    fn the_help_names_the_exit_code_of_a_run_with_undecided_remedies() {
        let code = crate::UNDECIDED;
        let told = format!(" {code} it ended, and some remedies could not be judged");
        for name in ["tune", "demo"] {
            help_says(name, &told);
        }
        help_says("diagnose", "Exit codes: 0 it ended");
    }

    #[test]
    fn each_command_says_how_long_it_takes_without_a_budget() {
        let times = [
            ("demo", DEMO_TIME),
            ("limit", limit::USUAL_TIME),
            ("diagnose", DIAGNOSE_TIME),
            ("tune", TUNE_TIME),
            ("plan", plan::USUAL_TIME),
        ];
        for (name, time) in times {
            help_says(name, &format!("[default: {time}]"));
        }
        let demo = include_str!("../../../apps/laravel/demo.toml");
        assert!(demo.contains(&format!("budget = \"{DEMO_TIME}\"")));
    }

    #[test]
    fn only_what_is_about_agents_stands_below_their_heading() {
        let program = Args::command();
        for command in program.get_subcommands() {
            for argument in command.get_arguments() {
                let name = argument.get_id().as_str();
                let heading = argument.get_help_heading().unwrap_or_default();
                let is_of_agents = ["agents", "nats", "creds"].contains(&name);
                let place = format!("{} --{name}: {heading}", command.get_name());
                assert_eq!(heading.starts_with("Agents"), is_of_agents, "{place}");
            }
        }
    }

    #[test]
    fn where_results_go_stands_below_a_heading_of_its_own() {
        let program = Args::command();
        for name in [
            "demo", "limit", "diagnose", "tune", "compare", "plan", "replay", "load",
        ] {
            let command = program.find_subcommand(name).expect("a command");
            for id in ["runs", "json", "html"] {
                let mut arguments = command.get_arguments();
                let argument = arguments.find(|argument| argument.get_id().as_str() == id);
                let heading = argument.and_then(Arg::get_help_heading);
                assert_eq!(heading, Some(OUTPUT), "{name} --{id}");
            }
        }
    }
}
