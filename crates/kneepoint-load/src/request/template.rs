//! Requests as bytes, rendered once before the load. Only a user's cookies and the values of variables are put in
//! between later.

use crate::connection::Line;
use crate::plan::Target;
use crate::request::body::Encoded;
use crate::request::builder::{DynamicParts, LENGTH_PARAMS, Rendered, RequestBuilder};
use crate::request::variables::{NoValue, Values};
use crate::response::Expectations;
use crate::response::fastcgi;
use kneepoint_model::VariableNames;
use kneepoint_model::{Feeder, Request};
use std::io::Write as _;

/// A request ready to be sent, with what its response must be.
#[derive(Debug)]
pub(crate) struct RequestTemplate {
    /// The whole request, without cookies; empty when it has variables.
    pub(crate) whole: Vec<u8>,
    /// Where in `whole` cookies belong.
    cookies_at: usize,
    wire: Wire,
    /// What has to be put together for each request anew.
    dynamic: Option<DynamicParts>,
    /// Whether it carries a user's cookies.
    pub(crate) session: bool,
    /// Whether its method is HEAD.
    pub(crate) head: bool,
    /// Whether sending it twice is meant to do no more than sending it once (RFC 9110, section 9.2.2).
    pub(crate) idempotent: bool,
    /// The slow line of the client who asks for it; `None` takes responses as they come.
    pub(crate) line: Option<Line>,
    /// What is looked for in its responses; `None` when only the status matters.
    pub(crate) expectations: Option<Expectations>,
    /// As the plan has it.
    pub(crate) request: Request,
    /// `GET /path`, for people.
    pub(crate) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wire {
    Http,
    FastCgi,
}

impl RequestTemplate {
    /// Renders a request that [`kneepoint_model::check_request`] has passed.
    pub(crate) fn new(
        target: &Target,
        request: &Request,
        names: &VariableNames,
        feeders: &[Feeder],
    ) -> Self {
        let body = Encoded::new(request.body.as_ref(), names, feeders);
        let builder = RequestBuilder {
            target,
            request,
            names,
            content_type: body.content_type.as_deref(),
        };
        let fixed_body = body.text.fixed().filter(|_| builder.has_fixed_head());
        let (rendered, dynamic) = match fixed_body {
            Some(body) => (builder.render(body), None),
            None => (Rendered::default(), Some(builder.dynamic_parts(body.text))),
        };
        let needs_captured = dynamic.as_ref().is_some_and(DynamicParts::needs_captured);
        Self {
            whole: rendered.whole,
            cookies_at: rendered.cookies_at,
            wire: match target {
                Target::Http { .. } => Wire::Http,
                Target::FastCgi { .. } => Wire::FastCgi,
            },
            dynamic,
            session: request.session || needs_captured || !request.captures.is_empty(),
            head: request.method.0 == "HEAD",
            idempotent: matches!(
                request.method.0.as_str(),
                "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE"
            ),
            line: request.client_mbit.map(Line::of_mbit),
            expectations: Expectations::new(request, names),
            name: format!("{} {}", request.method.0, request.path),
            request: request.clone(),
        }
    }

    /// Whether a status is what the request expects.
    pub(crate) fn accepts(&self, status: u16) -> bool {
        self.request.expect.accepts(status)
    }

    /// Whether every request is the same but for its cookies.
    pub(crate) fn is_fixed(&self) -> bool {
        self.dynamic.is_none()
    }

    /// Writes the request with a user's cookies into a buffer that is used again.
    pub(crate) fn write_with_cookies(&self, cookies: &str, out: &mut Vec<u8>) {
        let (before, after) = self.whole.split_at(self.cookies_at);
        out.clear();
        out.extend_from_slice(before);
        push_cookies(self.wire, cookies, out);
        out.extend_from_slice(after);
    }

    /// Writes the request with values and cookies into a buffer that is used again. `scratch` is one, too.
    ///
    /// # Errors
    /// A value that is missing, or unfit for its place.
    pub(crate) fn write_with_values(
        &self,
        values: &impl Values,
        cookies: &str,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), NoValue<'_>> {
        out.clear();
        scratch.clear();
        match &self.dynamic {
            None => self.write_with_cookies(cookies, out),
            Some(DynamicParts::Http {
                head,
                measured,
                body,
            }) => {
                body.write(values, scratch)?;
                head.write(values, out)?;
                if *measured {
                    out.extend_from_slice(b"Content-Length: ");
                    push_number(scratch.len(), out);
                    out.extend_from_slice(b"\r\n");
                }
                push_cookies(Wire::Http, cookies, out);
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(scratch);
            }
            Some(DynamicParts::FastCgi {
                start,
                params,
                measured,
                body,
            }) => {
                out.extend_from_slice(start);
                for (name, value) in params {
                    scratch.clear();
                    value.write(values, scratch)?;
                    fastcgi::push_param(out, name, scratch);
                }
                push_cookies(Wire::FastCgi, cookies, out);
                scratch.clear();
                body.write(values, scratch)?;
                let length = scratch.len();
                if *measured {
                    push_number(length, scratch);
                    for name in LENGTH_PARAMS {
                        fastcgi::push_param(out, name, &scratch[length..]);
                    }
                }
                fastcgi::push_body(out, &scratch[..length]);
            }
        }
        Ok(())
    }
}

fn push_cookies(wire: Wire, cookies: &str, out: &mut Vec<u8>) {
    if cookies.is_empty() {
        return;
    }
    match wire {
        Wire::Http => {
            out.extend_from_slice(b"Cookie: ");
            out.extend_from_slice(cookies.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        Wire::FastCgi => fastcgi::push_param(out, "HTTP_COOKIE", cookies.as_bytes()),
    }
}

fn push_number(number: usize, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "{number}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use kneepoint_model::ValueSource;
    use kneepoint_model::{Address, Body, Capture, CaptureFrom, RowOrder, Workload};

    fn http(keep_alive: bool) -> Target {
        Target::http(Address::Unix("/x".into()), "shop.test").with_keep_alive(keep_alive)
    }

    fn template(target: &Target, request: &Request) -> RequestTemplate {
        RequestTemplate::new(target, request, &VariableNames::default(), &[])
    }

    /// Renders a request with cookies, showing the version as V.
    fn check(target: &Target, request: &Request, cookies: &str, expected: Expect) {
        let mut out = Vec::new();
        template(target, request).write_with_cookies(cookies, &mut out);
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
                accept: text/html
                Connection: close
                Content-Length: 6
                Cookie: s=1

                user=a"#]],
        );
    }

    #[test]
    fn without_an_expectation_success_and_redirects_are_good() {
        let plain = template(&http(true), &Request::get("/"));
        assert!(plain.accepts(200) && plain.accepts(302));
        assert!(!plain.accepts(404) && !plain.accepts(502));
        let mut request = Request::get("/");
        request.expect.status = vec![404.into()];
        assert!(template(&http(true), &request).accepts(404));
    }

    struct FixedValues;

    impl Values for FixedValues {
        fn value(&self, source: ValueSource) -> Option<&[u8]> {
            match source {
                ValueSource::Captured(0) => Some(b"t k+&"),
                ValueSource::Captured(_) => None,
                ValueSource::Column { .. } => Some("\u{fc}/\"".as_bytes()),
                ValueSource::RequestId => Some(b"kneepoint-7"),
            }
        }
    }

    /// A request as it is sent where `{{csrf}}` is captured, `{{gone}}` is not, and `{{users.name}}` is from a table.
    fn written(target: &Target, request: &Request) -> Result<Vec<u8>, String> {
        let mut workload = Workload::single("/");
        workload.requests[0].captures = ["csrf", "gone"]
            .map(|name| Capture {
                name: name.into(),
                from: CaptureFrom::Header("X".into()),
            })
            .into();
        workload.feeders = vec![Feeder {
            name: "users".into(),
            columns: vec!["name".into()],
            order: RowOrder::InTurn,
            rows: Default::default(),
        }];
        let template = RequestTemplate::new(target, request, &VariableNames::new(&workload), &[]);
        assert!(!template.is_fixed() && template.whole.is_empty());
        let (mut scratch, mut out) = (b"used".to_vec(), b"before".to_vec());
        template
            .write_with_values(&FixedValues, "s=1", &mut scratch, &mut out)
            .map_err(|no_value| format!("{no_value:?}"))?;
        Ok(out)
    }

    fn login() -> Request {
        let mut post = Request::get("/u/{{users.name}}?t={{csrf}}");
        post.method.0 = "POST".into();
        post.headers = vec![
            ("X-CSRF-TOKEN".into(), "{{csrf}}".into()),
            ("Accept-Encoding".into(), "gzip".into()),
        ];
        post.body = Some(Body::Form(vec![
            ("_token".into(), "{{csrf}}".into()),
            ("a&b".into(), "1 {{users.name}}".into()),
        ]));
        post
    }

    #[test]
    fn values_are_put_in_where_variables_stand() {
        let check = |request: &Request, expected: Expect| {
            let sent = written(&http(true), request).expect("every value is there");
            let text = String::from_utf8_lossy(&sent).replace(env!("CARGO_PKG_VERSION"), "V");
            expected.assert_eq(&text.replace('\r', ""));
        };
        check(
            &login(),
            expect![[r#"
                POST /u/%C3%BC%2F%22?t=t%20k%2B%26 HTTP/1.1
                Host: shop.test
                User-Agent: kneepoint/V
                Accept: */*
                Content-Type: application/x-www-form-urlencoded
                X-CSRF-TOKEN: t k+&
                Accept-Encoding: gzip
                Content-Length: 37
                Cookie: s=1

                _token=t+k%2B%26&a%26b=1+%C3%BC%2F%22"#]],
        );
        let mut json = Request::get("/");
        json.method.0 = "PUT".into();
        json.body = Some(Body::Json(r#"{"name": "{{users.name}}"}"#.into()));
        check(
            &json,
            expect![[r#"
                PUT / HTTP/1.1
                Host: shop.test
                User-Agent: kneepoint/V
                Accept: */*
                Content-Type: application/json
                Content-Length: 17
                Cookie: s=1

                {"name": "ü/\""}"#]],
        );
        check(
            &Request::get("/{{csrf}}"),
            expect![[r#"
                GET /t%20k%2B%26 HTTP/1.1
                Host: shop.test
                User-Agent: kneepoint/V
                Accept: */*
                Cookie: s=1

            "#]],
        );
    }

    #[test]
    fn fastcgi_has_the_values_in_its_parameters() {
        let target = Target::fastcgi(Address::Unix("/x".into()), "/srv/index.php", "/srv");
        let sent = written(&target, &login()).expect("every value is there");
        let sent = String::from_utf8_lossy(&sent);
        for expected in [
            "REQUEST_URI/u/%C3%BC%2F%22?t=t%20k%2B%26",
            "QUERY_STRINGt=t%20k%2B%26",
            "HTTP_X_CSRF_TOKENt k+&",
            "\u{e}\u{2}CONTENT_LENGTH37",
            "HTTP_COOKIEs=1",
            "_token=t+k%2B%26&a%26b=1+%C3%BC%2F%22",
        ] {
            assert!(sent.contains(expected), "{expected} is not in {sent:?}");
        }
    }

    #[test]
    fn what_was_not_captured_is_not_sent() {
        let sent = |path: &str| written(&http(true), &Request::get(path));
        assert_eq!(sent("/{{gone}}"), Err("Missing(\"gone\")".to_owned()));
        let mut request = Request::get("/");
        request.headers = vec![("X".into(), "{{csrf}} {{gone}}".into())];
        assert!(written(&http(true), &request).is_err());
    }

    #[test]
    fn a_body_that_is_searched_is_not_asked_for_compressed() {
        let mut request = Request::get("/");
        request.headers = vec![("Accept-Encoding".into(), "gzip".into())];
        let asks = |request: &Request| {
            let whole = template(&http(true), request).whole;
            String::from_utf8_lossy(&whole).contains("gzip")
        };
        assert!(asks(&request));
        for change in [
            (|r: &mut Request| r.expect.body_contains = vec!["x".into()]) as fn(&mut Request),
            |r| r.expect.body_lacks = vec!["x".into()],
            |r| {
                r.captures = vec![Capture {
                    name: "x".into(),
                    from: CaptureFrom::Json("/x".into()),
                }];
            },
        ] {
            let mut searched = request.clone();
            change(&mut searched);
            assert!(!asks(&searched), "{searched:?}");
        }
    }
}
