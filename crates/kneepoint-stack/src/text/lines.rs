//! `redis.conf` and `postgresql.conf` as lines that keep every byte: one directive a line, last one wins.

pub(crate) mod included;

use std::fmt;

/// Whose spelling a file follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `name = 'value' # comment`; the `=` may be missing; names in any case.
    Postgresql,
    /// `name argument argument`; a `#` opens a comment only at the start of a line; names in any case.
    Redis,
}

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    dialect: Dialect,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Line {
    lead: String,
    /// Empty for blank lines and comments.
    key: String,
    separator: String,
    raw: String,
    trail: String,
}

/// Parses a text. Every text is accepted; lines that mean nothing are kept as they are.
#[must_use]
pub fn parse(dialect: Dialect, text: &str) -> Lines {
    Lines {
        dialect,
        lines: text
            .split_inclusive('\n')
            .map(|line| read_line(dialect, line))
            .collect(),
    }
}

fn read_line(dialect: Dialect, text: &str) -> Line {
    let body = text.trim_start();
    if body.is_empty() || body.starts_with(['#', '=', '\'']) {
        return Line {
            lead: text.to_owned(),
            ..Line::default()
        };
    }
    let lead = &text[..text.len() - body.len()];
    let stop = |c: char| c.is_whitespace() || (dialect == Dialect::Postgresql && "=#".contains(c));
    let key_end = body.find(stop).unwrap_or(body.len());
    let after = &body[key_end..];
    let gap = |c: char| c == ' ' || c == '\t';
    let mut value = after.trim_start_matches(gap);
    if dialect == Dialect::Postgresql
        && let Some(rest) = value.strip_prefix('=')
    {
        value = rest.trim_start_matches(gap);
    }
    let raw = &value[..value_length(dialect, value)];
    Line {
        lead: lead.to_owned(),
        key: body[..key_end].to_owned(),
        separator: after[..after.len() - value.len()].to_owned(),
        raw: raw.to_owned(),
        trail: value[raw.len()..].to_owned(),
    }
}

fn value_length(dialect: Dialect, text: &str) -> usize {
    let line = text.trim_end();
    if dialect == Dialect::Redis {
        return line.len();
    }
    let quoted = match line.starts_with('\'') {
        true => quoted_length(line).unwrap_or(line.len()),
        false => 0,
    };
    // Text right behind a quote is no PostgreSQL; it goes with the value it spoils, also when that is replaced.
    let rest = &line[quoted..];
    quoted + rest.find([' ', '\t', '#']).unwrap_or(rest.len())
}

/// The length of the single-quoted text at the start; `''` and backslash escapes do not end it.
fn quoted_length(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((at, next)) = chars.next() {
        match (next, chars.peek()) {
            ('\\', Some(_)) | ('\'', Some((_, '\''))) => {
                chars.next();
            }
            ('\'', _) => return Some(at + 1),
            _ => {}
        }
    }
    None
}

impl Dialect {
    fn quote_mark(self) -> char {
        match self {
            Self::Postgresql => '\'',
            Self::Redis => '"',
        }
    }

    /// A single value without quotes and escapes. Several Redis arguments stay as written.
    fn unquote(self, raw: &str) -> String {
        let mark = self.quote_mark();
        let Some(inner) = raw
            .strip_prefix(mark)
            .and_then(|rest| rest.strip_suffix(mark))
        else {
            return raw.to_owned();
        };
        let mut value = String::with_capacity(inner.len());
        let mut chars = inner.chars().peekable();
        while let Some(next) = chars.next() {
            let plain = match (next, chars.peek()) {
                ('\\', Some('n')) => '\n',
                ('\\', Some('r')) => '\r',
                ('\\', Some('t')) => '\t',
                ('\\', Some(&escaped)) => escaped,
                ('\'', Some('\'')) if self == Self::Postgresql => '\'',
                _ => {
                    value.push(next);
                    continue;
                }
            };
            chars.next();
            value.push(plain);
        }
        value
    }

    fn quote(self, value: &str) -> String {
        let mark = self.quote_mark();
        let safe = |c: char| c.is_ascii_alphanumeric() || "_-./:*".contains(c);
        let bare = match self {
            // PostgreSQL takes only identifiers and numbers (with a unit) bare.
            Self::Postgresql => {
                value.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                    || value.parse::<f64>().is_ok()
            }
            // Several arguments of a Redis directive are written as they come.
            Self::Redis => value
                .split(' ')
                .all(|word| !word.is_empty() && word.chars().all(safe)),
        };
        if !value.is_empty() && bare {
            return value.to_owned();
        }
        let mut quoted = String::from(mark);
        for next in value.chars() {
            match next {
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\\' => quoted.push_str("\\\\"),
                '\'' if self == Self::Postgresql => quoted.push_str("''"),
                _ if next == mark => quoted.extend(['\\', mark]),
                _ => quoted.push(next),
            }
        }
        quoted.push(mark);
        quoted
    }
}

impl Lines {
    /// The effective value of a key: that of its last line.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<String> {
        let at = self.positions(key).pop()?;
        Some(self.dialect.unquote(&self.lines[at].raw))
    }

    /// Sets a key: its last line is changed, or a line is added at the end.
    pub fn set(&mut self, key: &str, value: &str) {
        let raw = self.dialect.quote(value);
        if let Some(at) = self.positions(key).pop() {
            let line = &mut self.lines[at];
            if self.dialect.unquote(&line.raw) != value {
                line.raw = raw;
                if line.separator.is_empty() {
                    line.separator = " ".into();
                }
            }
            return;
        }
        if let Some(last) = self.lines.last_mut()
            && !last.to_string().ends_with('\n')
        {
            last.trail.push('\n');
        }
        let separator = match self.dialect {
            Dialect::Postgresql => " = ",
            Dialect::Redis => " ",
        };
        self.lines.push(Line {
            lead: String::new(),
            key: key.to_owned(),
            separator: separator.into(),
            raw,
            trail: "\n".into(),
        });
    }

    /// Sets a key that adds up over its lines (Redis `save`): one line with the value stays.
    pub fn set_only(&mut self, key: &str, value: &str) {
        let mut positions = self.positions(key);
        positions.pop();
        for at in positions.into_iter().rev() {
            self.lines.remove(at);
        }
        self.set(key, value);
    }

    /// Removes every line of a key. True when there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.lines.len();
        self.lines
            .retain(|line| !line.key.eq_ignore_ascii_case(key));
        self.lines.len() < before
    }

    /// Changes every value of a key in place.
    pub fn map(&mut self, key: &str, change: impl Fn(&str) -> String) {
        for at in self.positions(key) {
            let raw = &mut self.lines[at].raw;
            let value = self.dialect.unquote(raw);
            let changed = change(&value);
            if changed != value {
                *raw = self.dialect.quote(&changed);
            }
        }
    }

    /// The keys in order, duplicates included.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.lines
            .iter()
            .map(|line| line.key.as_str())
            .filter(|key| !key.is_empty())
    }

    fn positions(&self, key: &str) -> Vec<usize> {
        let is_key = |(_, line): &(usize, &Line)| line.key.eq_ignore_ascii_case(key);
        self.lines
            .iter()
            .enumerate()
            .filter(is_key)
            .map(|(at, _)| at)
            .collect()
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| write!(f, "{line}"))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}{}{}{}",
            self.lead, self.key, self.separator, self.raw, self.trail
        )
    }
}
