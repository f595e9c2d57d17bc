//! What can go wrong with a configuration, said so that a person can act on it.

use kneepoint_model::Layer;
use std::path::PathBuf;

/// Why a tier cannot be configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StackError {
    /// The program is not on this machine.
    #[error("{program} is not installed (looked for {looked_for}); install {how}")]
    Missing {
        /// The program as people call it.
        program: &'static str,
        /// The paths that were tried.
        looked_for: String,
        /// What brings it: ``the Debian package `nginx` ``.
        how: String,
    },
    /// No server of this name.
    #[error("`{kind}` is not a server Kneepoint can run; use one of {known}")]
    UnknownServer {
        /// The name as written.
        kind: String,
        /// The names there are.
        known: String,
    },
    /// A server at a layer it cannot serve.
    #[error("{server} cannot serve the {layer} tier; it serves {layers}")]
    WrongLayer {
        /// The server's kind.
        server: &'static str,
        /// The layer it was asked to serve.
        layer: Layer,
        /// The layers it can serve.
        layers: String,
    },
    /// A command could not be run at all.
    #[error("{0}")]
    Command(String),
    /// A command ran and failed.
    #[error("`{command}` failed: {words}")]
    CommandFailed {
        /// The command line.
        command: String,
        /// What it said.
        words: String,
    },
    /// The program's own check refuses a configuration.
    #[error("{program} refuses `{file}`: {words}")]
    Refused {
        /// The program.
        program: &'static str,
        /// The main file it was given.
        file: PathBuf,
        /// Its own words.
        words: String,
    },
    /// A configuration that is not in its format.
    #[error("`{file}`, line {line}: {what}")]
    Syntax {
        /// The file, or the name its user knows.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        what: String,
    },
    /// A configuration that is well formed and cannot be used.
    #[error("`{file}` cannot be used: {what}")]
    Unusable {
        /// The file, or the name its user knows.
        file: String,
        /// What is missing and what to do.
        what: String,
    },
    /// A setting nobody knows.
    #[error("{server} has no setting `{layer}.{name}`{hint}")]
    UnknownSetting {
        /// The server's kind.
        server: &'static str,
        /// The layer it was set on.
        layer: Layer,
        /// The name as written.
        name: String,
        /// The nearest known name, in words; empty when none is near.
        hint: String,
    },
    /// A value its setting does not take.
    #[error("`{layer}.{name} = {value}`: {why}")]
    BadValue {
        /// The layer of the setting.
        layer: Layer,
        /// The setting.
        name: String,
        /// The value as written.
        value: String,
        /// What would be accepted.
        why: String,
    },
    /// Values that contradict each other.
    #[error("the {layer} tier's settings contradict each other: {rule}")]
    Inconsistent {
        /// The layer.
        layer: Layer,
        /// The broken rule with the values that break it, and what to do.
        rule: String,
    },
    /// A file or directory that could not be read or written.
    #[error("cannot {action} `{path}`: {why}")]
    Io {
        /// `read`, `write`, `create`, `hand over`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's words.
        why: String,
    },
}

impl StackError {
    pub(crate) fn io(action: &'static str, path: &std::path::Path, why: &impl ToString) -> Self {
        Self::Io {
            action,
            path: path.to_owned(),
            why: why.to_string(),
        }
    }
}
