//! Puts a request together for the wire, before the load: request line, headers or parameters, body.

use crate::plan::Target;
use crate::request::body;
use crate::request::variables::{Encoding, Text};
use crate::response::{fastcgi, reads_body};
use kneepoint_model::VariableNames;
use kneepoint_model::{Address, Request};
use std::path::{Path, PathBuf};

/// Where FastCGI tells the length of the body, as nginx does.
pub(crate) const LENGTH_PARAMS: [&str; 2] = ["CONTENT_LENGTH", "HTTP_CONTENT_LENGTH"];

/// Parameters that are made of the path.
const PATH_PARAMS: [&str; 5] = [
    "SCRIPT_FILENAME",
    "QUERY_STRING",
    "SCRIPT_NAME",
    "REQUEST_URI",
    "DOCUMENT_URI",
];

fn header<'r>(request: &'r Request, name: &str) -> Option<&'r str> {
    let mut headers = request.headers.iter();
    let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.as_str())
}

/// A request without variables, on the wire.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    pub(crate) whole: Vec<u8>,
    /// Where in it cookies belong.
    pub(crate) cookies_at: usize,
}

/// A request with variables. Its body is written first, since the head tells its length.
#[derive(Debug)]
pub(crate) enum DynamicParts {
    Http {
        /// All but the length of the body.
        head: Text,
        /// Whether the length is told.
        measured: bool,
        body: Text,
    },
    FastCgi {
        /// The start of the request with the parameters that are always the same.
        start: Vec<u8>,
        params: Vec<(String, Text)>,
        measured: bool,
        body: Text,
    },
}

impl DynamicParts {
    /// Whether it needs a captured value.
    pub(crate) fn needs_captured(&self) -> bool {
        match self {
            Self::Http { head, body, .. } => head.needs_captured() || body.needs_captured(),
            Self::FastCgi { params, body, .. } => {
                body.needs_captured() || params.iter().any(|(_, value)| value.needs_captured())
            }
        }
    }
}

/// A request that is being rendered.
#[derive(Debug)]
pub(crate) struct RequestBuilder<'a> {
    pub(crate) target: &'a Target,
    pub(crate) request: &'a Request,
    pub(crate) names: &'a VariableNames,
    /// Of its body, unless it has none.
    pub(crate) content_type: Option<&'a str>,
}

impl RequestBuilder<'_> {
    /// Whether path and headers have no variable.
    pub(crate) fn has_fixed_head(&self) -> bool {
        let text = self.text(&self.request.path, Encoding::Url);
        let mut headers = self.request.headers.iter();
        text.is_fixed() && headers.all(|(_, value)| self.text(value, Encoding::Header).is_fixed())
    }

    fn text(&self, text: &str, encoding: Encoding) -> Text {
        let mut compiled = Text::default();
        self.compile(&mut compiled, text, encoding);
        compiled
    }

    fn compile(&self, into: &mut Text, text: &str, encoding: Encoding) {
        into.compile(text, self.names, encoding, |literal, out| {
            out.extend_from_slice(literal.as_bytes());
        });
    }

    fn has_length(&self) -> bool {
        let method = self.request.method.0.as_str();
        self.request.body.is_some() || method == "POST" || method == "PUT"
    }

    /// The headers but those that frame the request. It has some always, unless it sets them itself.
    fn headers(&self, host: &str) -> Vec<(String, String)> {
        let agent = concat!("kneepoint/", env!("CARGO_PKG_VERSION"));
        let mut all = vec![("Host", host), ("User-Agent", agent), ("Accept", "*/*")];
        all.extend(self.content_type.map(|value| ("Content-Type", value)));
        // The engine frames requests and decides about connections itself.
        let mut dropped = vec!["content-length", "transfer-encoding", "connection"];
        if reads_body(self.request) {
            // What is looked for could not be found in a compressed body.
            dropped.push("accept-encoding");
        }
        let owned = body::owns_content_type(self.request.body.as_ref());
        if owned {
            dropped.push("content-type");
        }
        all.retain(|(name, _)| {
            header(self.request, name).is_none() || (owned && *name == "Content-Type")
        });
        let defaults = all
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let own = self.request.headers.iter().filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            !dropped.contains(&name.as_str())
        });
        defaults.chain(own.cloned()).collect()
    }

    pub(crate) fn render(&self, body: &[u8]) -> Rendered {
        match self.target {
            Target::Http { .. } => {
                let mut head = self.http_head();
                if self.has_length() {
                    head.push(format!("Content-Length: {}\r\n", body.len()).as_bytes());
                }
                let mut whole = head.fixed().unwrap_or_default().to_vec();
                let cookies_at = whole.len();
                whole.extend_from_slice(b"\r\n");
                whole.extend_from_slice(body);
                Rendered { whole, cookies_at }
            }
            Target::FastCgi { keep_conn, .. } => {
                let mut whole = Vec::new();
                let mut params = self.params();
                if self.has_length() {
                    let length = || body.len().to_string();
                    params.extend(LENGTH_PARAMS.map(|name| (name.to_owned(), length())));
                }
                fastcgi::push_request(&mut whole, *keep_conn, &params);
                let cookies_at = whole.len();
                fastcgi::push_body(&mut whole, body);
                Rendered { whole, cookies_at }
            }
        }
    }

    pub(crate) fn dynamic_parts(&self, body: Text) -> DynamicParts {
        match self.target {
            Target::Http { .. } => DynamicParts::Http {
                head: self.http_head(),
                measured: self.has_length(),
                body,
            },
            Target::FastCgi { keep_conn, .. } => {
                let mut fixed = Vec::new();
                let mut params = Vec::new();
                for (name, value) in self.params() {
                    let encoding = match PATH_PARAMS.contains(&name.as_str()) {
                        true => Encoding::Url,
                        false => Encoding::Header,
                    };
                    let text = self.text(&value, encoding);
                    if text.is_fixed() {
                        fixed.push((name, value));
                    } else {
                        params.push((name, text));
                    }
                }
                let mut start = Vec::new();
                fastcgi::push_request(&mut start, *keep_conn, &fixed);
                DynamicParts::FastCgi {
                    start,
                    params,
                    measured: self.has_length(),
                    body,
                }
            }
        }
    }

    /// The request line and the headers but for the length of the body.
    fn http_head(&self) -> Text {
        let (host, mut close) = match self.target {
            Target::Http {
                host_header,
                keep_alive,
                ..
            } => (host_header.as_str(), !keep_alive),
            Target::FastCgi { .. } => ("localhost", false),
        };
        // Nobody else has the connection of a slow client: the server closes it, and so keeps its port in TIME_WAIT.
        close |= self.request.client_mbit.is_some();
        let mut head = Text::default();
        head.push(format!("{} ", self.request.method.0).as_bytes());
        self.compile(&mut head, &self.request.path, Encoding::Url);
        head.push(b" HTTP/1.1\r\n");
        for (name, value) in self.headers(host) {
            head.push(format!("{name}: ").as_bytes());
            self.compile(&mut head, &value, Encoding::Header);
            head.push(b"\r\n");
        }
        if close {
            head.push(b"Connection: close\r\n");
        }
        head
    }

    /// The parameters of nginx's `fastcgi.conf` as Debian ships it but the length of the body, and the headers as
    /// `HTTP_*`. The server they tell of is the web server that would stand before the runtime, not the runtime.
    fn params(&self) -> Vec<(String, String)> {
        let request = self.request;
        let Target::FastCgi {
            address,
            script,
            document_root,
            https,
            ..
        } = self.target
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
        let headers = self.headers(host);
        let content_type = headers
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            .map_or_else(String::new, |(_, value)| value.clone());
        let mut params: Vec<(String, String)> = [
            ("SCRIPT_FILENAME", script.display().to_string()),
            ("QUERY_STRING", query.to_owned()),
            ("REQUEST_METHOD", request.method.0.clone()),
            ("CONTENT_TYPE", content_type),
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
        let (scheme, usual) = match https {
            true => ("https", "443"),
            false => ("http", "80"),
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
    use crate::plan::Tls;
    use expect_test::expect;

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
            let builder = RequestBuilder {
                target,
                request,
                names: &VariableNames::default(),
                content_type: None,
            };
            builder
                .params()
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
}
