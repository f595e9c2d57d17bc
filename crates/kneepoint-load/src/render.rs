//! Requests as bytes, rendered once before the load. Only a user's cookies are put in between later.

use crate::fastcgi;
use crate::reply::{Needle, Parser, Reply};
use crate::target::Target;
use kneepoint_model::{Address, Outcome, Request};
use std::path::{Path, PathBuf};

/// A request ready to be sent, with what its response must be.
#[derive(Debug)]
pub(crate) struct Template {
    /// The whole request, without cookies.
    pub(crate) whole: Vec<u8>,
    /// Where in `whole` cookies belong.
    cookies_at: usize,
    wire: Wire,
    /// Whether it carries a user's cookies.
    pub(crate) session: bool,
    /// Whether its method is HEAD.
    pub(crate) head: bool,
    expected_status: Option<u16>,
    /// What its body must contain.
    pub(crate) needle: Option<Needle>,
    /// `GET /path`, for people.
    pub(crate) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Http,
    FastCgi,
}

impl Template {
    /// Renders a request that [`crate::plan::check_request`] has passed.
    pub(crate) fn new(target: &Target, request: &Request) -> Self {
        let (whole, cookies_at, wire) = match target {
            Target::Http {
                host_header,
                keep_alive,
                ..
            } => {
                let (whole, at) = render_http(request, host_header, *keep_alive);
                (whole, at, Wire::Http)
            }
            Target::FastCgi { keep_conn, .. } => {
                let mut whole = Vec::new();
                fastcgi::push_request(&mut whole, *keep_conn, &params(target, request));
                let at = whole.len();
                fastcgi::push_body(&mut whole, body(request));
                (whole, at, Wire::FastCgi)
            }
        };
        Self {
            whole,
            cookies_at,
            wire,
            session: request.session,
            head: request.method.0 == "HEAD",
            expected_status: request.expect.status,
            needle: request.expect.body_contains.as_deref().map(Needle::new),
            name: format!("{} {}", request.method.0, request.path),
        }
    }

    /// Writes the request with a user's cookies into a buffer that is used again.
    pub(crate) fn write_with_cookies(&self, cookies: &str, out: &mut Vec<u8>) {
        let (before, after) = self.whole.split_at(self.cookies_at);
        out.clear();
        out.extend_from_slice(before);
        if !cookies.is_empty() {
            match self.wire {
                Wire::Http => {
                    out.extend_from_slice(b"Cookie: ");
                    out.extend_from_slice(cookies.as_bytes());
                    out.extend_from_slice(b"\r\n");
                }
                Wire::FastCgi => {
                    fastcgi::push_param(out, "HTTP_COOKIE", cookies);
                }
            }
        }
        out.extend_from_slice(after);
    }

    /// Whether a complete response is what the request expects.
    pub(crate) fn judge(&self, reply: &Reply<'_>) -> Outcome {
        if !self.accepts(reply.status) {
            Outcome::HttpError
        } else if !reply.has_needle() {
            Outcome::WrongBody
        } else {
            Outcome::Ok
        }
    }

    /// Whether a status is what the request expects.
    fn accepts(&self, status: u16) -> bool {
        match self.expected_status {
            Some(expected) => status == expected,
            None => (200..400).contains(&status),
        }
    }
}

/// A parser for what a target answers.
pub(crate) fn parser(target: &Target) -> Parser {
    match target {
        Target::Http { .. } => Parser::Http(crate::http::HttpParser::default()),
        Target::FastCgi { keep_conn, .. } => {
            Parser::FastCgi(fastcgi::FastCgiParser::new(*keep_conn))
        }
    }
}

pub(crate) fn body(request: &Request) -> &[u8] {
    request.body.as_deref().unwrap_or_default().as_bytes()
}

fn header<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let mut headers = request.headers.iter();
    let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// Headers that every request has unless it sets them itself. A body is a form unless it says otherwise.
pub(crate) fn default_headers(request: &Request, host: &str) -> Vec<(String, String)> {
    let mut all = vec![
        ("Host", host.to_owned()),
        (
            "User-Agent",
            concat!("kneepoint/", env!("CARGO_PKG_VERSION")).to_owned(),
        ),
        ("Accept", "*/*".to_owned()),
    ];
    let has_body = request.body.is_some();
    if has_body {
        all.push((
            "Content-Type",
            "application/x-www-form-urlencoded".to_owned(),
        ));
    }
    all.retain(|(name, _)| header(request, name).is_none());
    if has_body || request.method.0 == "POST" || request.method.0 == "PUT" {
        all.push(("Content-Length", body(request).len().to_string()));
    }
    let defaults = all
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    let own = request.headers.iter().filter(|(name, _)| {
        // The engine frames requests and decides about connections itself.
        !["content-length", "transfer-encoding", "connection"]
            .iter()
            .any(|own| name.eq_ignore_ascii_case(own))
    });
    defaults.chain(own.cloned()).collect()
}

fn render_http(request: &Request, host: &str, keep_alive: bool) -> (Vec<u8>, usize) {
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method.0, request.path);
    for (name, value) in default_headers(request, host) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !keep_alive {
        head.push_str("Connection: close\r\n");
    }
    let cookies_at = head.len();
    let mut whole = head.into_bytes();
    whole.extend_from_slice(b"\r\n");
    whole.extend_from_slice(body(request));
    (whole, cookies_at)
}

/// The parameters of nginx's `fastcgi.conf` as Debian ships it, and the headers as `HTTP_*`. The server they tell of is
/// the web server that would stand before the runtime, not the runtime.
fn params(target: &Target, request: &Request) -> Vec<(String, String)> {
    let Target::FastCgi {
        address,
        script,
        document_root,
        https,
        ..
    } = target
    else {
        return Vec::new();
    };
    let (path, query) = request
        .path
        .split_once('?')
        .unwrap_or((request.path.as_str(), ""));
    let script = script_for(path, script, document_root);
    let uri = script
        .strip_prefix(document_root)
        .map_or_else(|_| script.clone(), |inner| Path::new("/").join(inner));
    let server_address = match address {
        Address::Tcp(address) => address.ip().to_string(),
        Address::Unix(_) => "127.0.0.1".to_owned(),
    };
    let host = header(request, "host").unwrap_or("localhost");
    let site = Site::of(host, *https);
    let headers = default_headers(request, host);
    let sent = |name: &str| {
        let found = headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map_or_else(String::new, |(_, value)| value.clone())
    };
    let mut params: Vec<(String, String)> = [
        ("SCRIPT_FILENAME", script.display().to_string()),
        ("QUERY_STRING", query.to_owned()),
        ("REQUEST_METHOD", request.method.0.clone()),
        ("CONTENT_TYPE", sent("content-type")),
        ("CONTENT_LENGTH", sent("content-length")),
        ("SCRIPT_NAME", uri.display().to_string()),
        ("REQUEST_URI", request.path.clone()),
        ("DOCUMENT_URI", uri.display().to_string()),
        ("DOCUMENT_ROOT", document_root.display().to_string()),
        ("SERVER_PROTOCOL", "HTTP/1.1".to_owned()),
        ("REQUEST_SCHEME", site.scheme.to_owned()),
        ("GATEWAY_INTERFACE", "CGI/1.1".to_owned()),
        ("SERVER_SOFTWARE", SERVER_SOFTWARE.to_owned()),
        ("REMOTE_ADDR", "127.0.0.1".to_owned()),
        ("REMOTE_PORT", "40000".to_owned()),
        ("REMOTE_USER", String::new()),
        ("SERVER_ADDR", server_address),
        ("SERVER_PORT", site.port.to_owned()),
        ("SERVER_NAME", site.name.to_owned()),
        ("REDIRECT_STATUS", "200".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    if *https {
        // nginx leaves it out when it is empty.
        params.push(("HTTPS".to_owned(), "on".to_owned()));
    }
    for (name, value) in headers {
        let upper = name.to_ascii_uppercase().replace('-', "_");
        params.push((format!("HTTP_{upper}"), value));
    }
    params
}

/// Applications look for the word nginx here (WordPress does) and behave differently without.
const SERVER_SOFTWARE: &str = concat!("nginx (kneepoint/", env!("CARGO_PKG_VERSION"), ")");

/// The web server that would stand before the runtime, as its visitors address it.
struct Site<'h> {
    scheme: &'static str,
    name: &'h str,
    port: &'h str,
}

impl<'h> Site<'h> {
    fn of(host: &'h str, https: bool) -> Self {
        let (scheme, usual) = if https {
            ("https", "443")
        } else {
            ("http", "80")
        };
        let with_port = host
            .rsplit_once(':')
            .filter(|(_, port)| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
        let (name, port) = with_port.unwrap_or((host, usual));
        Self { scheme, name, port }
    }
}

/// The file nginx would run: a path that ends in `.php` is itself one, everything else the front controller.
fn script_for(path: &str, front: &Path, document_root: &Path) -> PathBuf {
    if path.ends_with(".php") {
        document_root.join(path.trim_start_matches('/'))
    } else {
        front.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Tls;
    use expect_test::{Expect, expect};

    fn http(keep_alive: bool) -> Target {
        Target::http(Address::Unix("/x".into()), "shop.test").with_keep_alive(keep_alive)
    }

    /// Renders a request with cookies, showing the version as V.
    fn check(target: &Target, request: &Request, cookies: &str, expected: Expect) {
        let mut out = Vec::new();
        Template::new(target, request).write_with_cookies(cookies, &mut out);
        let text = String::from_utf8_lossy(&out).replace(env!("CARGO_PKG_VERSION"), "V");
        expected.assert_eq(&text.replace('\r', ""));
    }

    #[test]
    fn http_requests_are_rendered() {
        check(
            &http(true),
            &Request::get("/a?b=1"),
            "",
            expect![[r#"
                GET /a?b=1 HTTP/1.1
                Host: shop.test
                User-Agent: kneepoint/V
                Accept: */*

            "#]],
        );
        let mut post = Request::get("/login");
        post.method.0 = "POST".into();
        post.headers = vec![
            ("accept".into(), "text/html".into()),
            ("content-length".into(), "999".into()),
        ];
        post.body = Some("user=a".into());
        check(
            &http(false),
            &post,
            "s=1",
            expect![[r#"
                POST /login HTTP/1.1
                Host: shop.test
                User-Agent: kneepoint/V
                Content-Type: application/x-www-form-urlencoded
                Content-Length: 6
                accept: text/html
                Connection: close
                Cookie: s=1

                user=a"#]],
        );
    }

    #[test]
    fn fastcgi_parameters_are_those_of_nginx() {
        let target = Target::fastcgi(
            Address::Tcp(([10, 0, 0, 2], 9000).into()),
            "/srv/app/public/index.php",
            "/srv/app/public",
        );
        let shown = |target: &Target, request: &Request| {
            let wanted = [
                "SCRIPT_FILENAME",
                "SCRIPT_NAME",
                "QUERY_STRING",
                "REQUEST_URI",
                "REQUEST_SCHEME",
                "HTTPS",
                "SERVER_NAME",
                "SERVER_PORT",
                "HTTP_HOST",
            ];
            params(target, request)
                .into_iter()
                .filter(|(name, _)| wanted.contains(&name.as_str()))
                .map(|(name, value)| format!("{name}={value}\n"))
                .collect::<String>()
        };
        expect![[r#"
            SCRIPT_FILENAME=/srv/app/public/index.php
            QUERY_STRING=q=1
            SCRIPT_NAME=/index.php
            REQUEST_URI=/shop?q=1
            REQUEST_SCHEME=http
            SERVER_PORT=80
            SERVER_NAME=localhost
            HTTP_HOST=localhost
        "#]]
        .assert_eq(&shown(&target, &Request::get("/shop?q=1")));
        let mut script = Request::get("/wp/login.php");
        script.headers = vec![("Host".into(), "shop.test:8443".into())];
        let https = target.with_tls(Tls::new("shop.test"));
        expect![[r#"
            SCRIPT_FILENAME=/srv/app/public/wp/login.php
            QUERY_STRING=
            SCRIPT_NAME=/wp/login.php
            REQUEST_URI=/wp/login.php
            REQUEST_SCHEME=https
            SERVER_PORT=8443
            SERVER_NAME=shop.test
            HTTPS=on
            HTTP_HOST=shop.test:8443
        "#]]
        .assert_eq(&shown(&https, &script));
    }

    #[test]
    fn without_an_expectation_success_and_redirects_are_good() {
        let template = Template::new(&http(true), &Request::get("/"));
        assert!(template.accepts(200) && template.accepts(302));
        assert!(!template.accepts(404) && !template.accepts(502));
        let mut request = Request::get("/");
        request.expect.status = Some(404);
        assert!(Template::new(&http(true), &request).accepts(404));
    }
}
