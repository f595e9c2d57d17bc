//! What is kept of a response while it streams by, whatever protocol carries it.

use crate::response::expectations::{Expectations, FailedExpectation, Marker, Place};
use std::borrow::Cow;

/// How much of a body or of a FastCGI error stream is kept to be shown.
pub(crate) const EXCERPT_BYTES: usize = 200;

/// Bytes that are not the protocol, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// What a parser made of the bytes it was fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fed {
    /// The response goes on.
    More,
    /// The response ended after this many of the bytes.
    Done(usize),
}

/// How much of a body is kept where a JSON pointer leads into it.
const LARGEST_JSON: usize = 1 << 20;
/// Longest value that is captured.
const LARGEST_VALUE: usize = 8 << 10;

/// How far a value to be captured is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Progress {
    /// Nothing of it has come.
    #[default]
    Absent,
    /// It has begun: the text behind it has not come yet.
    Begun,
    Complete,
    /// It is longer than anything that is captured.
    TooLong,
}

/// A value that is being captured, in memory that is used again.
#[derive(Debug, Default)]
struct Value {
    progress: Progress,
    bytes: Vec<u8>,
}

impl Value {
    fn set(&mut self, bytes: &[u8]) {
        self.bytes.clear();
        self.progress = Progress::TooLong;
        if bytes.len() <= LARGEST_VALUE {
            self.bytes.extend_from_slice(bytes);
            self.progress = Progress::Complete;
        }
    }

    /// Takes over the next bytes behind the start of the value, up to the text that ends it. Tells whether that came.
    fn grow(&mut self, bytes: &[u8], after: &Marker) -> bool {
        let longest = LARGEST_VALUE + after.needle().len();
        let from = self.bytes.len().saturating_sub(after.needle().len() - 1);
        let room = longest - self.bytes.len();
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        if let Some(at) = after.find(&self.bytes[from..]) {
            self.bytes.truncate(from + at);
            self.progress = Progress::Complete;
        } else if self.bytes.len() == longest {
            self.progress = Progress::TooLong;
        }
        self.progress != Progress::Begun
    }
}

/// What is known of the response that is being read. Its buffers are used again for the next one.
#[derive(Debug, Default)]
pub(crate) struct Reply<'p> {
    /// HTTP status (for FastCGI, of the `Status` header, else 200); 0 before the head is complete.
    pub(crate) status: u16,
    /// Whether the server will keep the connection.
    pub(crate) keep: bool,
    /// Values of `Set-Cookie` headers, when a session asked for them.
    pub(crate) cookies: Vec<Vec<u8>>,
    wants_cookies: bool,
    /// First bytes of the body.
    pub(crate) excerpt: Vec<u8>,
    /// First bytes of the FastCGI error stream.
    pub(crate) stderr: Vec<u8>,
    expectations: Option<&'p Expectations>,
    /// Which of the headers, then which of the markers came.
    found: Vec<bool>,
    /// One per capture; there may be more, of responses before.
    values: Vec<Value>,
    /// How many markers and values of the body are still looked for.
    missing: usize,
    body_bytes: u64,
    /// The last bytes of the pieces before, where a marker may have begun.
    tail: Vec<u8>,
    /// The body, for JSON pointers.
    json: Vec<u8>,
    /// The whole body with its largest size, for single requests.
    whole: Option<(Vec<u8>, usize)>,
    /// The headers, for single requests.
    headers: Vec<(String, String)>,
}

impl<'p> Reply<'p> {
    /// Makes ready for the next response.
    pub(crate) fn begin(&mut self, expectations: Option<&'p Expectations>, wants_cookies: bool) {
        self.status = 0;
        self.keep = false;
        self.cookies.clear();
        self.wants_cookies = wants_cookies;
        self.excerpt.clear();
        self.stderr.clear();
        self.expectations = expectations;
        let Some(expectations) = expectations else {
            return;
        };
        self.found.clear();
        self.found.resize(
            expectations.headers.len() + expectations.markers.len(),
            false,
        );
        if self.values.len() < expectations.captures.len() {
            self.values
                .resize_with(expectations.captures.len(), Value::default);
        }
        for value in &mut self.values {
            value.progress = Progress::Absent;
            value.bytes.clear();
        }
        self.missing = expectations.streamed;
        self.body_bytes = 0;
        self.tail.clear();
        self.json.clear();
    }

    /// A reply that keeps the body up to a size. What [`Self::begin`] makes it ready for keeps its own, too.
    pub(crate) fn keeping_body(limit: usize) -> Self {
        let mut reply = Self {
            whole: Some((Vec::new(), limit)),
            ..Self::default()
        };
        reply.begin(None, true);
        reply
    }

    /// The headers that were kept, in their order.
    pub(crate) fn take_headers(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.headers)
    }

    /// The body that was kept.
    pub(crate) fn take_body(&mut self) -> Vec<u8> {
        self.whole.take().map(|(body, _)| body).unwrap_or_default()
    }

    /// The first expectation but that of the status which the response does not meet. Values are not among them.
    pub(crate) fn failed_expectation(&self) -> Option<FailedExpectation> {
        let expectations = self.expectations?;
        let (headers, markers) = self.found.split_at(expectations.headers.len());
        let absent = headers
            .iter()
            .position(|found| !found)
            .map(FailedExpectation::Header);
        let wrong = || {
            let mut markers = markers.iter().enumerate();
            let wrong = markers.find(|(index, found)| **found != (*index < expectations.wanted));
            wrong.map(|(index, _)| FailedExpectation::Marker(index))
        };
        let short =
            || (self.body_bytes < expectations.min_bytes).then_some(FailedExpectation::Length);
        absent.or_else(wrong).or_else(short)
    }

    /// Hands the captured values out by their numbers, with `None` for what is not there. Tells which was the first
    /// of those. `cookie` finds the user's cookies.
    pub(crate) fn take_values<'c>(
        &mut self,
        cookie: impl Fn(&str) -> Option<&'c str>,
        mut store: impl FnMut(usize, Option<&[u8]>),
    ) -> Option<FailedExpectation> {
        let expectations = self.expectations?;
        let document: Option<serde_json::Value> = expectations
            .keeps_json
            .then(|| serde_json::from_slice(&self.json).ok())
            .flatten();
        let mut failed = None;
        for (index, rule) in expectations.captures.iter().enumerate() {
            let value = &mut self.values[index];
            match &rule.place {
                Place::Json(pointer) => {
                    let found = document.as_ref().and_then(|json| json.pointer(pointer));
                    if let Some(text) = found.and_then(scalar) {
                        value.set(text.as_bytes());
                    }
                }
                Place::Cookie(name) => {
                    if let Some(text) = cookie(name) {
                        percent_decode(text.as_bytes(), &mut self.tail);
                        value.set(&self.tail);
                    }
                }
                Place::Between(_) | Place::Header(_) => {}
            }
            let complete = value.progress == Progress::Complete;
            store(rule.number, complete.then_some(value.bytes.as_slice()));
            if !complete {
                failed = failed.or(Some(FailedExpectation::Capture(index)));
            }
        }
        failed
    }

    pub(crate) fn on_header(&mut self, name: &str, value: &[u8]) {
        if self.wants_cookies && name.eq_ignore_ascii_case("set-cookie") {
            self.cookies.push(value.to_vec());
        }
        if self.whole.is_some() {
            let value = String::from_utf8_lossy(value.trim_ascii()).into_owned();
            self.headers.push((name.to_owned(), value));
        }
        if let Some(expectations) = self.expectations {
            self.look_at_header(expectations, name, value.trim_ascii());
        }
    }

    fn look_at_header(&mut self, expectations: &Expectations, name: &str, value: &[u8]) {
        for (header, found) in expectations.headers.iter().zip(&mut self.found) {
            *found |=
                name.eq_ignore_ascii_case(&header.name) && header.contains.find(value).is_some();
        }
        for (rule, kept) in expectations.captures.iter().zip(&mut self.values) {
            if let Place::Header(wanted) = &rule.place
                && kept.progress == Progress::Absent
                && name.eq_ignore_ascii_case(wanted)
            {
                kept.set(value);
            }
        }
    }

    pub(crate) fn on_body(&mut self, bytes: &[u8]) {
        keep_start(&mut self.excerpt, bytes, EXCERPT_BYTES);
        if let Some((body, limit)) = &mut self.whole {
            keep_start(body, bytes, *limit);
        }
        if let Some(expectations) = self.expectations {
            self.body_bytes += bytes.len() as u64;
            if expectations.keeps_json {
                keep_start(&mut self.json, bytes, LARGEST_JSON);
            }
            if self.missing > 0 && !bytes.is_empty() {
                self.search(expectations, bytes);
            }
        }
    }

    pub(crate) fn on_stderr(&mut self, bytes: &[u8]) {
        keep_start(&mut self.stderr, bytes, EXCERPT_BYTES);
    }

    /// Looks into the next piece of the body, and into what it makes together with the end of the pieces before.
    fn search(&mut self, expectations: &Expectations, bytes: &[u8]) {
        let before = self.tail.len();
        self.tail
            .extend_from_slice(&bytes[..bytes.len().min(expectations.overlap)]);
        let border = if before > 0 {
            self.tail.as_slice()
        } else {
            &[]
        };
        // Where the first occurrence ends, counted in this piece. What lies wholly in the pieces before has been found.
        let end_of = |marker: &Marker| {
            let length = marker.needle().len();
            let across = marker
                .find(border)
                .map(|at| (at + length).saturating_sub(before));
            across.or_else(|| marker.find(bytes).map(|at| at + length))
        };
        let found = &mut self.found[expectations.headers.len()..];
        for (marker, found) in expectations.markers.iter().zip(found) {
            if !*found && end_of(marker).is_some() {
                *found = true;
                self.missing -= 1;
            }
        }
        for (rule, value) in expectations.captures.iter().zip(&mut self.values) {
            let Place::Between(ends) = &rule.place else {
                continue;
            };
            let rest = match value.progress {
                Progress::Absent => match end_of(&ends.before) {
                    Some(end) => &bytes[end..],
                    None => continue,
                },
                Progress::Begun => bytes,
                Progress::Complete | Progress::TooLong => continue,
            };
            value.progress = Progress::Begun;
            if value.grow(rest, &ends.after) {
                self.missing -= 1;
            }
        }
        if bytes.len() < expectations.overlap {
            let surplus = self.tail.len().saturating_sub(expectations.overlap);
            self.tail.drain(..surplus);
        } else {
            self.tail.clear();
            self.tail
                .extend_from_slice(&bytes[bytes.len() - expectations.overlap..]);
        }
    }
}

/// A JSON value that can stand in a text.
fn scalar(value: &serde_json::Value) -> Option<Cow<'_, str>> {
    match value {
        serde_json::Value::String(text) => Some(text.into()),
        serde_json::Value::Number(number) => Some(number.to_string().into()),
        serde_json::Value::Bool(true) => Some("true".into()),
        serde_json::Value::Bool(false) => Some("false".into()),
        _ => None,
    }
}

/// Decodes `%3D` and the like into a buffer that is used again; what is no such thing stays as it is.
fn percent_decode(text: &[u8], out: &mut Vec<u8>) {
    let digit = |byte: Option<&u8>| byte.and_then(|b| (*b as char).to_digit(16));
    out.clear();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match (byte, digit(text.get(at + 1)), digit(text.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

fn keep_start(kept: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let room = limit.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use kneepoint_model::VariableNames;
    use kneepoint_model::{Capture, CaptureFrom, HeaderExpectation, Request, Workload};
    use proptest::prelude::*;

    fn between(name: &str, before: &str, after: &str) -> Capture {
        Capture {
            name: name.into(),
            from: CaptureFrom::BodyBetween {
                before: before.into(),
                after: after.into(),
            },
        }
    }

    fn request(change: impl Fn(&mut Request)) -> Request {
        let mut request = Request::get("/");
        change(&mut request);
        request
    }

    /// What comes of a response with these headers and pieces of a body: what it fails, and the values.
    fn read(request: &Request, headers: &[(&str, &str)], pieces: &[&[u8]]) -> String {
        let mut workload = Workload::single("/");
        workload.requests = vec![request.clone()];
        let expectations = Expectations::new(request, &VariableNames::new(&workload));
        let mut reply = Reply::default();
        // Twice, since buffers are used again.
        for _ in 0..2 {
            reply.begin(expectations.as_ref(), true);
            for (name, value) in headers {
                reply.on_header(name, value.as_bytes());
            }
            pieces.iter().for_each(|piece| reply.on_body(piece));
        }
        let mut shown = Vec::new();
        let failed = reply.failed_expectation();
        let cookie = |name: &str| (name == "XSRF-TOKEN").then_some("a%3d%3D%zz%");
        let no_value = reply.take_values(cookie, |number, value| {
            let value = value.map(|value| String::from_utf8_lossy(value).into_owned());
            shown.push(format!("{number}={value:?}"));
        });
        let failed = failed.or(no_value).map(|failed| failed.describe(request));
        format!("{} {}", failed.unwrap_or("good".into()), shown.join(" "))
    }

    fn check(request: &Request, headers: &[(&str, &str)], body: &str, expected: Expect) {
        let pieces: Vec<&[u8]> = body.as_bytes().chunks(3).collect();
        expected.assert_eq(read(request, headers, &pieces).trim_end());
    }

    #[test]
    fn a_response_is_measured_by_what_is_expected() {
        let page = request(|r| {
            r.expect.body_contains = vec!["visits".into(), "ann".into()];
            r.expect.body_lacks = vec!["Fatal error".into()];
            r.expect.body_min_bytes = 20;
            r.expect.headers = vec![HeaderExpectation {
                name: "X-Cache".into(),
                contains: "HIT".into(),
            }];
        });
        let hit = [("x-cache", " a HIT")];
        check(&page, &hit, "ann made three visits", expect!["good"]);
        check(
            &page,
            &hit,
            "ann: Fatal error, visits: 3",
            expect![[r#"expected a body without "Fatal error""#]],
        );
        check(
            &page,
            &hit,
            "anna made three visit",
            expect![[r#"expected a body with "visits""#]],
        );
        check(
            &page,
            &hit,
            "ann: visits",
            expect!["expected a body of at least 20 bytes"],
        );
        check(
            &page,
            &[("x-cache", "MISS"), ("x-cached", "HIT")],
            "ann made three visits",
            expect![[r#"expected a header `X-Cache` with "HIT""#]],
        );
    }

    #[test]
    fn a_header_may_be_asked_for_alone() {
        let page = request(|r| {
            r.expect.headers = vec![HeaderExpectation {
                name: "ETag".into(),
                contains: String::new(),
            }];
        });
        check(&page, &[("etag", "")], "", expect!["good"]);
        check(&page, &[], "", expect!["expected a header `ETag`"]);
    }

    #[test]
    fn values_are_captured_from_every_place() {
        let from = |from| Capture {
            name: "x".into(),
            from,
        };
        let page = |capture: Capture| request(move |r| r.captures = vec![capture.clone()]);
        check(
            &page(between("csrf", "name=\"_token\" value=\"", "\"")),
            &[],
            "<input name=\"_token\" value=\"a+b&amp;\"> name=\"_token\" value=\"later\"",
            expect![[r#"good 0=Some("a+b&amp;")"#]],
        );
        check(
            &page(between("csrf", "value=\"", "\"")),
            &[],
            "value=\"open",
            expect![[r#"expected a value for {{csrf}} between `value="` and `"` 0=None"#]],
        );
        check(
            &page(from(CaptureFrom::Header("X-CSRF-Token".into()))),
            &[("x-csrf-token", " t1 "), ("X-CSRF-Token", "t2")],
            "",
            expect![[r#"good 0=Some("t1")"#]],
        );
        check(
            &page(from(CaptureFrom::Cookie("XSRF-TOKEN".into()))),
            &[],
            "",
            expect![[r#"good 0=Some("a==%zz%")"#]],
        );
        check(
            &page(from(CaptureFrom::Json("/data/0/id".into()))),
            &[],
            r#"{"data": [{"id": 17}]}"#,
            expect![[r#"good 0=Some("17")"#]],
        );
        check(
            &page(from(CaptureFrom::Json("/data".into()))),
            &[],
            r#"{"data": {}}"#,
            expect!["expected a value for {{x}} in the JSON body at `/data` 0=None"],
        );
        check(
            &page(from(CaptureFrom::Json("/a".into()))),
            &[],
            "<html>",
            expect!["expected a value for {{x}} in the JSON body at `/a` 0=None"],
        );
    }

    #[test]
    fn a_value_that_never_ends_takes_little_memory() {
        let page = request(|r| r.captures = vec![between("x", "<", ">")]);
        let fits = format!("<{}>", "v".repeat(LARGEST_VALUE));
        let whole = read(&page, &[], &[fits.as_bytes()]);
        assert!(whole.starts_with("good"), "{}", &whole[..40]);
        let long = format!("<{}>", "v".repeat(LARGEST_VALUE + 1));
        for size in [1, 7, 4096, long.len()] {
            let pieces: Vec<&[u8]> = long.as_bytes().chunks(size).collect();
            let shown = read(&page, &[], &pieces);
            assert_eq!(
                shown,
                "expected a value for {{x}} between `<` and `>` 0=None"
            );
        }
    }

    proptest! {
        /// The oracle looks at the whole body at once.
        #[test]
        fn cutting_a_body_does_not_change_what_is_found(
            body in "[ab]{0,40}", texts in prop::collection::vec("[ab]{1,6}", 1..4),
            before in "[ab]{1,4}", after in "[ab]{1,4}", cuts in prop::collection::vec(0usize..40, 0..8)
        ) {
            let page = request(|r| {
                r.expect.body_contains.clone_from(&texts);
                r.captures = vec![between("x", &before, &after)];
            });
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|c| *c <= body.len()).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &body.as_bytes()[w[0]..w[1]]).collect();
            let value = body
                .split_once(before.as_str())
                .and_then(|(_, rest)| rest.split_once(after.as_str()))
                .map(|(value, _)| value.to_owned());
            let shown = read(&page, &[], &pieces);
            prop_assert!(shown.ends_with(&format!(" 0={value:?}")), "{}", shown);
            let absent = texts.iter().find(|text| !body.contains(text.as_str()));
            match absent {
                Some(text) => {
                    let expected = format!("expected a body with {text:?}");
                    prop_assert!(shown.starts_with(&expected), "{}", shown);
                }
                None => prop_assert_eq!(shown.starts_with("good"), value.is_some()),
            }
        }

        #[test]
        fn every_split_of_a_response_captures_the_same(
            filler in "[a-z<>\"=]{0,60}", token in "[A-Za-z0-9+/]{0,40}", tail in "[a-z<>\"=]{0,30}"
        ) {
            let body = format!("{filler}value=\"{token}\"{tail}");
            let page = request(|r| {
                r.captures = vec![between("x", "value=\"", "\""), between("y", "=\"", "\"")];
                r.expect.body_lacks = vec!["\"value=\"\"".into()];
            });
            let whole = read(&page, &[], &[body.as_bytes()]);
            for at in 0..=body.len() {
                let (head, rest) = body.as_bytes().split_at(at);
                prop_assert_eq!(&read(&page, &[], &[head, rest]), &whole, "cut at {}", at);
            }
        }
    }
}
