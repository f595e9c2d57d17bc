//! What a dump says of the machine that it was made on, and the lab does not have: other databases, owners, users,
//! collations. The lab has one database, whose owner is the application's role; each of these would end the seed.
//!
//! A statement is left out or passed on as a whole. Rows, texts and bodies of functions pass as they are.

use memchr::memmem;
use scanner::Piece;
use std::borrow::Cow;

mod mariadb;
mod postgresql;
mod scanner;

/// How the lab's client reads a seed.
#[derive(Debug)]
pub(super) enum Reading {
    /// As MariaDB's client does.
    Mariadb(mariadb::Reading),
    /// As PostgreSQL's psql does.
    Postgresql(postgresql::Reading),
    /// Any other: nothing is changed.
    AsItIs,
}

impl Reading {
    /// As the client of this kind of server in this version does.
    pub(super) fn of(server: &str, version: &str) -> Self {
        match server {
            "mariadb" => Self::Mariadb(mariadb::Reading::of(version)),
            "postgresql" => Self::Postgresql(postgresql::Reading::new()),
            _ => Self::AsItIs,
        }
    }

    /// What the lab's client gets of a line, its end included; nothing of what only another machine could do. Lines keep
    /// their numbers, which the client tells in its errors.
    pub(super) fn line<'l>(&mut self, line: &'l [u8]) -> Cow<'l, [u8]> {
        match self {
            Self::Mariadb(reading) => reading.line(line),
            Self::Postgresql(reading) => reading.line(line),
            Self::AsItIs => Cow::Borrowed(line),
        }
    }

    /// Why the dump is none for the lab's one database, at its end.
    pub(super) fn unfit(&self) -> Option<String> {
        let databases = match self {
            Self::Mariadb(reading) => &reading.databases,
            Self::Postgresql(reading) => &reading.databases,
            Self::AsItIs => return None,
        };
        const OWN: &str = "write a dump of the one that the application uses";
        match databases.names.as_slice() {
            [] if databases.left_out => Some(format!(
                "it holds only databases that every server has of its own; {OWN}"
            )),
            [] | [_] => None,
            several => Some(format!(
                "it holds the databases {}, and the lab has one; {OWN}",
                several.join(", ")
            )),
        }
    }
}

/// The databases that a dump names.
#[derive(Debug, Default)]
struct Databases {
    /// Those of applications.
    names: Vec<String>,
    /// Whether what follows is of one that every server has.
    of_system: bool,
    /// Whether tables of such a one were left out.
    left_out: bool,
}

impl Databases {
    /// What follows is of this one.
    fn turn_to(&mut self, name: String, system: &[&str]) {
        self.of_system = system.contains(&name.as_str());
        if !self.of_system && !self.names.contains(&name) {
            self.names.push(name);
        }
    }

    /// Whether a statement is left out since it is of one that every server has.
    fn leaves_out(&mut self, statement: &[u8]) -> bool {
        self.left_out |= self.of_system && begins(statement, "CREATE TABLE");
        self.of_system
    }
}

/// Whether a statement begins with these words, in capitals or not.
fn begins(statement: &[u8], words: &str) -> bool {
    let head = statement.get(..words.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(words.as_bytes()))
}

/// Whether a statement begins with one of these.
fn begins_with_any(statement: &[u8], beginnings: &[&str]) -> bool {
    beginnings.iter().any(|words| begins(statement, words))
}

/// Whether these bytes stand in it.
fn holds(text: &[u8], what: &str) -> bool {
    memmem::find(text, what.as_bytes()).is_some()
}

/// A name out of the quotes that dumps put around it.
fn unquoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let quotes = |c: char| c.is_whitespace() || "`\"';".contains(c);
    text.trim_matches(quotes).to_owned()
}

/// A line of what is passed on of its pieces: itself where that is all of it.
fn passed_on<'l>(
    line: &'l [u8],
    pieces: Vec<Piece<'l>>,
    pass: impl FnMut(Piece<'l>) -> Cow<'l, [u8]>,
) -> Cow<'l, [u8]> {
    let passed: Vec<Cow<'l, [u8]>> = pieces.into_iter().map(pass).collect();
    let kept: usize = passed.iter().map(|piece| piece.len()).sum();
    let is_whole = passed.iter().all(|piece| matches!(piece, Cow::Borrowed(_)));
    if is_whole && kept == line.len() {
        return Cow::Borrowed(line);
    }
    let mut text = passed.concat();
    if line.ends_with(b"\n") && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::Reading;
    use proptest::prelude::*;

    /// What comes of a dump, without the empty lines, and why it is none.
    pub(super) fn read(mut reading: Reading, dump: &str) -> (String, Option<String>) {
        let lines = dump.split_inclusive('\n');
        let kept: String = lines
            .map(|line| {
                String::from_utf8(reading.line(line.as_bytes()).into_owned()).expect("text")
            })
            .filter(|line| !line.trim().is_empty())
            .collect();
        (kept, reading.unfit())
    }

    proptest! {
        #[test]
        fn no_dump_is_too_strange_and_no_line_is_lost(
            dump in "(CREATE DATABASE a|USE `b`|COPY a FROM stdin|GRANT|\\\\connect b|\\\\.|'|\"|`|;|\\$\\$|\\$x|--|/\\*|/\\*!|\\*/|#|\\\\|DELIMITER ;;| |\\n){0,40}",
            server in prop::sample::select(vec!["mariadb", "postgresql"]),
        ) {
            let mut reading = Reading::of(server, "10.11.11");
            for line in dump.split_inclusive('\n') {
                let kept = reading.line(line.as_bytes()).into_owned();
                prop_assert_eq!(kept.ends_with(b"\n"), line.ends_with('\n'));
            }
        }
    }
}
