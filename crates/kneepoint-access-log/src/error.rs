//! Why a log taught nothing.

use crate::format::FormatError;
use std::io;

/// Longest part of a line that is quoted, in characters.
const QUOTED: usize = 160;

/// Why nothing could be learnt from a log.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// It could not be read, or unpacked.
    #[error(
        "the access log cannot be read to its end: {0}; a log that is still being compressed can be read later"
    )]
    Read(#[from] io::Error),
    /// The format given is none.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The format is none of those known.
    #[error(
        "the format of the access log is not known; its first line is {first:?}; say it: the text of nginx's log_format or Apache's LogFormat"
    )]
    Unknown {
        /// The first line, cut to a readable length.
        first: String,
    },
    /// There is no line in it.
    #[error("the access log is empty; take one that covers at least some minutes of real traffic")]
    Empty,
    /// No line of it is a request that can be replayed.
    #[error(
        "the access log has {lines} lines and none is a GET or HEAD request that can be replayed ({why}); check its format, or take another log"
    )]
    Nothing {
        /// Lines that are not blank.
        lines: u64,
        /// What they are instead.
        why: String,
    },
}

/// A line as an error shows it.
pub(crate) fn quoted(line: &str) -> String {
    line.chars().take(QUOTED).collect()
}
