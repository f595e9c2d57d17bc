//! JSON as people have it at hand: also as a JavaScript literal, with bare keys, single quotes, comments and commas
//! at the end.
//!
//! Numbers are kept as they are written. A nested list or object may be eight deep, which no profile is.

use super::Refusal;
use std::fmt;

const DEEPEST: usize = 8;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A string, a number or a bare word such as `true`, as written.
    Scalar(String),
    List(Vec<Value>),
    /// Keys with their values, in order.
    Table(Vec<(String, Value)>),
}

impl Value {
    /// The value of a key; `None` without it, or when this is no table.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let Self::Table(pairs) = self else {
            return None;
        };
        pairs
            .iter()
            .find(|(own, _)| own == key)
            .map(|(_, value)| value)
    }

    /// The text of a key's value; `None` when it is none.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        match self.get(key)? {
            Self::Scalar(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scalar(text) => f.write_str(text),
            Self::List(all) => {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                write!(f, "[{}]", all.join(", "))
            }
            Self::Table(pairs) => {
                let pairs: Vec<String> = pairs
                    .iter()
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                write!(f, "{{{}}}", pairs.join(", "))
            }
        }
    }
}

/// Reads one value, which is all of the text.
pub(super) fn read(text: &str) -> Result<Value, Refusal> {
    let mut reader = Reader { rest: text };
    let value = reader.value(0)?;
    reader.skip();
    if reader.rest.is_empty() {
        Ok(value)
    } else {
        Err(reader.wanted("the end of the text"))
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn wanted(&self, what: &str) -> Refusal {
        let here = if self.rest.is_empty() {
            "the end of the text"
        } else {
            self.rest
        };
        Refusal::new(here, format!("here should be {what}"))
    }

    /// Skips blanks and comments.
    fn skip(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let end = match self.rest.get(..2) {
                Some("//") => self.rest.find('\n'),
                Some("/*") => self.rest.find("*/").map(|at| at + 2),
                _ => return,
            };
            self.rest = end.map_or("", |end| &self.rest[end..]);
        }
    }

    fn take(&mut self, sign: char) -> bool {
        self.skip();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, Refusal> {
        if depth > DEEPEST {
            return Err(self.wanted("less nesting"));
        }
        if self.take('[') {
            let mut all = Vec::new();
            while !self.take(']') {
                all.push(self.value(depth + 1)?);
                self.separator(']')?;
            }
            return Ok(Value::List(all));
        }
        if self.take('{') {
            let mut pairs = Vec::new();
            while !self.take('}') {
                let key = self.scalar("a key or }")?;
                if !self.take(':') {
                    return Err(self.wanted("a colon"));
                }
                pairs.push((key, self.value(depth + 1)?));
                self.separator('}')?;
            }
            return Ok(Value::Table(pairs));
        }
        self.scalar("a value").map(Value::Scalar)
    }

    /// A comma, or the end of what it separates.
    fn separator(&mut self, end: char) -> Result<(), Refusal> {
        if self.take(',') || self.rest.starts_with(end) {
            Ok(())
        } else {
            Err(self.wanted(&format!("a comma or {end}")))
        }
    }

    /// A string in either kind of quotes, or a bare word.
    fn scalar(&mut self, what: &str) -> Result<String, Refusal> {
        for quote in ['"', '\''] {
            if self.take(quote) {
                let Some((text, rest)) = self.rest.split_once(quote) else {
                    return Err(self.wanted("a closing quotation mark"));
                };
                self.rest = rest;
                return Ok(text.to_owned());
            }
        }
        let word = |c: char| c.is_alphanumeric() || matches!(c, '.' | '+' | '-' | '_' | '$');
        let end = self.rest.find(|c| !word(c)).unwrap_or(self.rest.len());
        if end == 0 {
            return Err(self.wanted(what));
        }
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn check(text: &str, expected: Expect) {
        let shown = match read(text) {
            Ok(value) => value.to_string(),
            Err(refusal) => format!("`{}`: {}", refusal.piece, refusal.problem),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn json_and_javascript_are_read() {
        check(
            r#"[{"duration":"30s","target":100.5}, {}]"#,
            expect!["[{duration: 30s, target: 100.5}, {}]"],
        );
        check(
            "{ stages: [ // up\n { duration: '30s', target: 1e2, }, /* down */ ], }",
            expect!["{stages: [{duration: 30s, target: 1e2}]}"],
        );
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        check("[1 2]", expect!["`2]`: here should be a comma or ]"]);
        check("{a 1}", expect!["`1}`: here should be a colon"]);
        check(
            "{a: 'x}",
            expect!["`x}`: here should be a closing quotation mark"],
        );
        check(
            "[1",
            expect!["`the end of the text`: here should be a comma or ]"],
        );
        check("[1] x", expect!["`x`: here should be the end of the text"]);
        check(
            "[[[[[[[[[[[1]]]]]]]]]]]",
            expect!["`[[1]]]]]]]]]]]`: here should be less nesting"],
        );
    }
}
