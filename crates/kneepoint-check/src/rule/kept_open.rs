//! What to write where nginx is to keep its connections to a server.

use crate::snapshot::Pass;

/// Whether every request of a place asks for another protocol (WebSocket). With a variable in its place only some do.
pub(crate) fn always_upgrades(pass: &Pass) -> bool {
    let header = pass.settings.text("proxy_set_header connection");
    pass.settings.text("proxy_set_header upgrade").is_some()
        && header.is_some_and(|text| text.eq_ignore_ascii_case("upgrade"))
}

/// What to do where lines to be copied would do harm.
pub(crate) fn only_words(pass: &Pass, has_upstream: bool) -> Option<&'static str> {
    if !has_upstream && pass.by_variable {
        return Some(
            "The address holds a variable, so nginx looks the name up as it runs, and keeps no connection. Write an upstream with \
             `zone`, `server NAME:PORT resolve;` and `keepalive 64;` (nginx 1.27.3 and later), and name it here without a variable.",
        );
    }
    let header = pass.settings.text("proxy_set_header connection")?;
    // An empty header would end what is upgraded.
    header.contains('$').then_some(
        "In an upstream for this server write `keepalive 64;`, and let the map give '' and not close for requests that are not \
         upgraded.",
    )
}

/// Whether a place asks in a way that leaves the connection open.
pub(crate) fn asks_to_keep(pass: &Pass) -> bool {
    let header = pass.settings.text("proxy_set_header connection");
    pass.settings.text("proxy_http_version") == Some("1.1")
        && header.is_some_and(|text| !text.eq_ignore_ascii_case("close"))
}

/// What keeps connections open, with the headers that would be lost by it: the first `proxy_set_header` of a level takes away
/// all from around it. `host` is what nginx sent as Host so far, where another name would take its place. What holds already
/// is left out: nginx refuses a directive that stands twice.
pub(crate) fn kept_open(pass: &Pass, host: Option<&str>) -> String {
    let eleven = pass.settings.text("proxy_http_version") == Some("1.1");
    let mut lines = Vec::from_iter((!eleven).then(|| "proxy_http_version 1.1;".to_owned()));
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
    let host = host.filter(|_| headers.iter().all(|(name, _)| *name != "host"));
    let is_kept = pass.settings.text("proxy_set_header connection") == Some("");
    if is_kept && host.is_none() {
        return lines.join("\n");
    }
    lines.extend(host.map(|host| set("Host", host)));
    if !pass.sets_headers {
        lines.extend(
            headers
                .iter()
                .map(|(name, value)| set(&titled(name), &value.text)),
        );
    }
    lines.extend((!(is_kept && pass.sets_headers)).then(|| set("Connection", "")));
    lines.join("\n")
}

/// An upstream block for a place that names a server itself, and the lines that take it.
pub(crate) fn own_upstream(pass: &Pass) -> (String, String) {
    let target = pass.target.text.as_str();
    let (scheme, rest) = target.split_once("://").unwrap_or(("http", target));
    let (server, path) = rest.split_at(rest.find(['/', '$']).unwrap_or(rest.len()));
    let name = server.replace(|c: char| !c.is_alphanumeric(), "_");
    let host = match server.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => host,
        _ => server,
    };
    let is_tls = scheme == "https";
    // In an upstream a server without a port has 80.
    let port = match is_tls && host == server {
        true => ":443",
        false => "",
    };
    let mut lines = vec![
        format!("proxy_pass {scheme}://kept_{name}{path};"),
        kept_open(pass, Some(server)),
    ];
    // The certificate would be asked for by the name of the block.
    if is_tls && pass.settings.text("proxy_ssl_name").is_none() {
        lines.push(format!("proxy_ssl_name {host};"));
    }
    lines.retain(|line| !line.is_empty());
    let block = format!("upstream kept_{name} {{ server {server}{port}; keepalive 64; }}");
    (block, lines.join("\n"))
}

/// The name of a header as people write it: `X-Forwarded-For`.
fn titled(name: &str) -> String {
    let part = |part: &str| {
        let first = part.get(..1).unwrap_or_default().to_ascii_uppercase();
        first + part.get(1..).unwrap_or_default()
    };
    name.split('-').map(part).collect::<Vec<_>>().join("-")
}
