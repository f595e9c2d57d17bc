//! Load profiles as other tools write them, read with those tools' own semantics and printed back as understood.
//!
//! This crate alone knows the command lines and scenarios of other load generators. Each syntax is one file in
//! `syntaxes/` and one line in the list [`SYNTAXES`]. What a tool would do that Kneepoint does not, or differently, is told in
//! [`Imported::notes`].
//!
//! It must never open a file that a profile names, send anything, or guess: a text that it does not understand whole is
//! refused with the piece that is wrong and what to write.

use kneepoint_model::pieces::excerpt;
use kneepoint_model::schedule::FirstArrival;
use kneepoint_model::{Arrivals, ClosedLoop, Method, Schedule};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

mod canonical;
mod flags;
mod relaxed;
mod syntaxes;
mod values;

pub use syntaxes::SYNTAXES;
pub use values::asks_to_close;

/// A syntax for load profiles.
#[derive(Debug)]
pub struct Syntax {
    /// Its name in messages: the tool, and which of its forms.
    pub name: &'static str,
    /// Something to write in it.
    pub example: &'static str,
    /// Whether a text is meant to be in this syntax, right or wrong.
    recognises: fn(&str) -> bool,
    /// Reads it.
    read: fn(&str) -> Result<Imported, Refusal>,
}

/// Who decides when a request starts, as the source said it.
#[derive(Debug, Clone, PartialEq)]
pub enum ImportedLoad {
    /// A schedule does.
    Open {
        /// The offered rate over time.
        schedule: Schedule,
        /// Where the first arrival lies, when they are evenly spaced.
        first: FirstArrival,
        /// How the source spreads arrivals within the rate.
        arrivals: Arrivals,
    },
    /// The responses do.
    Closed(ClosedLoop),
}

/// [`ClosedLoop::duration`] of a loop that only its number of requests ends: a year.
pub const NO_TIME_LIMIT: Duration = kneepoint_model::schedule::text::LONGEST;

/// The body of the requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportedBody {
    /// This text.
    Text(String),
    /// What this file holds. Nothing has looked whether it exists.
    File(String),
}

/// A load profile in any syntax, understood. What the source does not say is `None`.
///
/// `Display` prints it canonically, one word after the other as a shell would take them, notes last and each on a
/// line of its own; [`Imported::from_str`] and [`parse`] read that back to the same value. Headers are printed as
/// they are, secrets included.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// When requests start.
    pub load: ImportedLoad,
    /// Threads of the source tool.
    pub threads: Option<usize>,
    /// Connections, or the most of them.
    pub connections: Option<usize>,
    /// Whether connections are used again.
    pub keep_alive: Option<bool>,
    /// The timeout of a request.
    pub timeout: Option<Duration>,
    /// The method.
    pub method: Option<Method>,
    /// Where to, as written.
    pub url: Option<String>,
    /// Headers, name and value.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<ImportedBody>,
    /// What the source tool would do differently, a sentence each.
    pub notes: Vec<String>,
}

impl Imported {
    /// A profile that says nothing but when requests start.
    #[must_use]
    pub fn new(load: ImportedLoad) -> Self {
        Self {
            load,
            threads: None,
            connections: None,
            keep_alive: None,
            timeout: None,
            method: None,
            url: None,
            headers: Vec::new(),
            body: None,
            notes: Vec::new(),
        }
    }

    /// Evenly spaced arrivals by a schedule.
    fn even(schedule: Schedule, first: FirstArrival) -> Self {
        Self::new(ImportedLoad::Open {
            schedule,
            first,
            arrivals: Arrivals::Even,
        })
    }

    fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }
}

impl fmt::Display for Imported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&canonical::print(self))
    }
}

impl FromStr for Imported {
    type Err = ImportError;

    fn from_str(text: &str) -> Result<Self, ImportError> {
        parse(text)
    }
}

/// A piece of a text that cannot be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    piece: String,
    problem: String,
}

impl Refusal {
    fn new(piece: &str, problem: impl Into<String>) -> Self {
        Self {
            piece: excerpt(piece),
            problem: problem.into(),
        }
    }
}

/// Why a load profile could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{syntax}: `{piece}`: {problem}")]
pub struct ImportError {
    /// The syntax it was taken for.
    pub syntax: &'static str,
    /// The offending piece, as written (its beginning, when it is long).
    pub piece: String,
    /// What is wrong and what to write.
    pub problem: String,
}

/// Longest text that is looked at, in bytes: longer than the most pieces of a schedule take when they are printed.
const LONGEST_TEXT: usize = 1 << 20;

/// The syntax a text is meant to be in, judged by how it begins; `None` when it is none of them.
#[must_use]
pub fn detect(text: &str) -> Option<&'static Syntax> {
    let text = text.trim();
    let mut syntaxes = SYNTAXES.iter().copied();
    syntaxes.find(|syntax| (syntax.recognises)(text))
}

/// Reads a load profile in whichever of [`SYNTAXES`] it is.
///
/// # Errors
/// It is in none of them, or says something that cannot be.
pub fn parse(text: &str) -> Result<Imported, ImportError> {
    let text = text.trim();
    let unknown = |problem: String| ImportError {
        syntax: "load profile",
        piece: excerpt(text),
        problem,
    };
    if text.len() > LONGEST_TEXT {
        return Err(unknown(format!(
            "it is longer than {LONGEST_TEXT} bytes; write fewer stages"
        )));
    }
    let Some(syntax) = detect(text) else {
        let examples: Vec<&str> = SYNTAXES.iter().map(|syntax| syntax.example).collect();
        return Err(unknown(format!(
            "this is in no syntax that is known; write for example `{}`",
            examples.join("` or `")
        )));
    };
    let read = (syntax.read)(text).map(values::closing);
    let read = read.and_then(|read| values::within_bounds(text, read));
    read.map_err(|refusal| ImportError {
        syntax: syntax.name,
        piece: refusal.piece,
        problem: refusal.problem,
    })
}

/// Whether a text begins with the name of a program, with or without its directory.
fn is_command(text: &str, programs: &[&str]) -> bool {
    let first = text.split_whitespace().next().unwrap_or("");
    let name = first.rsplit('/').next().unwrap_or("");
    programs.contains(&name)
}

#[cfg(test)]
mod tests;
