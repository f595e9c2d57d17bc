//! Requests as the `h2` crate takes them. They are made of the bytes that would go out in HTTP/1.1, so that what a
//! request is, with its variables and its body, is written down once.

use crate::plan::Target;
use bytes::Bytes;
use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

/// Headers that belong to a connection of HTTP/1.1 and are malformed in HTTP/2 (RFC 9113, section 8.2.2), and the one
/// that became `:authority`.
const OF_THE_CONNECTION: [&str; 7] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "te",
];

/// Most headers of a request.
const MOST_HEADERS: usize = 256;

/// The scheme of a target's requests.
pub(crate) fn scheme(target: &Target) -> &'static str {
    match target.tls() {
        Some(_) => "https",
        None => "http",
    }
}

/// A request ready to be sent.
#[derive(Debug)]
pub(crate) struct H2Request {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// The body; `None` when there is none.
    pub(crate) body: Option<Bytes>,
}

impl H2Request {
    /// Makes a request of one in HTTP/1.1, or says what of it HTTP/2 cannot carry.
    pub(crate) fn new(wire: &[u8], scheme: &str) -> Result<Self, String> {
        let cannot = |what: &str| format!("HTTP/2 cannot carry {what}");
        let mut space = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut head = httparse::Request::new(&mut space);
        let parsed = head
            .parse(wire)
            .map_err(|error| cannot(&format!("this: {error}")))?;
        let httparse::Status::Complete(used) = parsed else {
            return Err(cannot("a head without an end"));
        };
        let mut headers = HeaderMap::with_capacity(head.headers.len());
        let mut authority = None;
        for header in head.headers.iter() {
            let lower = header.name.to_ascii_lowercase();
            if lower == "host" {
                authority = Some(header.value);
            }
            if OF_THE_CONNECTION.contains(&lower.as_str()) {
                continue;
            }
            let name = HeaderName::from_bytes(lower.as_bytes());
            let value = HeaderValue::from_bytes(header.value);
            let (Ok(name), Ok(value)) = (name, value) else {
                return Err(cannot(&format!("the header `{lower}`")));
            };
            headers.append(name, value);
        }
        let path = head.path.unwrap_or("/");
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(authority.unwrap_or(b"localhost"))
            .path_and_query(path)
            .build()
            .map_err(|error| cannot(&format!("the path `{path}` or its host: {error}")))?;
        let method = Method::from_bytes(head.method.unwrap_or("GET").as_bytes())
            .map_err(|_| cannot("the method"))?;
        let body = &wire[used..];
        Ok(Self {
            method,
            uri,
            headers,
            body: (!body.is_empty()).then(|| Bytes::copy_from_slice(body)),
        })
    }

    /// The request with a user's cookies.
    pub(crate) fn with_cookies(&self, cookies: &str) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        *request.version_mut() = http::Version::HTTP_2;
        // A jar takes only what can stand in a header.
        if !cookies.is_empty()
            && let Ok(value) = HeaderValue::from_bytes(cookies.as_bytes())
        {
            request.headers_mut().append(COOKIE, value);
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn requests_have_the_headers_of_http_2() {
        let wire = "POST /login?a=1 HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: kneepoint\r\nTE: gzip\r\n\
                    X-Thing: 1\r\nContent-Length: 6\r\nConnection: close\r\n\r\nuser=a";
        let made = H2Request::new(wire.as_bytes(), "https").expect("can be carried");
        let request = made.with_cookies("s=1");
        let shown: String = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap_or("?")))
            .collect();
        let shown = format!("{} {}\n{shown}", request.method(), request.uri());
        expect![[r#"
            POST https://shop.test/login?a=1
            user-agent: kneepoint
            x-thing: 1
            content-length: 6
            cookie: s=1
        "#]]
        .assert_eq(&shown);
        assert_eq!(made.body.as_deref(), Some(b"user=a".as_slice()));

        let wire = b"GET / HTTP/1.1\r\nHost: other host\r\n\r\n";
        let error = H2Request::new(wire, "http").expect_err("no authority");
        assert!(error.contains("HTTP/2 cannot carry"), "{error}");
    }
}
