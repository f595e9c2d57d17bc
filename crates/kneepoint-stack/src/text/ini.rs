//! `php.ini` and FPM pool files as lines that keep every byte.
//!
//! The rules are PHP's: sections in brackets, `key = value`, `;` opens a comment outside quotes, a quoted
//! value may span lines, of duplicate keys the last one wins. Lines that start with `#` are kept as comments.

use super::SyntaxError;
use std::fmt;

/// A whole ini file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ini {
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Line {
    /// Blank, comment, or anything that is neither a section nor an entry.
    Other(String),
    Section {
        raw: String,
        name: String,
    },
    Entry(Entry),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// Spaces before the key.
    lead: String,
    key: String,
    /// Spaces and `=` between key and value; empty when there is no `=`.
    separator: String,
    /// The value as written, with its quotes.
    raw: String,
    /// Spaces, comment and end of line.
    trail: String,
}

/// Which part of a file an entry belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section<'a> {
    /// `php.ini`: section headers are decoration, except `[PATH=...]` and `[HOST=...]`, which are skipped.
    Any,
    /// A section by name, as in FPM's files.
    Named(&'a str),
}

/// Parses an ini text. Lines that mean nothing are kept as they are.
///
/// # Errors
/// A double quote that is never closed: PHP would take the rest of the file for the value.
pub fn parse(text: &str) -> Result<Ini, SyntaxError> {
    let mut lines = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (line, length) = read_line(&text[at..]).ok_or_else(|| SyntaxError {
            line: 1 + text[..at].matches('\n').count(),
            what: "a quote is never closed".into(),
        })?;
        lines.push(line);
        at += length;
    }
    Ok(Ini { lines })
}

/// The first line of a text (with the lines its value spans) and its length.
fn read_line(text: &str) -> Option<(Line, usize)> {
    let end = text.find('\n').map_or(text.len(), |at| at + 1);
    let first = &text[..end];
    let body = first.trim();
    if body.is_empty() || body.starts_with([';', '#', '=']) {
        return Some((Line::Other(first.to_owned()), end));
    }
    if let Some(inside) = body.strip_prefix('[') {
        let name = inside.split(']').next().unwrap_or("").trim().to_owned();
        let raw = first.to_owned();
        return Some((Line::Section { raw, name }, end));
    }
    read_entry(text, end)
}

fn read_entry(text: &str, line_end: usize) -> Option<(Line, usize)> {
    let first = &text[..line_end];
    let lead_length = first.len() - first.trim_start().len();
    let key_end = first.find(['=', ';']).unwrap_or(line_end).max(lead_length);
    let key = first[lead_length..key_end].trim_end();
    let after_key = lead_length + key.len();
    let (value_start, raw_length) = match first[key_end..].strip_prefix('=') {
        Some(after) => {
            let value = after.trim_start_matches([' ', '\t']);
            let start = line_end - value.len();
            (start, value_length(&text[start..])?)
        }
        None => (after_key, 0),
    };
    let raw_end = value_start + raw_length;
    let end = text[raw_end..]
        .find('\n')
        .map_or(text.len(), |at| raw_end + at + 1);
    let entry = Entry {
        lead: text[..lead_length].to_owned(),
        key: key.to_owned(),
        separator: text[after_key..value_start].to_owned(),
        raw: text[value_start..raw_end].to_owned(),
        trail: text[raw_end..end].to_owned(),
    };
    Some((Line::Entry(entry), end))
}

/// How long the value at the start of a text is: up to a comment or the end of its line, but over line ends
/// within double quotes. `None` when those are never closed.
fn value_length(text: &str) -> Option<usize> {
    let mut end = 0;
    let mut at = 0;
    while let Some(next) = text[at..].chars().next() {
        at += match next {
            '\n' | ';' => break,
            '"' => quoted_length(&text[at..], next)?,
            // An apostrophe within a word is an ordinary character.
            '\'' => quoted_length(&text[at..], next).unwrap_or(1),
            _ => next.len_utf8(),
        };
        if !text[..at].ends_with([' ', '\t', '\r']) {
            end = at;
        }
    }
    Some(end)
}

fn quoted_length(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, next) in text.char_indices().skip(1) {
        match next {
            '\n' if quote == '\'' => break,
            _ if escaped => escaped = false,
            '\\' if quote == '"' => escaped = true,
            _ if next == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// A value as PHP reads it.
fn unquote(raw: &str) -> String {
    let inside = |quote: char| {
        (raw.len() >= 2 && raw.starts_with(quote) && quoted_length(raw, quote) == Some(raw.len()))
            .then(|| &raw[1..raw.len() - 1])
    };
    if let Some(inner) = inside('\'') {
        return inner.to_owned();
    }
    let Some(inner) = inside('"') else {
        return raw.to_owned();
    };
    let mut value = String::with_capacity(inner.len());
    let mut chars = inner.chars().peekable();
    while let Some(next) = chars.next() {
        match (next, chars.peek()) {
            ('\\', Some(&escaped @ ('"' | '\\' | '\'' | '$'))) => {
                chars.next();
                value.push(escaped);
            }
            _ => value.push(next),
        }
    }
    value
}

/// A value as PHP must find it: bare when that is safe. Words such as `off` stay bare, because PHP gives them a
/// meaning that many directives want.
fn quote(value: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "_-./:*,%@+[]".contains(c);
    match value.is_empty() || value.chars().all(safe) {
        true => value.to_owned(),
        false => quote_text(value),
    }
}

/// A value in double quotes, so that PHP reads into it nothing at all.
fn quote_text(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace("${", "\\${"))
}

impl Ini {
    /// The section names in order of first appearance.
    #[must_use]
    pub fn sections(&self) -> Vec<&str> {
        let mut names = Vec::new();
        for line in &self.lines {
            if let Line::Section { name, .. } = line
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
        }
        names
    }

    /// The effective value of a key: that of its last entry.
    #[must_use]
    pub fn get(&self, section: Section<'_>, key: &str) -> Option<String> {
        let at = self.positions(section, key).pop()?;
        match &self.lines[at] {
            Line::Entry(entry) => Some(unquote(&entry.raw)),
            _ => None,
        }
    }

    /// Every value of a key that may be repeated (`zend_extension`, `include`), in order.
    #[must_use]
    pub fn all(&self, section: Section<'_>, key: &str) -> Vec<String> {
        self.positions(section, key)
            .into_iter()
            .filter_map(|at| match &self.lines[at] {
                Line::Entry(entry) => Some(unquote(&entry.raw)),
                _ => None,
            })
            .collect()
    }

    /// The keys of a section, in order, duplicates included.
    #[must_use]
    pub fn keys(&self, section: Section<'_>) -> Vec<String> {
        self.entries(section)
            .map(|(_, entry)| entry.key.clone())
            .collect()
    }

    /// The entries of all sections whose names pass a test, in the order of the file: the section and the key of each.
    #[must_use]
    pub fn entries_of(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
        let mut section = "";
        let mut found = Vec::new();
        for line in &self.lines {
            match line {
                Line::Section { name, .. } => section = name.as_str(),
                Line::Entry(entry) if wanted(section) => {
                    found.push((section.to_owned(), entry.key.clone()));
                }
                Line::Entry(_) | Line::Other(_) => {}
            }
        }
        found
    }

    /// Sets the entry that is in effect, or adds one at the end of the section (created when missing).
    pub fn set(&mut self, section: Section<'_>, key: &str, value: &str) {
        self.set_raw(section, key, value, quote(value));
    }

    /// Like [`Self::set`] for text that must arrive as it is: `off` is not a switch in it.
    pub fn set_text(&mut self, section: Section<'_>, key: &str, value: &str) {
        self.set_raw(section, key, value, quote_text(value));
    }

    fn set_raw(&mut self, section: Section<'_>, key: &str, value: &str, raw: String) {
        if let Some(at) = self.positions(section, key).pop() {
            if let Line::Entry(entry) = &mut self.lines[at]
                && unquote(&entry.raw) != value
            {
                entry.raw = raw;
                if !entry.separator.contains('=') {
                    entry.separator = " = ".into();
                }
            }
            return;
        }
        let entry = Entry {
            lead: String::new(),
            key: key.to_owned(),
            separator: " = ".into(),
            raw,
            trail: "\n".into(),
        };
        let at = self.insertion(section);
        self.end_line(at);
        self.lines.insert(at, Line::Entry(entry));
    }

    /// Turns every entry of a key whose value passes the test into a comment. True when there was one.
    pub fn disable(
        &mut self,
        section: Section<'_>,
        key: &str,
        test: impl Fn(&str) -> bool,
    ) -> bool {
        let mut found = false;
        for at in self.positions(section, key) {
            let text = self.lines[at].to_string();
            if let Line::Entry(entry) = &self.lines[at]
                && test(&unquote(&entry.raw))
            {
                let commented = text.replace('\n', "\n;");
                let commented = match commented.strip_suffix(';') {
                    Some(whole_lines) if text.ends_with('\n') => whole_lines,
                    _ => &commented,
                };
                self.lines[at] = Line::Other(format!(";{commented}"));
                found = true;
            }
        }
        found
    }

    fn entries(&self, section: Section<'_>) -> impl Iterator<Item = (usize, &Entry)> {
        let mut inside = section == Section::Any;
        self.lines
            .iter()
            .enumerate()
            .filter_map(move |(at, line)| match line {
                Line::Section { name, .. } => {
                    inside = belongs(section, name);
                    None
                }
                Line::Entry(entry) => inside.then_some((at, entry)),
                Line::Other(_) => None,
            })
    }

    fn positions(&self, section: Section<'_>, key: &str) -> Vec<usize> {
        self.entries(section)
            .filter(|(_, entry)| entry.key == key)
            .map(|(at, _)| at)
            .collect()
    }

    /// Where a new entry of a section goes: after its last entry, or after its header.
    fn insertion(&mut self, section: Section<'_>) -> usize {
        if let Some((at, _)) = self.entries(section).last() {
            return at + 1;
        }
        let Section::Named(wanted) = section else {
            let special = |line: &Line| matches!(line, Line::Section { name, .. } if !belongs(Section::Any, name));
            return self
                .lines
                .iter()
                .position(special)
                .unwrap_or(self.lines.len());
        };
        let header =
            |line: &Line| matches!(line, Line::Section { name, .. } if belongs(section, name));
        if let Some(at) = self.lines.iter().rposition(header) {
            return at + 1;
        }
        let end = self.lines.len();
        self.end_line(end);
        self.lines.push(Line::Section {
            raw: format!("[{wanted}]\n"),
            name: wanted.to_owned(),
        });
        self.lines.len()
    }

    /// Makes the line before a position end with a newline.
    fn end_line(&mut self, at: usize) {
        let Some(line) = at
            .checked_sub(1)
            .and_then(|before| self.lines.get_mut(before))
        else {
            return;
        };
        let text = match line {
            Line::Other(text) => text,
            Line::Section { raw, .. } => raw,
            Line::Entry(entry) => &mut entry.trail,
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
}

fn belongs(section: Section<'_>, name: &str) -> bool {
    match section {
        Section::Named(wanted) => name.eq_ignore_ascii_case(wanted),
        Section::Any => {
            let upper = name.to_ascii_uppercase();
            !(upper.starts_with("PATH=") || upper.starts_with("HOST="))
        }
    }
}

impl fmt::Display for Ini {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| write!(f, "{line}"))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other(raw) | Self::Section { raw, .. } => f.write_str(raw),
            Self::Entry(entry) => write!(
                f,
                "{}{}{}{}{}",
                entry.lead, entry.key, entry.separator, entry.raw, entry.trail
            ),
        }
    }
}
