//! Laravel's cache of its configuration: where it is there, Laravel reads neither `.env` nor its files of configuration.
//!
//! The cache is one array as `var_export` writes it. Nothing is executed: a value is known where it is one text, number or
//! word, and only values of a few names are kept, since the cache holds all secrets.

use kneepoint_model::{AppSwitch, SwitchKind};

/// The file, below the application's root.
pub const CACHE: &str = "bootstrap/cache/config.php";
/// Longer than any key that is kept.
const LONGEST: usize = 128;
/// Deeper than any name that is kept.
const DEPTH: usize = 5;

/// What the cache says.
#[derive(Default)]
pub struct Cached {
    /// Name, value and line of each.
    values: Vec<(String, String, u32)>,
}

/// Where the reader is in a text.
struct Reader<'t> {
    /// Whether a value is kept, by its name.
    is_kept: fn(&str) -> bool,
    rest: &'t str,
    line: u32,
    /// The keys of the arrays around.
    above: Vec<String>,
    /// The key of what follows.
    key: Option<String>,
    /// The last value, with its line.
    last: Option<(String, u32)>,
    /// Pieces of what is no array since the last key: a value of more than one is computed.
    pieces: usize,
    found: Cached,
}

impl Cached {
    /// What the text of the cache says.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self::with(text, is_kept)
    }

    fn with(text: &str, is_kept: fn(&str) -> bool) -> Self {
        let mut reader = Reader {
            is_kept,
            rest: text,
            line: 1,
            above: Vec::new(),
            key: None,
            last: None,
            pieces: 0,
            found: Self::default(),
        };
        while reader.step() {}
        reader.found
    }

    /// A value by its name as Laravel has it (`app.debug`), with its line. What is null has none.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(&str, u32)> {
        let (_, value, line) = self.values.iter().rev().find(|(known, ..)| known == name)?;
        (!value.eq_ignore_ascii_case("null")).then_some((value, *line))
    }

    /// The switches that cost.
    #[must_use]
    pub fn switches(&self) -> Vec<AppSwitch> {
        let costs: [(&str, SwitchKind, &[&str]); 2] = [
            ("app.debug", SwitchKind::DebugOn, &["true", "1"]),
            ("cache.default", SwitchKind::CacheOff, &["array", "null"]),
        ];
        let switch = |(name, kind, words): (&str, SwitchKind, &[&str])| {
            let (_, value, line) = self.values.iter().rev().find(|(known, ..)| known == name)?;
            let value = value.to_lowercase();
            words.contains(&value.as_str()).then(|| AppSwitch {
                kind,
                name: name.to_owned(),
                value,
                file: CACHE.to_owned(),
                line: *line,
                // The file is made by a command, from others.
                instead: None,
            })
        };
        costs.into_iter().filter_map(switch).collect()
    }
}

/// Name, value and line of all that a text says which is such an array, and is not null: its secrets, too.
pub(super) fn all_of(text: &str) -> Vec<(String, String, u32)> {
    let mut values = Cached::with(text, |_| true).values;
    values.retain(|(_, value, _)| !value.eq_ignore_ascii_case("null"));
    values
}

/// Whether a value is kept.
fn is_kept(name: &str) -> bool {
    const NAMES: [&str; 5] = [
        "app.debug",
        "cache.default",
        "session.driver",
        "queue.default",
        "database.default",
    ];
    let of_server =
        name.starts_with("database.connections.") || name.starts_with("database.redis.default.");
    let last = name.rsplit('.').next().unwrap_or_default();
    NAMES.contains(&name) || (of_server && ["driver", "host", "port", "url"].contains(&last))
}

impl<'t> Reader<'t> {
    /// Takes the next piece. Whether there was one.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else {
            return false;
        };
        match first {
            '\'' => self.text(),
            first if is_word(first) => self.word(),
            '(' | '[' => {
                self.above.push(self.key.take().unwrap_or_default());
                (self.last, self.pieces) = (None, 0);
                self.take(1);
            }
            ')' | ']' => {
                self.keep();
                self.above.pop();
                self.take(1);
            }
            ',' => {
                self.keep();
                self.take(1);
            }
            '=' if self.rest.starts_with("=>") => {
                let key = self.last.take().map(|(text, _)| text);
                self.key = key.filter(|key| key.len() <= LONGEST);
                self.pieces = 0;
                self.take(2);
            }
            first => {
                self.pieces += usize::from(!first.is_whitespace());
                self.take(first.len_utf8());
            }
        }
        true
    }

    fn text(&mut self) {
        let bytes = self.rest.as_bytes();
        let mut end = 1;
        while end < bytes.len() && bytes[end] != b'\'' {
            end += if bytes[end] == b'\\' { 2 } else { 1 };
        }
        let inside = self.rest.get(1..end).unwrap_or_default();
        self.last = Some((inside.to_owned(), self.line));
        self.pieces += 1;
        self.take(end + 1);
    }

    fn word(&mut self) {
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        self.last = Some((self.rest[..end].to_owned(), self.line));
        self.pieces += 1;
        self.take(end);
    }

    /// Goes on so many bytes, or to the end.
    fn take(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        let lines = taken.bytes().filter(|byte| *byte == b'\n').count();
        self.line = self
            .line
            .saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.rest = rest;
    }

    /// Keeps the value behind the key, where it is a simple one.
    fn keep(&mut self) {
        let (key, last, pieces) = (self.key.take(), self.last.take(), self.pieces);
        self.pieces = 0;
        let (Some(key), Some((value, line))) = (key, last) else {
            return;
        };
        // The first array is the configuration itself.
        if pieces != 1
            || self.above.len() > DEPTH
            || !self.above.first().is_some_and(String::is_empty)
        {
            return;
        }
        let mut name = self.above[1..].join(".");
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&key);
        if (self.is_kept)(&name) {
            self.found.values.push((name, value, line));
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "_-\\:.".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: &str = "<?php return array (\n  'app' => \n  array (\n    'name' => 'It\\'s \\'debug\\' => true,\n)',\n    \
        'debug' => true,\n    'key' => 'base64:secret',\n    'deep' => array ( 'debug' => false, ),\n  ),\n  'cache' => \n  \
        array (\n    'default' => 'array',\n  ),\n  'session' => array ( 'driver' => f('redis'), ),\n  'queue' => array ( \
        'default' => NULL, ),\n  'database' => array ( 'default' => 'mysql', 'connections' => array ( 'mysql' => array ( \
        'host' => 'db', 'password' => 'secret', ), ), ),\n);\n";

    #[test]
    fn simple_values_are_known_with_their_lines() {
        let cached = Cached::of(TEXT);
        assert_eq!(cached.get("app.debug"), Some(("true", 6)));
        assert_eq!(
            cached.get("database.connections.mysql.host"),
            Some(("db", 16))
        );
        assert_eq!(cached.get("queue.default"), None);
        assert_eq!(cached.get("session.driver"), None, "it is computed");
        let told: Vec<String> = cached.switches().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "app.debug = true (bootstrap/cache/config.php:6)",
                "cache.default = array (bootstrap/cache/config.php:12)"
            ]
        );
        assert!(
            cached
                .values
                .iter()
                .all(|(_, value, _)| !value.contains("secret"))
        );
        let off = Cached::of(&TEXT.replace("    'debug' => true", "    'debug' => false"));
        assert_eq!(off.switches().len(), 1);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "(array|\\(|\\)|\\[|\\]|'|=>|,|app|debug|true|é|\\n|\\\\| ){0,40}") {
            let _ = Cached::of(&text).switches();
        }
    }
}
