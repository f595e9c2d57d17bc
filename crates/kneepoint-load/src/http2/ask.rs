//! Requests as the `h2` crate takes them, made once before the load.

use crate::plan::LoadError;
use crate::render;
use crate::target::Target;
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

/// A request ready to be sent.
#[derive(Debug)]
pub(crate) struct Ask {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    /// The body; `None` when there is none.
    pub(crate) body: Option<Bytes>,
}

impl Ask {
    /// Makes a request that [`crate::plan::check_request`] has passed.
    pub(crate) fn new(
        target: &Target,
        request: &kneepoint_model::Request,
    ) -> Result<Self, LoadError> {
        let wrong = |what: &str, error: &dyn std::fmt::Display| LoadError::Plan {
            problem: format!("{} {}: {what}: {error}", request.method.0, request.path),
        };
        let host_header = match target {
            Target::Http { host_header, .. } => host_header.as_str(),
            Target::FastCgi { .. } => "localhost",
        };
        let all = render::default_headers(request, host_header);
        let own_host = all
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = own_host.map_or(host_header, |(_, value)| value.as_str());
        let scheme = if target.tls().is_some() {
            "https"
        } else {
            "http"
        };
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query(request.path.as_str())
            .build()
            .map_err(|error| wrong("HTTP/2 cannot carry this path or host", &error))?;
        let mut headers = HeaderMap::with_capacity(all.len());
        for (name, value) in &all {
            let lower = name.to_ascii_lowercase();
            if OF_THE_CONNECTION.contains(&lower.as_str()) {
                continue;
            }
            let name = HeaderName::from_bytes(lower.as_bytes())
                .map_err(|error| wrong("a header name HTTP/2 cannot carry", &error))?;
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|error| wrong("a header value HTTP/2 cannot carry", &error))?;
            headers.append(name, value);
        }
        let method = Method::from_bytes(request.method.0.as_bytes())
            .map_err(|error| wrong("a method HTTP/2 cannot carry", &error))?;
        let body = render::body(request);
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
    use crate::target::Tls;
    use expect_test::expect;
    use kneepoint_model::Address;

    #[test]
    fn requests_have_the_headers_of_http_2() {
        let target = Target::http(Address::Unix("/x".into()), "shop.test").with_tls(Tls::new("x"));
        let mut post = kneepoint_model::Request::get("/login?a=1");
        post.method.0 = "POST".into();
        post.body = Some("user=a".into());
        post.headers = vec![
            ("Connection".into(), "close".into()),
            ("TE".into(), "gzip".into()),
            ("X-Thing".into(), "1".into()),
        ];
        let ask = Ask::new(&target, &post).expect("can be carried");
        let request = ask.with_cookies("s=1");
        let shown: String = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap_or("?")))
            .collect();
        let shown = format!("{} {}\n{shown}", request.method(), request.uri())
            .replace(env!("CARGO_PKG_VERSION"), "V");
        expect![[r#"
            POST https://shop.test/login?a=1
            user-agent: kneepoint/V
            accept: */*
            content-type: application/x-www-form-urlencoded
            content-length: 6
            x-thing: 1
            cookie: s=1
        "#]]
        .assert_eq(&shown);
        assert_eq!(ask.body.as_deref(), Some(b"user=a".as_slice()));

        post.headers = vec![("Host".into(), "other host".into())];
        let error = Ask::new(&target, &post).expect_err("no authority");
        assert!(error.to_string().contains("HTTP/2 cannot carry"), "{error}");
    }
}
