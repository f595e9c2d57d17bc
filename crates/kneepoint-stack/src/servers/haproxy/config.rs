//! HAProxy's configuration as text: written for a tier, and read by setting.

use super::{TUNABLES, USER};
use crate::TierContext;
use kneepoint_model::Address;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Where a setting stands: its section, and the words of its line before the value. Those of a `server` line follow
/// its address.
fn place(name: &str) -> (&'static str, String) {
    match name.split_once('.') {
        Some(("server", word)) => ("backend", word.to_owned()),
        Some((first, word)) => ("defaults", format!("{first} {word}")),
        None if matches!(name, "maxconn" | "nbthread") => ("global", name.to_owned()),
        None => ("defaults", name.to_owned()),
    }
}

/// The value that a text sets.
pub(super) fn found(config: &str, name: &str) -> Option<String> {
    let (section, words) = place(name);
    let mut within = "";
    let mut value = None;
    for line in config
        .lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
    {
        let first = line.split_whitespace().next().unwrap_or("");
        if ["global", "defaults", "frontend", "backend", "listen"].contains(&first) {
            within = first;
        }
        if within != section {
            continue;
        }
        let rest = match (section, name) {
            ("backend", _) => line.split_once(&format!(" {words} ")).map(|(_, rest)| rest),
            (_, "http-connection") => connection(line),
            _ => line.strip_prefix(&format!("{words} ")),
        };
        value = rest
            .and_then(|rest| rest.split_whitespace().next())
            .or(value);
    }
    value.map(str::to_owned)
}

/// The three ways to treat connections are options of their own.
fn connection(line: &str) -> Option<&'static str> {
    match line {
        "option http-keep-alive" => Some("keep-alive"),
        "option http-server-close" => Some("server-close"),
        "option httpclose" => Some("close"),
        _ => None,
    }
}

pub(super) fn text(
    context: &TierContext,
    settings: &BTreeMap<String, String>,
    listen: &Address,
    upstream: &Address,
) -> String {
    let value = |name: &str| -> Option<&str> {
        let spec = TUNABLES.iter().find(|spec| spec.name == name);
        settings.get(name).map(String::as_str).or(spec?.default)
    };
    let line = |name: &str| -> String {
        let (_, words) = place(name);
        value(name).map_or(String::new(), |value| format!("    {words} {value}\n"))
    };
    let mut text = String::from("global\n    log stdout format raw daemon notice\n");
    text += &line("maxconn");
    text += &line("nbthread");
    if context.as_root {
        let _ = write!(text, "    user {USER}\n    group {USER}\n");
    }
    text += "\ndefaults\n    mode http\n    log global\n";
    text += match value("http-connection") {
        Some("server-close") => "    option http-server-close\n",
        Some("close") => "    option httpclose\n",
        _ => "    option http-keep-alive\n",
    };
    for spec in TUNABLES
        .iter()
        .filter(|spec| spec.name != "http-connection")
    {
        if place(spec.name).0 == "defaults" {
            text += &line(spec.name);
        }
    }
    let at = |address: &Address| match address {
        Address::Tcp(tcp) => tcp.to_string(),
        Address::Unix(path) => format!("unix@{}", path.display()),
    };
    let mode = if matches!(listen, Address::Unix(_)) {
        " mode 666"
    } else {
        ""
    };
    let _ = write!(
        text,
        "\nfrontend front\n    bind {}{mode}\n    http-request return status 200 content-type text/plain string \"{}\" if \
         {{ path /.well-known/kneepoint }}\n    default_backend web\n\nbackend web\n    balance roundrobin\n    server web {}",
        at(listen),
        context.nonce,
        at(upstream)
    );
    for spec in TUNABLES
        .iter()
        .filter(|spec| place(spec.name).0 == "backend")
    {
        if let Some(value) = value(spec.name) {
            let _ = write!(text, " {} {value}", place(spec.name).1);
        }
    }
    text.push('\n');
    text
}
