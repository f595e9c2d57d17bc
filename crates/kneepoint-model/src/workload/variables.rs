//! Texts with variables in them: `/user/{{users.id}}`.
//!
//! A variable is a name between double braces, with or without blanks around it. A captured value has a plain name
//! (`{{csrf}}`), a column of a feeder the feeder's before it (`{{users.name}}`). Everything else between braces is
//! text: JSON and the templates of other languages pass through.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A stretch of a text with variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'t> {
    /// Text as it is, never empty.
    Literal(&'t str),
    /// The name of a variable, without its braces.
    Variable(&'t str),
}

/// The stretches of a text in order. Put together again, literals and variables with their braces, they are the text.
#[must_use]
pub fn pieces(text: &str) -> Pieces<'_> {
    Pieces { rest: text }
}

/// The names of the variables in a text, in order, as often as they stand there.
pub fn variables(text: &str) -> impl Iterator<Item = &str> {
    pieces(text).filter_map(|piece| match piece {
        Piece::Variable(name) => Some(name),
        Piece::Literal(_) => None,
    })
}

/// Whether a text can be a variable's name, or one half of it: letters, digits, `_` and `-`, no digit in front.
#[must_use]
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The iterator of [`pieces`].
#[derive(Debug, Clone)]
pub struct Pieces<'t> {
    rest: &'t str,
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut from = 0;
        while let Some(found) = self.rest[from..].find("{{") {
            let at = from + found;
            if let Some((name, length)) = variable_at_start(&self.rest[at..]) {
                if at > 0 {
                    return Some(Piece::Literal(self.cut(at)));
                }
                self.cut(length);
                return Some(Piece::Variable(name));
            }
            from = at + 1;
        }
        Some(Piece::Literal(self.cut(self.rest.len())))
    }
}

impl<'t> Pieces<'t> {
    fn cut(&mut self, at: usize) -> &'t str {
        let (head, tail) = self.rest.split_at(at);
        self.rest = tail;
        head
    }
}

/// The name of the variable that a text begins with, and the length of the whole with its braces.
fn variable_at_start(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix("{{")?;
    let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || "_-. ".contains(c)))?;
    let name = inner[..end].trim_matches(' ');
    let (first, second) = name.split_once('.').unwrap_or((name, "_"));
    let closed = inner[end..].starts_with("}}");
    (closed && is_name(first) && is_name(second)).then_some((name, end + 4))
}

/// Who takes which row of a feeder next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowOrder {
    /// One after the other, from the first again after the last.
    #[default]
    InTurn,
    /// Drawn with equal chances, so that a row may come twice before another comes at all.
    Random,
}

/// Values from a table: each visitor, and each request that belongs to nobody, takes one row of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feeder {
    /// Its name, the first half of its variables' names.
    pub name: String,
    /// Names of the columns, the second half.
    pub columns: Vec<String>,
    /// Which row is taken next.
    pub order: RowOrder,
    /// The rows, each with a value per column; never empty. They may hold passwords and be many: a stored run
    /// keeps the names of the columns alone.
    #[serde(skip)]
    pub rows: Arc<[Vec<String>]>,
}

/// A value taken from a response, for later requests of the same user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Name of the variable it becomes.
    pub name: String,
    /// Where it stands.
    pub from: CaptureFrom,
}

/// Where in a response a value stands. It is at most 8 KiB long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaptureFrom {
    /// Between the first occurrence of one text in the body and the next of another, as it stands there.
    BodyBetween {
        /// The text before the value; never empty.
        before: String,
        /// The text behind the value; never empty.
        after: String,
    },
    /// A header of this name, the first if there are several.
    Header(String),
    /// A JSON pointer (RFC 6901) into the body, to a string, a number or a boolean.
    Json(String),
    /// The user's cookie of this name after the response, percent-decoded as scripts in browsers read it.
    Cookie(String),
}

impl CaptureFrom {
    /// The place in words, as the continuation of "expected a value".
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::BodyBetween { before, after } => format!("between `{before}` and `{after}`"),
            Self::Header(name) => format!("in the header `{name}`"),
            Self::Json(pointer) => format!("in the JSON body at `{pointer}`"),
            Self::Cookie(name) => format!("in the cookie `{name}`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(text: &str, expected: Expect) {
        let shown: Vec<String> = pieces(text)
            .map(|piece| match piece {
                Piece::Literal(text) => format!("{text:?}"),
                Piece::Variable(name) => format!("<{name}>"),
            })
            .collect();
        expected.assert_eq(&shown.join(" "));
    }

    #[test]
    fn variables_are_names_between_double_braces() {
        check(
            "/u/{{users.id}}/x?t={{ csrf }}",
            expect![[r#""/u/" <users.id> "/x?t=" <csrf>"#]],
        );
        check("{{a}}{{b-1}}", expect!["<a> <b-1>"]);
        check("{{{a}}}", expect![[r#""{" <a> "}""#]]);
        check("", expect![""]);
    }

    #[test]
    fn other_braces_are_text() {
        check(
            r#"{"a": {"b": {}}}"#,
            expect![[r#""{\"a\": {\"b\": {}}}""#]],
        );
        check("{{ }} {{1a}}", expect![[r#""{{ }} {{1a}}""#]]);
        check(
            "{{a.b.c}} {{a b}} {{a",
            expect![[r#""{{a.b.c}} {{a b}} {{a""#]],
        );
        check("{user.name}", expect![[r#""{user.name}""#]]);
    }

    proptest! {
        #[test]
        fn nothing_of_a_text_is_lost(text in "([{}]{1,3}|[a-z_.]{1,3}| |é){0,12}") {
            let again: String = pieces(&text)
                .map(|piece| match piece {
                    Piece::Literal(text) => text.to_owned(),
                    Piece::Variable(name) => format!("{{{{{name}}}}}"),
                })
                .collect();
            // Blanks within the braces are the one thing that may go.
            prop_assert_eq!(again.replace(' ', ""), text.replace(' ', ""));
        }
    }
}
