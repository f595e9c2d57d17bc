//! `[[request]]`: what is asked.

use crate::config::reader::tree::{Node, Span};
use crate::config::reader::{Reader, Section};
use crate::config::suggest::nearest;
use crate::config::workload::expect::is_header_name;
use crate::config::workload::uses::Uses;
use crate::config::workload::{content, expect};
use kneepoint_model::variables::{Piece, pieces};
use kneepoint_model::{Feeder, Method, Request};
use std::collections::BTreeSet;

/// Headers the load engine writes itself: a second one would make two readings of the same request.
const OWN_HEADERS: &[&str] = &["connection", "content-length", "transfer-encoding"];

/// A request as it is read, with what can only be checked when all are.
pub(in crate::config) struct Draft {
    pub(in crate::config) request: Request,
    /// Where it begins.
    pub(in crate::config) at: Span,
    /// Where its name stands.
    name_at: Option<Span>,
    /// The variables it needs, and where.
    pub(in crate::config) uses: Uses,
    /// Where it says that it has no session.
    denied_at: Option<Span>,
}

pub(in crate::config) fn read(reader: &mut Reader<'_>, section: &Section<'_>) -> Draft {
    const WEIGHT: &str = "a weight above 0, such as 8";
    const MEGABITS: &str = "megabits a second from 0.01 to 10000, such as 1.6";
    let mut request = Request::get("/");
    let mut uses = Uses::default();
    if let Some(node) = section.get("name") {
        let name = reader.text(node, "a name for sessions to refer to, such as \"login\"");
        request.name = name.map(str::to_owned);
    }
    if let Some(node) = section.get("path") {
        request.path = path(reader, node, &mut uses).unwrap_or_default();
    }
    if let Some(node) = section.get("weight") {
        let weight = reader.number(node, f64::MIN_POSITIVE, 1e9, WEIGHT);
        request.weight = weight.unwrap_or(1.0);
    }
    if let Some(node) = section.get("headers") {
        request.headers = headers(reader, node, &mut uses);
    }
    request.body = content::read(reader, section, &request.headers, &mut uses);
    if request.body.is_some() {
        request.method = Method("POST".into());
    }
    if let Some(node) = section.get("method") {
        request.method = method(reader, node).unwrap_or_default();
    }
    if let Some(node) = section.get("expect") {
        request.expect = expect::read(reader, node);
    }
    if let Some(node) = section.get("capture") {
        request.captures = expect::captures(reader, node);
    }
    if let Some(node) = section.get("client_mbit") {
        request.client_mbit = reader.number(node, 0.01, 10_000.0, MEGABITS);
    }
    let mut denied_at = None;
    if let Some(node) = section.get("session") {
        let session = reader.boolean(node);
        request.session = session.unwrap_or_default();
        denied_at = (session == Some(false)).then_some(node.at);
    }
    Draft {
        request,
        at: section.at,
        name_at: section.get("name").map(|node| node.at),
        uses,
        denied_at,
    }
}

/// Checks what takes all requests to check: names, and where variables come from.
pub(in crate::config) fn settle(reader: &mut Reader<'_>, drafts: &mut [Draft], feeders: &[Feeder]) {
    let mut names = BTreeSet::new();
    for draft in &*drafts {
        if let (Some(name), Some(at)) = (&draft.request.name, draft.name_at) {
            reader.distinct(&mut names, name, at);
        }
    }
    let captures = drafts.iter().flat_map(|draft| &draft.request.captures);
    let captured: BTreeSet<String> = captures.map(|capture| capture.name.clone()).collect();
    let columns: Vec<String> = feeders
        .iter()
        .flat_map(|feeder| {
            let columns = feeder.columns.iter();
            columns.map(|column| format!("{}.{column}", feeder.name))
        })
        .collect();
    for draft in drafts {
        let mut has_captured = !draft.request.captures.is_empty();
        for (name, at) in &draft.uses.0 {
            has_captured |= captured.contains(name);
            if captured.contains(name) || columns.contains(name) {
                continue;
            }
            let known = captured.iter().chain(&columns).map(String::as_str);
            let near = nearest(name, known).map(|near| format!("did you mean `{{{{{near}}}}}`?"));
            let message = format!("`{{{{{name}}}}}` stands for nothing");
            let expected = "a value that some request captures, or FEEDER.COLUMN";
            let problem = reader.wrong(*at, message, expected);
            if let Some(near) = near {
                problem.help(near);
            }
        }
        if has_captured {
            draft.request.session = true;
            if let Some(at) = draft.denied_at {
                let message = "a captured value belongs to a user, and this request to none";
                reader.wrong(at, message, "`session = true`, which is understood");
            }
        }
    }
}

fn path(reader: &mut Reader<'_>, node: &Node, uses: &mut Uses) -> Option<String> {
    const EXPECTED: &str =
        "a path that begins with `/`, percent-encoded, such as \"/search?q=a%20b\"";
    let path = reader.text(node, EXPECTED)?;
    uses.note(reader, path, node.at);
    let graphic = |piece| match piece {
        Piece::Literal(text) => str::chars(text).all(|c| c.is_ascii_graphic() && c != '#'),
        Piece::Variable(_) => true,
    };
    let sendable = path.starts_with('/') && pieces(path).all(graphic);
    if !sendable {
        let problem = reader.wrong(node.at, format!("`{path}` cannot be requested"), EXPECTED);
        if path.contains("://") {
            problem.help("leave the host away: requests go to the first tier of the chain");
        }
    }
    sendable.then(|| path.to_owned())
}

fn method(reader: &mut Reader<'_>, node: &Node) -> Option<Method> {
    const EXPECTED: &str = "a method in capitals, such as \"POST\"";
    let method = reader.text(node, EXPECTED)?;
    if !method.is_empty() && method.chars().all(|c| c.is_ascii_uppercase()) {
        return Some(Method(method.to_owned()));
    }
    let capitals = method.to_ascii_uppercase();
    let problem = reader.wrong(node.at, format!("`{method}` is no method"), EXPECTED);
    if capitals.chars().all(|c| c.is_ascii_uppercase()) {
        problem.help(format!("did you mean `{capitals}`?"));
    }
    None
}

fn headers(reader: &mut Reader<'_>, node: &Node, uses: &mut Uses) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for entry in reader.entries(
        node,
        "a table of headers, such as { Accept = \"text/html\" }",
    ) {
        let name = &entry.key;
        if !is_header_name(name) {
            let message = format!("`{name}` is no header name");
            reader.wrong(entry.key_at, message, "a name such as Accept-Language");
        } else if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            let message = format!("`{name}` is written by the load engine");
            reader.wrong(entry.key_at, message, "other headers");
        }
        let Some(value) = reader.plain(&entry.node) else {
            continue;
        };
        uses.note(reader, &value, entry.node.at);
        if value.chars().any(char::is_control) {
            let message = "found a control character in a header";
            reader.wrong(entry.node.at, message, "a value on one line");
        }
        headers.push((name.clone(), value));
    }
    headers
}
