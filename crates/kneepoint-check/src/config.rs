//! What is in force: configuration as the program itself would read it, each value with its file and line.
//!
//! The stack crate reads and writes one text without losing a byte; here many files of a stranger are only read, in the
//! program's own order, later ones over earlier ones, and the line of every value is kept. Every parser takes any text in
//! linear time; what it does not understand it leaves out.

mod apache;
mod bounds;
mod fpm;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod haproxy;
mod ini;
mod lines;
mod mysql;
mod nginx;
mod pgbouncer;
mod postgresql;
mod redis;

pub(crate) use apache::read as apache;
pub(crate) use fpm::read as fpm;
pub(crate) use haproxy::read as haproxy;
pub(crate) use ini::{IniPlaces, read as php_ini};
pub(crate) use mysql::{PERSISTED as MYSQL_PERSISTED, read as mysql};
pub(crate) use nginx::{host_of, read as nginx};
pub(crate) use pgbouncer::read as pgbouncer;
pub(crate) use postgresql::read as postgresql;
pub(crate) use redis::read as redis;

use crate::files::{self, Files, Unread};
use crate::snapshot::{Blind, ReadFile};
use bounds::Bounds;
use std::collections::HashSet;

/// How deep files may include one another.
const NESTED: usize = 10;
/// A file that was changed so long after the program read it has changed since, in seconds: clocks of files and of
/// processes differ by a tick.
const SLACK_S: f64 = 1.0;

/// A process that has a configuration.
pub(crate) struct Subject<'a> {
    /// The files as it sees them.
    pub(crate) files: &'a dyn Files,
    /// Its command line.
    pub(crate) args: &'a [String],
    /// Its working directory.
    pub(crate) cwd: &'a str,
    /// Its environment.
    pub(crate) env: &'a dyn Fn(&str) -> Option<String>,
    /// When it last read its configuration, in seconds since 1970.
    pub(crate) loaded_s: f64,
}

#[cfg(test)]
impl<'a> Subject<'a> {
    /// A process with these files and arguments, without an environment, that read its files before they were changed.
    pub(crate) fn with(files: &'a dyn Files, args: &'a [String]) -> Self {
        Self {
            files,
            args,
            cwd: "/",
            env: &|_| None,
            loaded_s: 0.0,
        }
    }
}

/// Reads the files of one program, and keeps what it read.
pub(crate) struct Reader<'a> {
    files: &'a dyn Files,
    loaded_s: f64,
    depth: usize,
    bounds: Bounds,
    /// The files that were read, in their order, each once.
    read: Vec<ReadFile>,
    known: HashSet<String>,
    /// What could not be read.
    blind: Vec<Blind>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(subject: &Subject<'a>) -> Self {
        Self {
            files: subject.files,
            loaded_s: subject.loaded_s,
            depth: 0,
            bounds: Bounds::default(),
            read: Vec::new(),
            known: HashSet::new(),
            blind: Vec::new(),
        }
    }

    /// The files that were read, and what could not be.
    pub(crate) fn done(self) -> (Vec<ReadFile>, Vec<Blind>) {
        let mut blind = bounds::together(self.blind);
        blind.extend(self.bounds.told());
        (self.read, blind)
    }

    /// A file that must be there; why it cannot be read is kept.
    pub(crate) fn must(&mut self, path: &str) -> Option<String> {
        match self.text(path) {
            Ok(text) => text,
            Err(why) => self.refused(path, &why),
        }
    }

    fn refused(&mut self, path: &str, why: &Unread) -> Option<String> {
        let remedy = match why {
            Unread::Denied => "run the check as root",
            _ => "see whether the program still finds it",
        };
        let blind = Blind::new(path, why.to_string(), remedy);
        self.blind.push(blind.weighing());
        None
    }

    /// A file that may be missing.
    pub(crate) fn may(&mut self, path: &str) -> Option<String> {
        match self.text(path) {
            Err(Unread::Missing) => None,
            Ok(text) => text,
            Err(why) => self.refused(path, &why),
        }
    }

    /// A text; `None` where it is left out, which is told in the end.
    fn text(&mut self, path: &str) -> Result<Option<String>, Unread> {
        if path.contains(char::REPLACEMENT_CHARACTER) {
            return Err(Unread::NoFile("a name that is no text"));
        }
        if !self.bounds.opens(path) {
            return Ok(None);
        }
        let content = self.files.read(path)?;
        self.note(path, content.modified_s);
        let text = content.text();
        Ok(self.bounds.takes(path, &text).then_some(text))
    }

    fn note(&mut self, path: &str, modified_s: f64) {
        if self.known.insert(path.to_owned()) {
            self.read.push(ReadFile {
                path: path.to_owned(),
                modified_s,
                newer: modified_s > self.loaded_s + SLACK_S,
            });
        }
    }

    /// Notes files that hold data, and no settings: how long they are is no matter.
    pub(crate) fn data(&mut self, pattern: &str) {
        for path in self.paths(pattern) {
            if !self.bounds.opens(&path) {
                continue;
            }
            match self.files.tail(&path, 0) {
                Ok(content) => self.note(&path, content.modified_s),
                Err(why) => drop(self.refused(&path, &why)),
            }
        }
    }

    fn paths(&mut self, pattern: &str) -> Vec<String> {
        if !files::is_pattern(pattern) {
            return vec![pattern.to_owned()];
        }
        if !self.bounds.seeks() {
            return Vec::new();
        }
        let found = files::matching(self.files, pattern, &mut self.bounds.names);
        found.unwrap_or_else(|| {
            self.bounds.cuts(pattern);
            Vec::new()
        })
    }

    /// What an `include` names: the file itself, which must be there, or all that fit a pattern.
    pub(crate) fn included(&mut self, pattern: &str) -> Vec<(String, String)> {
        if self.depth >= NESTED {
            let why = format!("files include one another more than {NESTED} deep");
            self.blind
                .push(Blind::new(pattern, why, "end the circle of includes"));
            return Vec::new();
        }
        let is_pattern = files::is_pattern(pattern);
        let paths = self.paths(pattern);
        let texts = paths.into_iter().filter_map(|path| {
            let text = match is_pattern {
                true => self.may(&path),
                false => self.must(&path),
            };
            Some((path, text?))
        });
        texts.collect()
    }

    /// Does something one level deeper.
    pub(crate) fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// The names in a directory with an ending, sorted.
    pub(crate) fn names(&mut self, dir: &str, ending: &str) -> Vec<String> {
        let names = self.files.names(dir).unwrap_or_default().into_iter();
        names
            .map(|name| name.name)
            .filter(|name| name.ends_with(ending))
            .collect()
    }

    /// A file that must be there, or, where it is a directory, the files in it with an ending, sorted: there may be none.
    pub(crate) fn file_or_dir(&mut self, path: &str, ending: &str) -> Vec<(String, String)> {
        let why = match self.text(path) {
            Ok(text) => return Vec::from_iter(text.map(|text| (path.to_owned(), text))),
            Err(why) => why,
        };
        let names = match self.files.names(path) {
            Ok(names) if why != Unread::Missing || !names.is_empty() => names.into_iter(),
            Err(Unread::Denied) => {
                drop(self.refused(path, &Unread::Denied));
                return Vec::new();
            }
            _ => {
                drop(self.refused(path, &why));
                return Vec::new();
            }
        };
        let fitting = names.filter(|name| !name.is_dir && name.name.ends_with(ending));
        let paths = fitting.map(|name| files::absolute(path, &name.name));
        let texts = paths.filter_map(|path| self.must(&path).map(|text| (path, text)));
        texts.collect()
    }

    /// Whether a file can be read at all; nothing is noted.
    pub(crate) fn is_there(&self, path: &str) -> bool {
        self.files.identity(path).is_some()
    }

    /// Notes what is not looked at.
    pub(crate) fn hint(&mut self, blind: Blind) {
        self.blind.push(blind);
    }

    /// Notes that a setting could not be found or understood.
    pub(crate) fn unread(&mut self, what: &str, why: &str, remedy: &str) {
        self.blind.push(Blind::new(what, why, remedy).weighing());
    }
}

/// The argument behind an option: `-c FILE`, `-cFILE`, `--config FILE`, `--config=FILE`.
pub(crate) fn option<'a>(args: &'a [String], names: &[&str]) -> Option<&'a str> {
    let mut found = None;
    for (at, arg) in args.iter().enumerate().skip(1) {
        for name in names {
            let Some(rest) = arg.strip_prefix(name) else {
                continue;
            };
            found = match rest.strip_prefix('=') {
                Some(value) => Some(value),
                None if rest.is_empty() => args.get(at + 1).map(String::as_str),
                None if !name.starts_with("--") => Some(rest),
                None => found,
            };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_in_every_spelling() {
        let check = |line: &str, expected: Option<&str>| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(option(&args, &["-c", "--config"]), expected, "{line}");
        };
        check("nginx -c /a", Some("/a"));
        check("nginx -c/a", Some("/a"));
        check("php --config=/a", Some("/a"));
        check("php --config /a", Some("/a"));
        check("php --configure /a", None);
        check("nginx", None);
    }
}
