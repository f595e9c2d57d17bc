//! Learns a workload from the access log of nginx or Apache: what is asked for and how often, who asks, how long they
//! pause, how the rate goes over the day.
//!
//! [`learn`] reads a log as a stream, in bounded memory, and never stops at a bad line: it counts them. What each
//! step does, and what it cannot know, is in its module:
//!
//! - `detect` and `format`: the shape of the lines;
//! - `fold` and `routes`: identifiers are folded, real examples kept;
//! - `visits` and `pauses`: visitors, visits, think time;
//! - `rate`: the rate per minute, and the schedule that replays it.
//!
//! # When a request began
//!
//! nginx writes a line when the response has been sent, so its times (`$msec`, `$time_local`) are those of the end,
//! and the beginning is that minus `$request_time`. Apache's `%t` is the beginning, and the end is that plus `%D`.
//! Without a duration in the log both are taken to be the same, and think times come out longer by the mean
//! duration of a request; the notes of what was learnt say so.
//!
//! # What is not replayed
//!
//! Only GET and HEAD are, for a log has no bodies, and what changes data must be written by hand. Everything else is
//! counted and said. Values of parameters such as `token` are replaced when read.

mod apache;
mod detect;
mod fields;
mod fold;
mod format;
mod json;
mod learned;
mod lines;
mod nginx;
mod pauses;
mod rate;
mod routes;
mod sample;
mod target;
mod time;
mod unescape;
mod visits;

pub use fields::{BadLine, Entry};
pub use format::{FormatError, LineFormat, parse_line};
pub use learned::{Learned, Route, Visiting};
pub use target::Asked;

use learned::Learner;
use lines::{Line, Lines};
use std::io::{self, BufRead};
use std::time::Duration;

/// What decides how a log is read.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnOptions {
    /// The format, as [`LineFormat::parse`] reads it; `None` finds out from the first lines.
    pub format: Option<String>,
    /// A visitor who is silent for longer begins a new visit. Half an hour is what web analytics agree on.
    pub visit_gap: Duration,
    /// A request that follows sooner than this after the visitor's last response is no thought: a redirect, or what
    /// a page embeds. 5 ms: nobody acts as fast, a network round trip rarely is, and of real thoughts with a mean
    /// of only 300 ms it takes no more than one in sixty.
    pub at_once: Duration,
    /// A position of a path, or a parameter, that takes more different words than this is folded.
    pub words: usize,
    /// Most real paths a route is replayed with.
    pub paths_per_route: usize,
    /// Most requests the learned workload has: half of them go to routes by their share, and of the routes only
    /// that many are kept, the rarest left out.
    pub most_requests: usize,
}

impl Default for LearnOptions {
    fn default() -> Self {
        Self {
            format: None,
            visit_gap: Duration::from_secs(30 * 60),
            at_once: Duration::from_millis(5),
            words: 30,
            paths_per_route: 50,
            most_requests: 1000,
        }
    }
}

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

/// Longest part of a line that is quoted, in characters.
const QUOTED: usize = 160;

/// Learns from a log, which may be compressed with gzip.
///
/// # Errors
/// The log cannot be read, its format is not known, or there is no request in it that can be replayed.
pub fn learn(reader: impl BufRead, options: &LearnOptions) -> Result<Learned, LearnError> {
    let mut lines = Lines::new(reader)?;
    let mut first: Vec<String> = Vec::new();
    let mut too_long = 0;
    let format = match &options.format {
        Some(text) => LineFormat::parse(text)?,
        None => {
            while first.len() < detect::SAMPLE_LINES
                && let Some(line) = lines.read()?
            {
                match line {
                    Line::Text(text) => first.push(String::from_utf8_lossy(text).into_owned()),
                    Line::TooLong(_) => too_long += 1,
                }
            }
            detect::detect(&first).ok_or_else(|| unknown(&first))?
        }
    };
    let mut learner = Learner::new(options, &format);
    (0..too_long).for_each(|_| learner.bad("", &BadLine::TooLong));
    first.iter().for_each(|line| learner.line(line));
    drop(first);
    while let Some(line) = lines.read()? {
        match line {
            Line::Text(text) => learner.line(&String::from_utf8_lossy(text)),
            Line::TooLong(text) => learner.bad(&String::from_utf8_lossy(text), &BadLine::TooLong),
        }
    }
    learner.finish()
}

fn unknown(lines: &[String]) -> LearnError {
    let mut lines = lines.iter().filter(|line| !line.trim_ascii().is_empty());
    match lines.next() {
        None => LearnError::Empty,
        Some(line) => LearnError::Unknown {
            first: quoted(line),
        },
    }
}

fn quoted(line: &str) -> String {
    line.chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests;
