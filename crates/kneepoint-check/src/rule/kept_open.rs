//! What to write where nginx is to keep its connections to a server.

use crate::snapshot::Pass;

/// What keeps connections open, with the headers that would be lost by it: the first `proxy_set_header` of a level takes away
/// all from around it. `host` is what nginx sent as Host so far, where another name would take its place.
pub(crate) fn kept_open(pass: &Pass, host: Option<&str>) -> String {
    let mut lines = vec!["proxy_http_version 1.1;".to_owned()];
    let set = |name: &str, value: &str| {
        let plain = !value.is_empty() && !value.contains([' ', ';', '{', '}', '\'']);
        match plain {
            true => format!("proxy_set_header {name} {value};"),
            false => format!("proxy_set_header {name} \"{value}\";"),
        }
    };
    let headers = pass.settings.iter();
    let headers = headers.filter_map(|(name, value)| {
        let name = name.strip_prefix("proxy_set_header ")?;
        (name != "connection").then_some((name, value))
    });
    let headers: Vec<_> = headers.collect();
    if let Some(host) = host.filter(|_| headers.iter().all(|(name, _)| *name != "host")) {
        lines.push(set("Host", host));
    }
    if !pass.sets_headers {
        lines.extend(
            headers
                .iter()
                .map(|(name, value)| set(&titled(name), &value.text)),
        );
    }
    lines.push(set("Connection", ""));
    lines.join("\n")
}

/// The name of a header as people write it: `X-Forwarded-For`.
fn titled(name: &str) -> String {
    let part = |part: &str| {
        let first = part.get(..1).unwrap_or_default().to_ascii_uppercase();
        first + part.get(1..).unwrap_or_default()
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}
