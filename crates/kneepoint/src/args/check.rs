//! Arguments of `check`.

use clap::Args as ClapArgs;
use std::path::PathBuf;

/// What stands below the help.
pub(super) const AFTER_HELP: &str = "\
Nothing is sent, written or signalled. As root it sees every process and container of this machine; as anybody else, its \
own user's, and it says what it misses.

Exit codes:
  0  nothing found beyond notes, and every service was read
  1  problems or risks found
  2  nothing could be looked at, or nothing was found and a service or its settings could not be read, or an error";

/// Which part of what runs is looked at; all of it without any.
#[derive(Debug, Clone, ClapArgs)]
pub struct OnlyArgs {
    /// Only this pool of PHP-FPM and the services that work with it
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// Only services in the container whose name, compose service or id begins so
    #[arg(long, value_name = "NAME")]
    pub container: Option<String>,
    /// Only the application in this directory (as PHP sees it) and the services that work with it
    #[arg(long, value_name = "DIR")]
    pub app: Option<String>,
    /// Only the service with this first process; may be repeated
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
}

/// Arguments of `check`.
#[derive(Debug, Clone, ClapArgs)]
pub struct CheckArgs {
    /// Look at another host: this program copies itself there, looks, and leaves nothing. `ssh` must log in by key
    #[arg(value_name = "ssh://USER@HOST")]
    pub host: Option<String>,
    /// The file of settings that `ssh` is to use instead of the user's
    #[arg(long, value_name = "FILE", requires = "host")]
    pub ssh_config: Option<PathBuf>,
    /// What to look at.
    #[command(flatten)]
    pub only: OnlyArgs,
    /// Tell every finding in full
    #[arg(long)]
    pub all: bool,
    /// Leave out names of sites, pools, containers, users and hosts, directories and addresses, so that it can be posted
    #[arg(long)]
    pub redact: bool,
    /// Write the result as JSON to this file (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the result as Markdown to this file (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write the result as JUnit XML to this file (- for standard output): each rule is a test
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write the result as SARIF 2.1.0 to this file (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Write the files that the findings propose into this new directory, with a README of how to apply them
    #[arg(long, value_name = "DIR", conflicts_with = "host")]
    pub fix: Option<PathBuf>,
    /// Time it may take; what takes longer is left out and named
    #[arg(long, value_name = "TIME", default_value = "5s")]
    pub budget: String,
}
