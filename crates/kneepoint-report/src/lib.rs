//! Turns a run record into something to read: terminal, HTML, Markdown, JSON, CSV, JUnit.
//!
//! This crate alone decides how a run is told: which sentence comes first, which picture shows it, what is
//! said to be missing. Every format is a pure function of [`Run`]; every format sees the run only after
//! [`redact`] took the secrets out.
//!
//! It must never read a file or a clock, print, judge a measurement anew (a verdict comes from the record), or
//! leave out the conditions of a number.
//!
//! To add a format: one file in `src/formats/` with a `FORMAT`, and one line in [`FORMATS`].

mod csv;
mod formats;
mod html;
mod load;
mod markdown;
mod subjects;
mod tables;
mod text;
mod words;

use kneepoint_model::Run;

pub use formats::FORMATS;
pub use kneepoint_model::redact::{HIDDEN, is_secret_name, redact, redact_text};
pub use load::{LoadFormat, LoadHop, LoadRun, render_load};
pub use subjects::inside::terminal::calls_text;
pub use subjects::summary::{Confirmation, RunOutcome, Summary, summarise};

/// Whether a text may carry escape sequences for colour and weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Styles {
    /// No escape sequence at all.
    #[default]
    Plain,
    /// ANSI sequences, for a terminal that shows them.
    Ansi,
}

/// What the caller knows that the run does not.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Colour and weight of the terminal summary; other formats ignore it.
    pub styles: Styles,
    /// Where results lie, as (what, path): `("report", "runs/a/report.html")`. Named at the end of the
    /// terminal summary and of the Markdown.
    pub files: Vec<(String, String)>,
    /// Another run, whose flame graph this one's is to be told from.
    pub against: Option<Box<Run>>,
}

/// A way to write a run down.
#[derive(Debug)]
pub struct Format {
    /// The name on the command line: `html`.
    pub name: &'static str,
    /// The usual ending of its files, without the dot.
    pub extension: &'static str,
    /// One line on what it is for.
    pub about: &'static str,
    /// The rendering of a run that [`redact`] went over.
    render: fn(&Run, &Options) -> String,
}

impl Format {
    /// The format with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().copied().find(|format| format.name == name)
    }
}

/// Writes a run in a format. Secrets are replaced first, whatever the format. A run that is not complete, even an
/// empty one, renders with what there is and says what is missing.
#[must_use]
pub fn render(run: &Run, format: &Format, options: &Options) -> String {
    let against = options.against.as_ref();
    let options = Options {
        against: against.map(|run| Box::new(redact(run))),
        ..options.clone()
    };
    (format.render)(&redact(run), &options)
}
