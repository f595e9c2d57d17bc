//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand};
use std::path::PathBuf;

/// Finds how much load a PHP stack can take, what breaks first, fixes it and proves the gain.
#[derive(Debug, Parser)]
#[command(name = "kneepoint", version, about, max_term_width = 100)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the main job on the bundled Laravel application, set up as two teams found theirs in production
    Demo(DemoArgs),
    /// Write a scenario file for the application in a directory
    Init(InitArgs),
    /// Drive load at a URL or a FastCGI socket and print what came back
    Load(Box<LoadArgs>),
    /// Find the highest rate at which the SLO holds
    Limit(RunArgs),
    /// Name the layer and the cause that bind at the limit, and confirm them
    Diagnose(DiagnoseArgs),
    /// Limit, diagnose, fix, prove, report: the whole job
    Tune(RunArgs),
    /// Render a stored run again
    Report(ReportArgs),
    /// List stored runs
    Runs(RunsArgs),
    /// List the diagnosis rules
    Rules(RulesArgs),
    /// Tell what a rule is about: what it is, how it shows, how it is confirmed, what to write
    Explain {
        /// The rule's code, such as FPM-10
        code: String,
    },
    /// Look after the labs of this machine
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
    /// Remove what a power cut or a double kill left: processes, control groups, directories
    Clean,
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
    /// Write no HTML report
    #[arg(long)]
    pub no_report: bool,
}

/// Arguments of every command that runs a scenario.
#[derive(Debug, Clone, ClapArgs)]
pub struct RunArgs {
    /// The scenario file
    #[arg(default_value = "kneepoint.toml")]
    pub scenario: PathBuf,
    /// Lay another TOML file over the scenario (tables merge, arrays replace); may be repeated
    #[arg(long, value_name = "FILE")]
    pub overlay: Vec<PathBuf>,
    /// Change one setting of the scenario: --set php.pm.max_children=20; may be repeated
    #[arg(long, value_name = "LAYER.NAME=VALUE")]
    pub set: Vec<String>,
    /// Time the whole command may take, such as 5m
    #[arg(long, value_name = "TIME")]
    pub budget: Option<String>,
    /// Use loopback instead of network namespaces, also as root
    #[arg(long)]
    pub loopback: bool,
    /// Where results go.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `diagnose`.
#[derive(Debug, Clone, ClapArgs)]
pub struct DiagnoseArgs {
    /// What to run.
    #[command(flatten)]
    pub run: RunArgs,
    /// Suspected causes to confirm by an intervention
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
}

/// Arguments of `report`.
#[derive(Debug, Clone, ClapArgs)]
pub struct ReportArgs {
    /// A run file, or the beginning of a run's id; the newest run when left out
    pub run: Option<String>,
    /// Format: terminal, html, markdown, json or csv
    #[arg(long, default_value = "terminal")]
    pub format: String,
    /// Write to this file instead of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
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

/// Arguments of `rules`.
#[derive(Debug, Clone, ClapArgs)]
pub struct RulesArgs {
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `load`.
#[derive(Debug, Clone, ClapArgs)]
pub struct LoadArgs {
    /// The target: http://HOST:PORT/PATH
    pub url: Option<String>,
    /// A FastCGI listener: unix:/path.sock or ADDRESS:PORT. Beside a URL, both hops are measured under the
    /// same schedule and printed side by side
    #[arg(long, value_name = "ADDRESS")]
    pub fastcgi: Option<String>,
    /// The PHP script to run over FastCGI
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Path and query to ask for, when not the URL's; the script serves every path that is not itself a .php file
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Offered rate over time: const(RATE,TIME) line(FROM,TO,TIME) step(FROM,TO,BY,TIME), one or more
    #[arg(long, short, value_name = "SCHEDULE", default_value = "const(50,10s)")]
    pub schedule: String,
    /// Closed loop with this many workers instead of a schedule
    #[arg(long, short = 'c', value_name = "N")]
    pub workers: Option<u32>,
    /// Length of the closed loop
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub duration: String,
    /// Space arrivals evenly instead of as a Poisson process
    #[arg(long)]
    pub even: bool,
    /// Seed of the arrivals
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Method
    #[arg(long, short, default_value = "GET")]
    pub method: String,
    /// A header: "Name: value"; may be repeated
    #[arg(long, short = 'H', value_name = "HEADER")]
    pub header: Vec<String>,
    /// The request body
    #[arg(long, short = 'd', value_name = "TEXT")]
    pub data: Option<String>,
    /// Expected status; any of 200 to 399 when left out
    #[arg(long)]
    pub status: Option<u16>,
    /// Text the body must contain
    #[arg(long, value_name = "TEXT")]
    pub contains: Option<String>,
    /// A request that takes longer from its intended start is ended and counts as failed
    #[arg(long, default_value = "2s")]
    pub timeout: String,
    /// Response time that counts as good
    #[arg(long, value_name = "TIME", default_value = "200ms")]
    pub good: String,
    /// Most connections
    #[arg(long, default_value_t = 1000)]
    pub connections: usize,
    /// Generator threads
    #[arg(long, short = 't', default_value_t = 1)]
    pub threads: usize,
    /// One connection per request
    #[arg(long)]
    pub close: bool,
    /// A host outside this machine that you own and may load: required for anything but loopback
    #[arg(long, value_name = "HOST")]
    pub i_own: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}
