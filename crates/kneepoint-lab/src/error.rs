//! What can go wrong in a lab, in words a person can act on.

use serde::{Deserialize, Serialize};
use std::io;
use std::path::PathBuf;

/// Why the lab could not do what it was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error, Serialize, Deserialize)]
pub enum LabError {
    /// The keeper process did not come up.
    #[error("the lab's keeper process did not start: {why}")]
    NoKeeper {
        /// What happened.
        why: String,
    },
    /// The keeper process ended while the lab was in use; what it owned has been removed.
    #[error(
        "the keeper process of lab {lab} ended unexpectedly and its hosts are gone; start a new lab"
    )]
    KeeperLost {
        /// The lab's id.
        lab: String,
    },
    /// Somebody stopped the keeper process, and it was waited for in vain.
    #[error(
        "the keeper process of lab {lab} is stopped (SIGSTOP, or a debugger) and answers nothing; the lab ends"
    )]
    KeeperStopped {
        /// The lab's id.
        lab: String,
    },
    /// The plan asks for something that cannot be.
    #[error("the lab plan is wrong: {why}")]
    BadPlan {
        /// What is wrong and what would be right.
        why: String,
    },
    /// No host has this name.
    #[error("the lab has no host `{name}`; it has {known}")]
    UnknownHost {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The lab knows no such process (its host was removed).
    #[error("the lab knows no process `{name}` any more; its host was removed")]
    UnknownProcess {
        /// The process's name.
        name: String,
    },
    /// A program is not installed.
    #[error("the program \"{program}\" {why}; install it or correct the path")]
    NoProgram {
        /// Its path.
        program: PathBuf,
        /// `does not exist`, `is not executable`.
        why: String,
    },
    /// A user does not exist.
    #[error(
        "the user `{user}` is not in /etc/passwd; create it (useradd --system {user}) or name another"
    )]
    NoUser {
        /// The name asked for.
        user: String,
    },
    /// What runs in the lab would reach what is outside.
    #[error(
        "the lab cannot be closed here: {why}. An application under load would reach the real servers that its settings \
         name: databases, caches, mail, payment. Run it as root, and in a container with the rights to make namespaces \
         (CAP_SYS_ADMIN and CAP_NET_ADMIN, with AppArmor and seccomp that allow mounts). Where nothing can be harmed, \
         --host-network runs it on this machine's own network"
    )]
    NotClosed {
        /// What is missing.
        why: String,
    },
    /// Something only root may do.
    #[error("{what} needs root; run it with sudo, or leave it out")]
    NeedsRoot {
        /// What was asked.
        what: String,
    },
    /// This lab cannot do it, and says why.
    #[error("{what} is not possible here: {why}")]
    Unsupported {
        /// What was asked.
        what: String,
        /// What is missing.
        why: String,
    },
    /// Something else already listens where a server should.
    #[error(
        "`{process}` cannot listen on {address}: something else already accepts connections there; stop it or choose another port"
    )]
    AddressTaken {
        /// The server to be started.
        process: String,
        /// Where it should listen.
        address: String,
    },
    /// A server did not become ready.
    #[error("`{process}` did not become ready: {because}{}", quoted(.output, .tail))]
    NotReady {
        /// The server.
        process: String,
        /// `it exited with code 1 after 0.1 s`, `it accepts no connection on 198.18.0.2:80 after 10 s`.
        because: String,
        /// The file that receives what it prints.
        output: PathBuf,
        /// The last lines it printed; empty when it printed nothing.
        tail: String,
    },
    /// A process is not running any more.
    #[error("`{process}` is not running: it {how}{}", quoted(.output, .tail))]
    Ended {
        /// The process.
        process: String,
        /// `exited with code 1`, `was killed by signal 9`.
        how: String,
        /// The file that receives what it prints.
        output: PathBuf,
        /// The last lines it printed.
        tail: String,
    },
    /// A command took too long and was killed.
    #[error(
        "the command `{command}` did not end within {after_s} s and was killed; its last words: {tail}"
    )]
    TimedOut {
        /// The command line.
        command: String,
        /// The time it was given, in seconds.
        after_s: f64,
        /// The last lines it printed.
        tail: String,
    },
    /// The operating system refused.
    #[error("{what} failed: {why}{advice}")]
    System {
        /// What was tried, on what.
        what: String,
        /// The system's words.
        why: String,
        /// What to do; empty, or starts with a separator.
        advice: String,
    },
}

fn quoted(output: &std::path::Path, tail: &str) -> String {
    if tail.is_empty() {
        format!("; it printed nothing to \"{}\"", output.display())
    } else {
        format!("; last lines of \"{}\":\n{tail}", output.display())
    }
}

impl LabError {
    /// An error of the system, with advice where the cause has a usual cure.
    pub(crate) fn system(what: impl Into<String>, error: &io::Error) -> Self {
        Self::System {
            what: what.into(),
            why: error.to_string(),
            advice: advice(error).to_owned(),
        }
    }

    pub(crate) fn bad_plan(why: impl Into<String>) -> Self {
        Self::BadPlan { why: why.into() }
    }
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space there, or set TMPDIR to a directory on another disk"
        }
        io::ErrorKind::PermissionDenied => {
            "; it needs more rights than this user has (root has them)"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; it is mounted read-only, as in most containers",
        io::ErrorKind::NotFound => "; create what is missing",
        io::ErrorKind::OutOfMemory => "; memory is exhausted: stop something or lower a limit",
        _ => match error.raw_os_error() {
            Some(24 | 23) => "; raise the limit of open files (ulimit -n)",
            Some(11) => "; the limit of processes is reached (ulimit -u, pids cgroup)",
            _ => "",
        },
    }
}

/// Attaches what was tried to an IO error.
pub(crate) trait Context<T> {
    /// Names what was tried, on what.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, LabError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, LabError> {
        self.map_err(|error| LabError::system(what(), &error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_the_thing_and_the_cure() {
        let full = LabError::system(
            "writing \"/tmp/x\"",
            &io::Error::from(io::ErrorKind::StorageFull),
        );
        assert!(full.to_string().contains("TMPDIR"), "{full}");
        let unready = LabError::NotReady {
            process: "web nginx".into(),
            because: "it exited with code 1 after 0.1 s".into(),
            output: "/tmp/out".into(),
            tail: "bind() failed".into(),
        };
        let text = unready.to_string();
        for part in ["web nginx", "code 1", "/tmp/out", "bind() failed"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
