//! `expect` and `capture`: what a response must be, and what is taken from it.

use crate::config::reader::tree::{Node, Value};
use crate::config::reader::{Reader, Section};
use kneepoint_model::units::parse_bytes;
use kneepoint_model::variables::is_name;
use kneepoint_model::{Capture, CaptureFrom, Expect, HeaderExpectation, StatusRange};

/// Reads what a good response is.
pub(in crate::config) fn read(reader: &mut Reader<'_>, node: &Node) -> Expect {
    let mut expect = Expect::default();
    let Some(section) = reader.section(node, "request.expect") else {
        return expect;
    };
    if let Some(node) = section.get("status") {
        expect.status = each(node)
            .iter()
            .filter_map(|item| status(reader, item))
            .collect();
        if expect.status.is_empty()
            && matches!(&node.value, Value::Array(items) if items.is_empty())
        {
            reader.wrong(node.at, "no status would be good", "at least one");
        }
    }
    if let Some(node) = section.get("header") {
        expect.headers = headers(reader, node);
    }
    let mut texts = |key, expected| match section.get(key) {
        Some(node) => texts(reader, node, expected),
        None => Vec::new(),
    };
    expect.body_contains = texts(
        "body_contains",
        "text the body must contain, or a list of such",
    );
    expect.body_lacks = texts(
        "body_lacks",
        "text the body must not contain, or a list of such",
    );
    if let Some(node) = section.get("body_min") {
        expect.body_min_bytes = size(reader, node).unwrap_or_default();
    }
    expect
}

/// The items of an array, or the one value.
fn each(node: &Node) -> &[Node] {
    match &node.value {
        Value::Array(items) => items,
        _ => std::slice::from_ref(node),
    }
}

fn status(reader: &mut Reader<'_>, node: &Node) -> Option<StatusRange> {
    const EXPECTED: &str = "a status from 100 to 599, a class such as \"2xx\", or a list of these";
    let written = match &node.value {
        Value::Integer(number) => number.to_string(),
        _ => reader.text(node, EXPECTED)?.to_owned(),
    };
    let range = written.parse().ok();
    if range.is_none() {
        reader.wrong(node.at, format!("`{written}` is not possible"), EXPECTED);
    }
    range
}

fn headers(reader: &mut Reader<'_>, node: &Node) -> Vec<HeaderExpectation> {
    const EXPECTED: &str = "`true` for a header that must be there, or text it must contain";
    let mut headers = Vec::new();
    for entry in reader.entries(node, "a table of headers, such as { X-Cache = \"HIT\" }") {
        if !is_header_name(&entry.key) {
            let message = format!("`{}` is no header name", entry.key);
            reader.wrong(entry.key_at, message, "a name such as X-Cache");
        }
        let contains = match &entry.node.value {
            Value::Bool(true) => Some(String::new()),
            _ => reader.text(&entry.node, EXPECTED).map(str::to_owned),
        };
        headers.extend(contains.map(|contains| HeaderExpectation {
            name: entry.key.clone(),
            contains,
        }));
    }
    headers
}

fn texts(reader: &mut Reader<'_>, node: &Node, expected: &str) -> Vec<String> {
    let items = each(node).iter();
    items
        .filter_map(|item| reader.text(item, expected).map(str::to_owned))
        .collect()
}

fn size(reader: &mut Reader<'_>, node: &Node) -> Option<u64> {
    const EXPECTED: &str = "a length of at least 1 byte, such as 500 or \"2K\"";
    let written = match &node.value {
        Value::Integer(number) => number.to_string(),
        _ => reader.text(node, EXPECTED)?.to_owned(),
    };
    let bytes = parse_bytes(&written).ok().filter(|bytes| *bytes > 0);
    if bytes.is_none() {
        reader.wrong(node.at, format!("`{written}` is not possible"), EXPECTED);
    }
    bytes
}

/// Reads what is captured.
pub(in crate::config) fn captures(reader: &mut Reader<'_>, node: &Node) -> Vec<Capture> {
    const EXPECTED: &str = "a table of names, such as { csrf = { cookie = \"XSRF-TOKEN\" } }";
    let mut captures = Vec::new();
    for entry in reader.entries(node, EXPECTED) {
        if !is_name(&entry.key) {
            let message = format!("`{}` cannot be a variable", entry.key);
            let expected = "a name of letters, digits, `_` and `-`, not beginning with a digit";
            reader.wrong(entry.key_at, message, expected);
        }
        let Some(section) = reader.section(&entry.node, "request.capture") else {
            continue;
        };
        captures.extend(place(reader, &section).map(|from| Capture {
            name: entry.key.clone(),
            from,
        }));
    }
    captures
}

fn place(reader: &mut Reader<'_>, section: &Section<'_>) -> Option<CaptureFrom> {
    const PLACES: [&str; 4] = ["body_between", "header", "json", "cookie"];
    let mut given = PLACES
        .into_iter()
        .filter_map(|key| section.get(key).map(|node| (key, node)));
    let (Some((key, node)), None) = (given.next(), given.next()) else {
        let message = "it is not clear where the value stands";
        let expected = "one of `body_between`, `header`, `json` and `cookie`";
        reader.wrong(section.at, message, expected);
        return None;
    };
    match key {
        "body_between" => between(reader, node),
        "header" => {
            let name = reader.text(node, "the name of a header, such as \"X-CSRF-Token\"")?;
            if !is_header_name(name) {
                let message = format!("`{name}` is no header name");
                reader.wrong(node.at, message, "a name such as X-CSRF-Token");
            }
            Some(CaptureFrom::Header(name.to_owned()))
        }
        "json" => {
            const EXPECTED: &str = "a JSON pointer, such as \"/data/token\"";
            let pointer = reader.text(node, EXPECTED)?;
            if !pointer.starts_with('/') {
                let message = format!("`{pointer}` is no JSON pointer");
                let dotted = pointer.trim_start_matches(['$', '.']).replace('.', "/");
                let problem = reader.wrong(node.at, message, EXPECTED);
                problem.help(format!("did you mean `/{dotted}`?"));
            }
            Some(CaptureFrom::Json(pointer.to_owned()))
        }
        _ => {
            let name = reader.text(node, "the name of a cookie, such as \"XSRF-TOKEN\"")?;
            Some(CaptureFrom::Cookie(name.to_owned()))
        }
    }
}

fn between(reader: &mut Reader<'_>, node: &Node) -> Option<CaptureFrom> {
    const EXPECTED: &str =
        "the texts before and behind the value, such as ['name=\"_token\" value=\"', '\"']";
    let items = reader.array(node, EXPECTED);
    let [before, after] = items else {
        if matches!(node.value, Value::Array(_)) {
            let found = format!("found {} texts", items.len());
            reader.wrong(node.at, found, EXPECTED);
        }
        return None;
    };
    let before = reader.text(before, EXPECTED).map(str::to_owned);
    let after = reader.text(after, EXPECTED).map(str::to_owned);
    Some(CaptureFrom::BodyBetween {
        before: before?,
        after: after?,
    })
}

/// Whether a text is the name of a header.
pub(in crate::config) fn is_header_name(name: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(token)
}
