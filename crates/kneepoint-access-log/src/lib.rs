//! Learns a workload from the access log of nginx or Apache, and only that.
//!
//! What is asked for and how often, who asks, how long they pause, how the rate goes over the day: all of it is in a log.
//!
//! This crate alone reads access logs as traffic to be replayed. It must never send a request, open a file by itself (it
//! is given a reader), hold a whole log in memory, or stop at a bad line: bad lines are counted and shown.
//!
//! [`learn`] reads a log as a stream, in bounded memory. What each step does, and what it cannot know, is in its
//! module:
//!
//! - `detect` and `format`: the shape of the lines; `entry`: what a line says;
//! - `routes`: identifiers are folded, real examples kept;
//! - `visits`: visitors, visits, think time;
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

mod detect;
mod entry;
mod error;
mod format;
mod learned;
mod lines;
mod options;
mod rate;
mod routes;
mod sample;
mod visits;

pub use detect::detect;
pub use entry::{BadLine, LogEntry, LoggedRequest};
pub use error::LearnError;
pub use format::{FormatError, LineFormat, parse_line};
pub use learned::{Learned, Route, Visiting};
pub use options::LearnOptions;

use error::quoted;
use learned::Learner;
use lines::{Line, Lines};
use std::io::BufRead;

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
            detect(&first).ok_or_else(|| unknown(&first))?
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

#[cfg(test)]
mod tests;
