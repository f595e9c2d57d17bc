//! Apache's `LogFormat`: directives that begin with `%`.

use super::piece::Piece;
use crate::entry::time::{Clock, Unit};
use crate::entry::{Field, Moment};

/// Takes a format apart. `%t` is when the request came, unless it asks for `end:`.
pub(crate) fn pieces(format: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        literal.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(tail) = after.strip_prefix('%') {
            literal.push('%');
            rest = tail;
            continue;
        }
        let Some((argument, name, tail)) = directive(after) else {
            literal.push('%');
            rest = after;
            continue;
        };
        let bracketed = name == "t" && argument.is_empty();
        if bracketed {
            literal.push('[');
        }
        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        pieces.push(Piece::Field(field(argument, name)));
        if bracketed {
            literal.push(']');
        }
        rest = tail;
    }
    literal.push_str(rest);
    pieces.push(Piece::Literal(literal));
    pieces
}

/// Argument and name of a directive (`!200,304`, `<` and `>` before it do not change what is logged where), and
/// what follows.
fn directive(text: &str) -> Option<(&str, &str, &str)> {
    let conditions = |c: char| c.is_ascii_digit() || c == ',' || c == '!' || c == '<' || c == '>';
    let text = text.trim_start_matches(conditions);
    let (argument, text) = match text.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => ("", text),
    };
    // `%^FB` and its like have names of three characters.
    let length = if text.starts_with('^') { 3 } else { 1 };
    let name = text.get(..length)?;
    let word = name.trim_start_matches('^');
    word.bytes()
        .all(|b| b.is_ascii_alphabetic())
        .then(|| (argument, name, &text[length..]))
}

fn field(argument: &str, name: &str) -> Field {
    let header = argument.to_ascii_lowercase();
    match (name, header.as_str()) {
        ("h" | "a", _) | ("i", "x-real-ip") => Field::Address,
        ("i", "x-forwarded-for") => Field::Forwarded,
        ("i", "cookie") => Field::Cookies,
        ("i", "user-agent") => Field::Agent,
        ("C", _) => Field::Visitor,
        ("t", _) => time(argument),
        ("r", _) => Field::Request,
        ("m", _) => Field::Method,
        ("U", _) => Field::Path,
        ("q", _) => Field::Query,
        ("s", _) => Field::Status,
        ("D", _) | ("T", "us") => Field::Took(Unit::Micros),
        ("T", "ms") => Field::Took(Unit::Millis),
        ("T", _) => Field::Took(Unit::Seconds),
        _ => Field::Other { list: false },
    }
}

fn time(argument: &str) -> Field {
    let (moment, pattern) = match argument.split_once(':') {
        Some(("begin", pattern)) => (Moment::Start, pattern),
        Some(("end", pattern)) => (Moment::End, pattern),
        _ => (Moment::Start, argument),
    };
    let clock = match pattern {
        "" => Clock::Local,
        "sec" => Clock::Seconds,
        "msec" => Clock::Millis,
        "usec" => Clock::Micros,
        // A piece of a time that is logged in pieces: not one by itself.
        _ if !["%s", "%S", "%T", "%c", "%r"]
            .iter()
            .any(|part| pattern.contains(part)) =>
        {
            return Field::Other { list: false };
        }
        _ => Clock::Pattern(pattern.to_owned()),
    };
    Field::At(clock, moment)
}
