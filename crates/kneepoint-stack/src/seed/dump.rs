//! What a dump says of the machine that it was made on, and the lab does not have: other databases, owners, users,
//! collations. The lab has one database, whose owner is the application's role; each of these would end the seed.

use memchr::memmem;
use std::borrow::Cow;

mod mariadb;
mod postgresql;

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

    /// What the lab's client gets of a line, its end included; nothing of what only another machine could do.
    pub(super) fn line<'l>(&mut self, line: &'l [u8]) -> Cow<'l, [u8]> {
        match self {
            Self::Mariadb(reading) => reading.line(line),
            Self::Postgresql(reading) => reading.line(line),
            Self::AsItIs => Cow::Borrowed(line),
        }
    }

    /// The databases that it holds, where they are several; the lab has one.
    pub(super) fn databases(&self) -> &[String] {
        let names = match self {
            Self::Mariadb(reading) => &reading.databases,
            Self::Postgresql(reading) => &reading.databases,
            Self::AsItIs => return &[],
        };
        if names.len() > 1 { names } else { &[] }
    }
}

/// What stands for a line that is left out: the lines after it keep their numbers, which the client tells in its errors.
const LEFT_OUT: Cow<'static, [u8]> = Cow::Borrowed(b"\n");

/// Whether a line begins with these words, in capitals or not.
fn begins(line: &[u8], words: &str) -> bool {
    let line = line.trim_ascii_start();
    line.get(..words.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(words.as_bytes()))
}

/// Whether a line begins with one of these.
fn begins_with_any(line: &[u8], beginnings: &[&str]) -> bool {
    beginnings.iter().any(|words| begins(line, words))
}

/// Whether the statement ends on this line.
fn ends(line: &[u8]) -> bool {
    line.trim_ascii_end().ends_with(b";")
}

/// Whether these bytes stand in it.
fn holds(line: &[u8], what: &str) -> bool {
    memmem::find(line, what.as_bytes()).is_some()
}

/// Takes a database's name in, once.
fn take(databases: &mut Vec<String>, name: &str) {
    if !databases.iter().any(|known| known == name) {
        databases.push(name.to_owned());
    }
}

/// A name out of the quotes that dumps put around it.
fn unquoted(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let quotes = |c: char| c.is_whitespace() || "`\"';".contains(c);
    text.trim_matches(quotes).to_owned()
}

#[cfg(test)]
mod tests {
    use super::Reading;

    /// What comes of a dump, without the empty lines.
    pub(super) fn read(mut reading: Reading, dump: &str) -> (String, Vec<String>) {
        let lines = dump.split_inclusive('\n');
        let kept: String = lines
            .map(|line| {
                String::from_utf8(reading.line(line.as_bytes()).into_owned()).expect("text")
            })
            .filter(|line| !line.trim().is_empty())
            .collect();
        (kept, reading.databases().to_vec())
    }
}
