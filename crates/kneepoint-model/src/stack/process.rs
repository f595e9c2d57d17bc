//! What it takes to run a program: the words the stack crate uses to ask and the lab to answer.
//!
//! The stack crate knows *how* a server is started but must not start it; the lab starts it but must not
//! know what it is. These types are what passes between them.

use crate::Address;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A signal, by the names the servers' manuals use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// Reload (nginx, PostgreSQL).
    Hup,
    /// Fast stop of PostgreSQL; interrupt.
    Int,
    /// Graceful stop of nginx and FPM.
    Quit,
    /// Stop.
    Term,
    /// Graceful reload of FPM; reopen logs of nginx.
    Usr1,
    /// Graceful reload of FPM.
    Usr2,
    /// Freeze (SIGSTOP).
    Stop,
    /// Thaw (SIGCONT).
    Cont,
    /// End at once.
    Kill,
}

/// When a started server counts as ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ready {
    /// It accepts a connection on this address (from within its own host).
    Connects(Address),
    /// This command succeeds (run on the same host).
    Command(CommandSpec),
    /// At once.
    Immediately,
}

/// A server process to be kept running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessSpec {
    /// A short name for messages: `web nginx`.
    pub name: String,
    /// Absolute path of the program. It must stay in the foreground.
    pub program: PathBuf,
    /// Arguments, without the program.
    pub args: Vec<String>,
    /// The whole environment (nothing is inherited but `PATH`).
    pub env: Vec<(String, String)>,
    /// Working directory.
    pub dir: PathBuf,
    /// Run as this user (needs root); `None` keeps the caller's.
    pub user: Option<String>,
    /// File that receives standard output and standard error.
    pub output: PathBuf,
    /// When it counts as ready.
    pub ready: Ready,
    /// How long it may take to become ready.
    pub ready_timeout: Duration,
    /// The signal that reloads its configuration gracefully, when it has one.
    pub reload: Option<Signal>,
    /// The signal that stops it gracefully.
    pub stop: Signal,
    /// How long it may take to stop before it is killed.
    pub stop_timeout: Duration,
}

/// A command that runs to its end: a version, a configuration check, `initdb`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandSpec {
    /// Absolute path of the program.
    pub program: PathBuf,
    /// Arguments, without the program.
    pub args: Vec<String>,
    /// Environment added to `PATH`.
    pub env: Vec<(String, String)>,
    /// Working directory; `None` is `/`.
    pub dir: Option<PathBuf>,
    /// Run as this user (needs root); `None` keeps the caller's.
    pub user: Option<String>,
    /// Text for its standard input.
    pub stdin: Option<String>,
    /// Time after which it is killed.
    pub timeout: Duration,
}

/// Runs a command with a file for its standard input.
const READING: &str = "exec \"$@\" < \"$0\"";
const SHELL: &str = "/bin/sh";

impl CommandSpec {
    /// A command with no arguments, an empty environment and 60 seconds.
    #[must_use]
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            user: None,
            stdin: None,
            timeout: Duration::from_secs(60),
        }
    }

    /// The same command with a file for its standard input, of any size; it is opened by the command's own user.
    #[must_use]
    pub fn reading(self, file: &Path) -> Self {
        let words = [file, &self.program].map(|path| path.to_string_lossy().into_owned());
        let shell = ["-c", READING].map(str::to_owned);
        let args = shell.into_iter().chain(words).chain(self.args).collect();
        Self {
            program: SHELL.into(),
            args,
            ..self
        }
    }

    /// What runs, as a person would write it: the program, and the file that it reads.
    #[must_use]
    pub fn describe(&self) -> String {
        match self.args.as_slice() {
            [_, reading, file, program, ..] if reading == READING => format!("{program} < {file}"),
            _ => self.program.display().to_string(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }
}

/// What a command left behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutput {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output, lossily as UTF-8.
    pub stdout: String,
    /// Standard error, lossily as UTF-8.
    pub stderr: String,
}

impl CommandOutput {
    /// True for exit code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.code == Some(0)
    }
}

/// The one door through which other crates run commands. The lab implements it; tests may fake it.
pub trait Commands {
    /// Runs a command to its end.
    ///
    /// # Errors
    /// The program could not be started or did not end in time, in words a person can act on. A command
    /// that ran and failed is not an error here: look at [`CommandOutput::code`].
    fn run(&self, command: &CommandSpec) -> Result<CommandOutput, String>;
}
