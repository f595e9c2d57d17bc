//! Reads typed values out of a document and collects everything that is wrong with them.

pub(super) mod changes;
pub(super) mod files;
pub(super) mod tree;

use crate::config::error::{ConfigError, ConfigErrors, TextPosition};
use crate::config::keys;
use crate::config::reader::tree::{Entry, Node, Span, SyntaxError, Table, Value};
use crate::config::suggest::nearest;
use crate::config::values::alternatives;
use crate::config::{Servers, Source};
use kneepoint_model::units;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Least memory a host or a stack can be given: below it no server of the chain starts.
const LEAST_MEMORY_BYTES: u64 = 16 << 20;

/// What is wrong, before it is turned into lines and columns.
pub(super) struct Problem {
    at: Option<Span>,
    message: String,
    expected: Option<String>,
    help: Option<String>,
}

impl Problem {
    /// Adds what to do next.
    pub(super) fn help(&mut self, help: impl Into<String>) {
        self.help = Some(help.into());
    }
}

/// A table whose names have been checked.
pub(super) struct Section<'n> {
    /// The table's name in [`keys::all`].
    name: &'static str,
    table: &'n Table,
    /// Where its header or braces stand.
    pub(super) at: Span,
}

impl<'n> Section<'n> {
    /// The value of a documented key.
    pub(super) fn get(&self, key: &'static str) -> Option<&'n Node> {
        debug_assert!(keys::names(self.name).any(|name| name == key), "{key}");
        self.table.get(key)
    }
}

/// The state of reading: the texts, what may be named, and what is wrong so far.
pub(super) struct Reader<'a> {
    sources: &'a [Source<'a>],
    pub(super) servers: &'a dyn Servers,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(sources: &'a [Source<'a>], servers: &'a dyn Servers) -> Self {
        Self {
            sources,
            servers,
            problems: Vec::new(),
        }
    }

    /// The text a value stands in.
    pub(super) fn source(&self, at: Span) -> &'a Source<'a> {
        &self.sources[at.source]
    }

    /// Notes something wrong at a place: the message, and what was expected.
    pub(super) fn wrong(
        &mut self,
        at: Span,
        message: impl Into<String>,
        expected: impl Into<String>,
    ) -> &mut Problem {
        self.note(Some(at), message.into(), Some(expected.into()))
    }

    /// Notes a key that must be there and is not.
    pub(super) fn missing(&mut self, at: Option<Span>, key: &str, expected: &str) {
        let message = format!("`{key}` is missing");
        self.note(at, message, Some(expected.to_owned()));
    }

    pub(super) fn syntax(&mut self, error: SyntaxError) {
        self.note(error.at, error.message, None);
    }

    fn note(
        &mut self,
        at: Option<Span>,
        message: String,
        expected: Option<String>,
    ) -> &mut Problem {
        let index = self.problems.len();
        self.problems.push(Problem {
            at,
            message,
            expected,
            help: None,
        });
        &mut self.problems[index]
    }

    fn unexpected<T>(&mut self, node: &Node, expected: &str) -> Option<T> {
        let found = format!("found {}", node.value.describe());
        self.wrong(node.at, found, expected);
        None
    }

    /// The value, or every problem in the order of the file.
    pub(super) fn finish<T>(mut self, value: Option<T>) -> Result<T, ConfigErrors> {
        match value {
            Some(value) if self.problems.is_empty() => return Ok(value),
            None if self.problems.is_empty() => {
                self.note(None, "the scenario cannot be read".into(), None);
            }
            _ => {}
        }
        self.problems.sort_by_key(|problem| problem.at);
        let sources = self.sources;
        Err(ConfigErrors(
            self.problems
                .into_iter()
                .map(|problem| {
                    let source = &sources[problem.at.map_or(0, |at| at.source)];
                    ConfigError {
                        file: source.file.to_owned(),
                        place: problem
                            .at
                            .map(|at| TextPosition::of(source.text, at.start, at.end)),
                        message: problem.message,
                        expected: problem.expected,
                        help: problem.help,
                    }
                })
                .collect(),
        ))
    }

    /// The document itself as a section.
    pub(super) fn top<'n>(&mut self, table: &'n Table) -> Section<'n> {
        self.names(table, "");
        let at = Span::new(0, 0..0);
        let name = "";
        Section { name, table, at }
    }

    /// A table with a fixed set of names.
    pub(super) fn section<'n>(
        &mut self,
        node: &'n Node,
        name: &'static str,
    ) -> Option<Section<'n>> {
        let Value::Table(table) = &node.value else {
            let expected = format!("a table of {}", keys::accepted(name));
            return self.unexpected(node, &expected);
        };
        self.names(table, name);
        let at = node.at;
        Some(Section { name, table, at })
    }

    fn names(&mut self, table: &Table, name: &str) {
        for Entry { key, key_at, .. } in &table.entries {
            if keys::names(name).any(|known| known == key) {
                continue;
            }
            let place = keys::title(name);
            let at_or_in = if name.is_empty() { "at" } else { "in" };
            let problem = self.wrong(
                *key_at,
                format!("unknown key `{key}` {at_or_in} {place}"),
                keys::accepted(name),
            );
            if let Some(hint) = keys::hint(name, key) {
                problem.help(hint);
            }
        }
    }

    /// A table whose names are the user's: its entries.
    pub(super) fn entries<'n>(&mut self, node: &'n Node, expected: &str) -> &'n [Entry] {
        match &node.value {
            Value::Table(table) => &table.entries,
            _ => {
                self.unexpected::<()>(node, expected);
                &[]
            }
        }
    }

    /// An array.
    pub(super) fn array<'n>(&mut self, node: &'n Node, expected: &str) -> &'n [Node] {
        match &node.value {
            Value::Array(items) => items,
            _ => {
                self.unexpected::<()>(node, expected);
                &[]
            }
        }
    }

    /// A string that is not empty.
    pub(super) fn text<'n>(&mut self, node: &'n Node, expected: &str) -> Option<&'n str> {
        match &node.value {
            Value::Text(text) if text.is_empty() => {
                self.wrong(node.at, "found an empty string", expected);
                None
            }
            Value::Text(text) => Some(text),
            _ => self.unexpected(node, expected),
        }
    }

    /// A string, empty or not.
    pub(super) fn any_text<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        match &node.value {
            Value::Text(text) => Some(text),
            _ => self.unexpected(node, "a string"),
        }
    }

    /// A string, number or boolean, as text.
    pub(super) fn plain(&mut self, node: &Node) -> Option<String> {
        match &node.value {
            Value::Text(text) => Some(text.clone()),
            Value::Integer(number) => Some(number.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Bool(value) => Some(value.to_string()),
            _ => self.unexpected(node, "a string, a number or a boolean"),
        }
    }

    pub(super) fn boolean(&mut self, node: &Node) -> Option<bool> {
        match node.value {
            Value::Bool(value) => Some(value),
            _ => self.unexpected(node, "`true` or `false`"),
        }
    }

    /// A number within bounds, both included.
    pub(super) fn number(
        &mut self,
        node: &Node,
        min: f64,
        max: f64,
        expected: &str,
    ) -> Option<f64> {
        let number = match node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) => number,
            _ => return self.unexpected(node, expected),
        };
        if (min..=max).contains(&number) {
            return Some(number);
        }
        self.wrong(node.at, format!("`{number}` is not possible"), expected);
        None
    }

    /// A whole number within bounds, both included.
    pub(super) fn whole(&mut self, node: &Node, min: u32, max: u32) -> Option<u32> {
        let expected = format!("a whole number from {min} to {max}");
        let Value::Integer(number) = node.value else {
            return self.unexpected(node, &expected);
        };
        let fits = u32::try_from(number).ok();
        let fits = fits.filter(|number| (min..=max).contains(number));
        if fits.is_none() {
            self.wrong(node.at, format!("`{number}` is not possible"), expected);
        }
        fits
    }

    /// A duration longer than nothing.
    pub(super) fn duration(&mut self, node: &Node) -> Option<Duration> {
        const EXPECTED: &str = "a duration such as \"200ms\", \"2s\" or \"20m\"";
        let text = match &node.value {
            Value::Text(text) => text,
            _ => return self.unexpected(node, EXPECTED),
        };
        let read = units::parse_duration(text);
        let read = read.ok().filter(|duration| !duration.is_zero());
        if read.is_none() {
            self.wrong(node.at, format!("`{text}` is not possible"), EXPECTED);
        }
        read
    }

    /// A size of memory in bytes.
    pub(super) fn memory(&mut self, node: &Node) -> Option<u64> {
        const EXPECTED: &str = "a size of at least 16MiB, such as \"512M\" or \"2GiB\"";
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Integer(bytes) => bytes.to_string(),
            _ => return self.unexpected(node, EXPECTED),
        };
        let bytes = units::parse_bytes(&text);
        let bytes = bytes.ok().filter(|bytes| *bytes >= LEAST_MEMORY_BYTES);
        if bytes.is_none() {
            self.wrong(node.at, format!("`{text}` is not possible"), EXPECTED);
        }
        bytes
    }

    /// A share below 1.
    pub(super) fn share(&mut self, node: &Node) -> Option<f64> {
        const EXPECTED: &str = "a share below 100%, such as \"0.1%\" or 0.001";
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            _ => return self.unexpected(node, EXPECTED),
        };
        let share = units::parse_share(&text);
        let share = share.ok().filter(|share| *share < 1.0);
        if share.is_none() {
            self.wrong(node.at, format!("`{text}` is not possible"), EXPECTED);
        }
        share
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&mut self, node: &Node, choices: &[(&str, T)]) -> Option<T> {
        let expected = alternatives(choices.iter().map(|(word, _)| *word));
        let text = self.text(node, &expected)?;
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let near = nearest(text, choices.iter().map(|(word, _)| *word));
        let problem = self.wrong(node.at, format!("`{text}` is not possible"), expected);
        if let Some(near) = near {
            problem.help(format!("did you mean `{near}`?"));
        }
        None
    }

    /// A file that exists, relative to the directory of the text that names it.
    pub(super) fn file(&mut self, node: &Node, what: &str) -> Option<PathBuf> {
        let written = self.text(node, what)?;
        let source = self.source(node.at);
        let path = source.dir.join(written);
        if path.is_file() {
            return std::path::absolute(path).ok();
        }
        let state = match path.is_dir() {
            true => "is a directory",
            false => "does not exist",
        };
        let relative = format!("{what}, relative to the directory of {}", source.file);
        self.wrong(node.at, format!("`{written}` {state}"), relative);
        None
    }

    /// Notes the second of two equal names in a list.
    pub(super) fn distinct(&mut self, seen: &mut BTreeSet<String>, name: &str, at: Span) -> bool {
        let new = seen.insert(name.to_owned());
        if !new {
            self.wrong(at, format!("`{name}` is there twice"), "each name once");
        }
        new
    }
}
