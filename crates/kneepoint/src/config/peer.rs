//! `[[peer]]`: doubles of those whom the application must talk to.

use crate::config::reader::tree::Node;
use crate::config::reader::{Reader, Section};
use kneepoint_model::scenario::{PeerKind, PeerSpec};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// Requests a double serves at once where nobody says.
const CAPACITY: u32 = 1000;
/// Longest body, in bytes.
const LARGEST_BODY: usize = 1 << 20;

/// Reads the doubles.
pub(super) fn read(reader: &mut Reader<'_>, top: &Section<'_>) -> Vec<PeerSpec> {
    let Some(node) = top.get("peer") else {
        return Vec::new();
    };
    let mut seen = BTreeSet::new();
    let items = reader.array(node, "[[peer]] tables with host and kind");
    items
        .iter()
        .filter_map(|item| {
            let peer = peer(reader, item)?;
            let name = format!("{}:{}", peer.host.to_ascii_lowercase(), peer.port);
            reader.distinct(&mut seen, &name, item.at).then_some(peer)
        })
        .collect()
}

fn peer(reader: &mut Reader<'_>, node: &Node) -> Option<PeerSpec> {
    let section = reader.section(node, "peer")?;
    let host = match section.get("host") {
        Some(node) => host(reader, node),
        None => {
            let wanted = "whom the application asks for, such as \"api.example.org\"";
            reader.missing(Some(section.at), "peer.host", wanted);
            None
        }
    };
    let kind = match section.get("kind") {
        Some(node) => kind(reader, node),
        None => {
            reader.missing(Some(section.at), "peer.kind", "`http` or `smtp`");
            None
        }
    };
    let mut whole = |key, min, max, default| match section.get(key) {
        Some(node) => reader.whole(node, min, max),
        None => Some(default),
    };
    let port = whole("port", 1, 65535, usual_port(kind));
    let capacity = whole("capacity", 1, 100_000, CAPACITY);
    let status = whole("status", 200, 599, 200);
    let latency = match section.get("latency") {
        Some(node) => reader.duration(node),
        None => Some(Duration::ZERO),
    };
    let body = match section.get("body") {
        Some(node) => body(reader, node),
        None => Some("{}".to_owned()),
    };
    for key in ["status", "body"] {
        if let Some(node) = section.get(key).filter(|_| kind == Some(PeerKind::Smtp)) {
            let message = format!("`{key}` says nothing to a mail server");
            reader.wrong(node.at, message, "it with kind = \"http\" only");
        }
    }
    Some(PeerSpec {
        host: host?,
        kind: kind?,
        port: u16::try_from(port?).ok()?,
        latency: latency?,
        capacity: capacity?,
        status: u16::try_from(status?).ok()?,
        body: body?,
    })
}

fn usual_port(kind: Option<PeerKind>) -> u32 {
    match kind {
        Some(PeerKind::Smtp) => 25,
        _ => 80,
    }
}

fn kind(reader: &mut Reader<'_>, node: &Node) -> Option<PeerKind> {
    if let crate::config::reader::tree::Value::Text(text) = &node.value
        && ["https", "smtps", "tls"].contains(&text.to_ascii_lowercase().as_str())
    {
        let message = format!("`{text}`: a double has no certificate that the application trusts");
        let expected = "`http` or `smtp`";
        reader.wrong(node.at, message, expected).help(
            "let the application ask over http in the lab ([app.env] or [[app.file]]), or name the host in [app] unreachable",
        );
        return None;
    }
    reader.choice(node, &PeerKind::ALL.map(|kind| (kind.name(), kind)))
}

fn host(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    const EXPECTED: &str = "a name such as \"api.example.org\", or an IPv4 address";
    let written = reader.text(node, EXPECTED)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let message = match written {
        _ if written.contains("://") => "is an address of a page",
        _ if matches!(written.parse(), Ok(IpAddr::V6(_))) => "is an IPv6 address",
        _ if !written.chars().all(is_part) || written.len() > 253 => "is no host",
        _ => return Some(written.to_owned()),
    };
    reader.wrong(node.at, format!("`{written}` {message}"), EXPECTED);
    None
}

fn body(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    let text = reader.any_text(node)?;
    if text.len() > LARGEST_BODY {
        reader.wrong(node.at, "this body is too long", "at most 1 MiB");
        return None;
    }
    Some(text.to_owned())
}
