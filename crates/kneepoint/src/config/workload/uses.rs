//! The variables that the texts of a request stand on, and where.

use crate::config::reader::Reader;
use crate::config::reader::tree::Span;
use kneepoint_model::variables::{Piece, pieces};

/// Variables and the values they stand in.
#[derive(Default)]
pub(in crate::config) struct Uses(pub(in crate::config) Vec<(String, Span)>);

impl Uses {
    /// Notes the variables of a text.
    pub(in crate::config) fn note(&mut self, reader: &mut Reader<'_>, text: &str, at: Span) {
        for piece in pieces(text) {
            match piece {
                Piece::Variable(name) => self.0.push((name.to_owned(), at)),
                Piece::Literal(text) => refuse_placeholder(reader, text, at),
            }
        }
    }
}

/// A variable with single braces would be sent as it is, and nobody would notice.
fn refuse_placeholder(reader: &mut Reader<'_>, text: &str, at: Span) {
    if let Some(name) = placeholder(text) {
        let message = format!("`{{{name}}}` would be sent as it is");
        let expected = format!("`{{{{{name}}}}}` for a value of a feeder, or another text");
        reader.wrong(at, message, expected);
    }
}

/// The first `{word.word}` in a text, without its braces.
fn placeholder(text: &str) -> Option<&str> {
    let word =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_');
    text.split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| name)
        .find(|name| {
            name.split_once('.')
                .is_some_and(|(a, b)| word(a) && word(b))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_holds_no_placeholder() {
        assert_eq!(placeholder("{\"a\": {\"b\": 1.5}}"), None);
        assert_eq!(placeholder("x={user.name}"), Some("user.name"));
        assert_eq!(placeholder("{}{.}{a.}"), None);
    }
}
