//! Kneepoint at the terminal: arguments, scenario files, progress, exit codes.
//!
//! This crate alone talks to people: it is the only one that prints, and the only one that knows clap,
//! indicatif or console. It must not measure, judge or configure anything itself.

pub mod args;
pub mod commands;
pub mod config;
pub mod field_report;
pub mod init;
pub mod progress;
mod rate;
mod say;
mod screen;
pub mod session;
pub mod stored;
mod table;

use clap::Parser as _;
use kneepoint_model::redact::shown::visible_lines;
use std::process::ExitCode;

/// Exit code when a threshold failed or something was found that needs a person.
pub const FOUND: u8 = 1;
/// Exit code when the tool itself failed.
pub const FAILED: u8 = 2;
/// Exit code when a gate could not tell.
pub const INCONCLUSIVE: u8 = 3;
/// Exit code when tuning ended and remedies of suspected findings could not be judged.
pub const UNDECIDED: u8 = 4;
/// Exit code after Ctrl-C, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Runs the program on the process' own arguments.
#[must_use]
pub fn main() -> ExitCode {
    let outcome = commands::helper().unwrap_or_else(|| {
        args::Args::try_parse().map_or_else(
            |error| Ok(refused(&error)),
            |args| commands::run(args.command),
        )
    });
    match outcome {
        Ok(code) => code,
        Err(error) => report_failure(&error),
    }
}

/// What a programmer calls an error, and what a person calls it.
const PLAIN_WORDS: [(&str, &str); 4] = [
    (
        "invalid digit found in string",
        "write a whole number, such as 10",
    ),
    ("invalid float literal", "write a number, such as 0.5"),
    (
        "cannot parse integer from empty string",
        "write a whole number, such as 10",
    ),
    (
        "No such file or directory",
        "there is no such file or directory",
    ),
];

fn in_plain_words(text: &str) -> String {
    let mut text = text.to_owned();
    for (error, words) in PLAIN_WORDS {
        text = text.replace(error, words);
    }
    // The number of an error of the system says nothing beside its words.
    while let Some(begins) = text.find(" (os error ") {
        let Some(length) = text[begins..].find(')') else {
            break;
        };
        text.replace_range(begins..=begins + length, "");
    }
    text
}

/// Help, the version, or arguments that are wrong.
fn refused(error: &clap::Error) -> ExitCode {
    if error.kind() == clap::error::ErrorKind::ValueValidation {
        say::say(&in_plain_words(&error.render().to_string()));
    } else {
        // Nobody reads it, then.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FAILED))
}

fn report_failure(error: &anyhow::Error) -> ExitCode {
    let line = |text: String| {
        let text = in_plain_words(&kneepoint_report::redact_text(&text));
        say::say_line(&visible_lines(&text));
    };
    line(format!("kneepoint: {error}"));
    for cause in error.chain().skip(1) {
        line(format!("  because {cause}"));
    }
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_libraries_are_told_in_plain_words() {
        assert_eq!(
            in_plain_words("cannot read a.toml: No such file or directory (os error 2); write it"),
            "cannot read a.toml: there is no such file or directory; write it"
        );
        let error = args::Args::try_parse_from(["kneepoint", "profile", "--rate", "x"]);
        let error = error.expect_err("no number").render().to_string();
        let said = in_plain_words(&error);
        assert!(
            said.contains("such as 10") && !said.contains("digit"),
            "{said}"
        );
    }
}
