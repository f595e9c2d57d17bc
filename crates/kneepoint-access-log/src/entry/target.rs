//! What a request asked for, in the form in which it can be asked for again.

use kneepoint_model::redact::is_secret_parameter;
use std::borrow::Cow;
use std::fmt::Write as _;

/// Longest path with query that is replayed, in bytes.
const LONGEST_TARGET: usize = 2000;

/// What stands in for a secret value.
const HIDDEN: &str = "hidden";

/// Method, and path with query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRequest {
    /// In capitals, as sent.
    pub method: String,
    /// Begins with `/`; percent-encoded, without fragment. Values of parameters that open doors (`token=`) are
    /// replaced.
    pub target: String,
}

impl LoggedRequest {
    /// `None` when it is nothing a client can ask a web server for: `OPTIONS *`, CONNECT, noise, or very long.
    pub(crate) fn new(method: &str, target: &str) -> Option<Self> {
        let word = |b: u8| b.is_ascii_uppercase() || b == b'-' || b == b'_';
        if method.is_empty() || method.len() > 20 || !method.bytes().all(word) {
            return None;
        }
        let origin = origin_form(target)?;
        if origin.len() > LONGEST_TARGET {
            return None;
        }
        Some(Self {
            method: method.to_owned(),
            target: hide_secrets(&encode(origin)).into_owned(),
        })
    }
}

/// Method and target of a request line; `None` when it is none.
pub(crate) fn split_request(line: &str) -> Option<(&str, &str)> {
    let (method, rest) = line.split_once(' ')?;
    let (target, _) = rest.rsplit_once(" HTTP/")?;
    (!target.is_empty()).then_some((method, target))
}

/// Path and query of `http://host/path?query`, which clients send to proxies.
fn origin_form(target: &str) -> Option<&str> {
    let host = target
        .strip_prefix("http://")
        .or_else(|| target.strip_prefix("https://"));
    let path = match host {
        Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
        None => target,
    };
    path.starts_with('/').then_some(path)
}

/// Encodes what must not stand in a request line, byte by byte; what is encoded already stays. Braces are encoded
/// too, as browsers do in paths, so that those of routes and of values to fill in are never somebody else's.
fn encode(target: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_graphic() && !b"#{}".contains(&b);
    if target.bytes().all(plain) {
        return Cow::Borrowed(target);
    }
    let mut encoded = String::with_capacity(target.len() + 16);
    for byte in target.bytes() {
        match plain(byte) {
            true => encoded.push(byte.into()),
            false => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    Cow::Owned(encoded)
}

fn hide_secrets(target: &str) -> Cow<'_, str> {
    let Some((path, query)) = target.split_once('?') else {
        return Cow::Borrowed(target);
    };
    let secret = |pair: &str| {
        pair.split_once('=')
            .is_some_and(|(name, value)| !value.is_empty() && is_secret_parameter(name))
    };
    if !query.split('&').any(secret) {
        return Cow::Borrowed(target);
    }
    let pairs: Vec<Cow<'_, str>> = query
        .split('&')
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) if secret(pair) => Cow::Owned(format!("{name}={HIDDEN}")),
            _ => Cow::Borrowed(pair),
        })
        .collect();
    Cow::Owned(format!("{path}?{}", pairs.join("&")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<&str>) {
        let request =
            split_request(line).and_then(|(method, target)| LoggedRequest::new(method, target));
        let shown = request.map(|request| format!("{} {}", request.method, request.target));
        assert_eq!(shown.as_deref(), expected, "{line}");
    }

    #[test]
    fn a_request_line_is_asked_again_as_it_was() {
        check("GET / HTTP/1.1", Some("GET /"));
        check("HEAD /a%20b?q=1 HTTP/2.0", Some("HEAD /a%20b?q=1"));
        check("GET /with space HTTP/1.0", Some("GET /with%20space"));
        check("GET /café#top HTTP/1.1", Some("GET /caf%C3%A9%23top"));
        check("GET /a?f={x.y} HTTP/1.1", Some("GET /a?f=%7Bx.y%7D"));
        check("GET http://shop.test/a?b HTTP/1.1", Some("GET /a?b"));
        check("GET https://shop.test HTTP/1.1", Some("GET /"));
    }

    #[test]
    fn what_no_client_asks_a_web_server_is_left_out() {
        for line in [
            "",
            "GET /",
            "OPTIONS * HTTP/1.1",
            "CONNECT shop.test:443 HTTP/1.1",
            "get / HTTP/1.1",
            "\u{16}\u{3}\u{1} HTTP/1.1",
            " / HTTP/1.1",
        ] {
            check(line, None);
        }
        check(&format!("GET /{} HTTP/1.1", "x".repeat(3000)), None);
    }

    #[test]
    fn secrets_are_not_kept() {
        check(
            "GET /reset?Token=s3cret&page=2&key= HTTP/1.1",
            Some("GET /reset?Token=hidden&page=2&key="),
        );
        check(
            "GET /a?reset_token=abc&jwt=ey.b.c&X-Amz-Signature=9f&country_code=49 HTTP/1.1",
            Some("GET /a?reset_token=hidden&jwt=hidden&X-Amz-Signature=hidden&country_code=49"),
        );
    }
}
