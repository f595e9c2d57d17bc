//! nginx's `log_format`: variables and the text between them.

use super::piece::Piece;
use crate::entry::time::{Clock, Unit};
use crate::entry::{Field, Moment};

/// Takes a format apart. nginx writes a line when the request has ended, so every time is that of its end.
pub(crate) fn pieces(format: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = format;
    while let Some(at) = rest.find('$') {
        literal.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, tail) = variable(after);
        if name.is_empty() {
            literal.push('$');
            rest = after;
            continue;
        }
        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        pieces.push(Piece::Field(field(name)));
        rest = tail;
    }
    literal.push_str(rest);
    pieces.push(Piece::Literal(literal));
    pieces
}

/// The name behind a `$`, with or without braces, and what follows.
fn variable(text: &str) -> (&str, &str) {
    if let Some((name, tail)) = text
        .strip_prefix('{')
        .and_then(|inner| inner.split_once('}'))
    {
        return (name, tail);
    }
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    text.split_at(end)
}

fn field(name: &str) -> Field {
    let at = |clock| Field::At(clock, Moment::End);
    match name {
        "remote_addr" | "binary_remote_addr" | "http_x_real_ip" | "proxy_protocol_addr" => {
            Field::Address
        }
        "http_x_forwarded_for" | "proxy_add_x_forwarded_for" => Field::Forwarded,
        "time_local" => at(Clock::Local),
        "time_iso8601" => at(Clock::Iso),
        "msec" => at(Clock::Seconds),
        "request" => Field::Request,
        "request_method" => Field::Method,
        "request_uri" => Field::Target,
        "uri" | "document_uri" => Field::Path,
        "is_args" => Field::QueryMark,
        "args" | "query_string" => Field::Query,
        "status" => Field::Status,
        "http_cookie" => Field::Cookies,
        "uid_got" | "uid_set" => Field::Visitor,
        "request_time" => Field::Took(Unit::Seconds),
        "http_user_agent" => Field::Agent,
        _ if name.starts_with("cookie_") => Field::Visitor,
        _ => Field::Other {
            list: name.starts_with("upstream_"),
        },
    }
}
