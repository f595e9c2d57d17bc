//! HTTP/1.1 responses: heads by httparse, bodies framed here (RFC 9112, section 6). Chunks are decoded to find
//! the end and to search the text; content encodings are never undone, so bytes are counted as on the wire.

use crate::response::reply::{Fed, Malformed, Reply};
use std::mem::MaybeUninit;

/// Larger heads are not what a web server sends.
const LARGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    /// This many bytes of body are left.
    Length(u64),
    /// The body ends with the connection.
    UntilClose,
    Chunk(Chunk),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chunk {
    /// In the size; whether a digit was seen.
    Size(u64, bool),
    /// In an extension after the size.
    Extension(u64),
    /// After the CR behind the size.
    SizeEnd(u64),
    Data(u64),
    /// Before the line end behind the data.
    DataEnd,
    /// In the trailer; how many bytes its current line has.
    Trailer(u32),
}

/// Reads one response after the other, in whatever pieces they come.
#[derive(Debug)]
pub(crate) struct HttpParser {
    state: State,
    /// The start of a head whose end has not come yet.
    head: Vec<u8>,
    to_head: bool,
}

impl Default for HttpParser {
    fn default() -> Self {
        Self {
            state: State::Head,
            head: Vec::new(),
            to_head: false,
        }
    }
}

impl HttpParser {
    pub(crate) fn begin(&mut self, head: bool) {
        self.state = State::Head;
        self.head.clear();
        self.to_head = head;
    }

    /// Whether the end of the connection ends the body.
    pub(crate) fn complete_at_end(&self) -> bool {
        self.state == State::UntilClose
    }

    pub(crate) fn feed(&mut self, bytes: &[u8], reply: &mut Reply<'_>) -> Result<Fed, Malformed> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            match &mut self.state {
                State::Head => {
                    let Some(used) = self.feed_head(rest, reply)? else {
                        return Ok(Fed::More);
                    };
                    at += used;
                }
                State::Length(left) => {
                    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(rest.len());
                    reply.on_body(&rest[..take]);
                    *left -= take as u64;
                    at += take;
                    return Ok(if *left == 0 { Fed::Done(at) } else { Fed::More });
                }
                State::UntilClose => {
                    reply.on_body(rest);
                    return Ok(Fed::More);
                }
                State::Chunk(chunk) => {
                    return Ok(match feed_chunks(chunk, rest, reply)? {
                        Fed::Done(used) => Fed::Done(at + used),
                        Fed::More => Fed::More,
                    });
                }
            }
        }
    }

    /// Reads a head; `None` when it is not complete, else how many of the bytes belonged to it.
    fn feed_head(
        &mut self,
        bytes: &[u8],
        reply: &mut Reply<'_>,
    ) -> Result<Option<usize>, Malformed> {
        if self.head.is_empty() {
            if let Some(used) = self.parse_head(bytes, reply)? {
                return Ok(Some(used));
            }
            self.head.extend_from_slice(bytes);
        } else {
            let before = self.head.len();
            self.head.extend_from_slice(bytes);
            // Only a line end can complete a head.
            if memchr::memchr(b'\n', bytes).is_some() {
                let head = std::mem::take(&mut self.head);
                let parsed = self.parse_head(&head, reply);
                self.head = head;
                if let Some(used) = parsed? {
                    self.head.clear();
                    return Ok(Some(used - before));
                }
            }
        }
        if self.head.len() > LARGEST_HEAD {
            return Err(Malformed("a head of more than 64 KiB"));
        }
        Ok(None)
    }

    fn parse_head(
        &mut self,
        bytes: &[u8],
        reply: &mut Reply<'_>,
    ) -> Result<Option<usize>, Malformed> {
        let mut space = [const { MaybeUninit::uninit() }; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut []);
        let parsed = httparse::ParserConfig::default()
            .parse_response_with_uninit_headers(&mut response, bytes, &mut space)
            .map_err(|_| Malformed("not an HTTP response"))?;
        let httparse::Status::Complete(used) = parsed else {
            return Ok(None);
        };
        let status = response.code.unwrap_or(0);
        if (100..200).contains(&status) && status != 101 {
            // An interim response: the real one follows.
            return Ok(Some(used));
        }
        reply.status = status;
        let framing = read_headers(response.version == Some(1), response.headers, reply)?;
        let bodiless = self.to_head || status == 101 || status == 204 || status == 304;
        self.state = match framing {
            _ if bodiless => State::Length(0),
            Framing::Chunked => State::Chunk(Chunk::Size(0, false)),
            Framing::Length(length) => State::Length(length),
            Framing::UntilClose => {
                reply.keep = false;
                State::UntilClose
            }
        };
        Ok(Some(used))
    }
}

enum Framing {
    Chunked,
    Length(u64),
    UntilClose,
}

/// Finds how the body is framed and whether the connection persists, and hands every header on.
fn read_headers(
    http11: bool,
    headers: &[httparse::Header<'_>],
    reply: &mut Reply<'_>,
) -> Result<Framing, Malformed> {
    let mut length = None;
    let mut encoded = None;
    reply.keep = http11;
    for header in headers {
        let (name, value) = (header.name, header.value.trim_ascii());
        if name.eq_ignore_ascii_case("content-length") {
            let read = std::str::from_utf8(value)
                .ok()
                .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
                .and_then(|text| text.parse::<u64>().ok())
                .ok_or(Malformed("a Content-Length that is not a number"))?;
            if length.is_some_and(|before| before != read) {
                return Err(Malformed("two different Content-Length headers"));
            }
            length = Some(read);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            encoded = last_token(value).map(|token| token.eq_ignore_ascii_case(b"chunked"));
        } else if name.eq_ignore_ascii_case("connection") {
            for token in value.split(|&b| b == b',') {
                let token = token.trim_ascii();
                if token.eq_ignore_ascii_case(b"close") {
                    reply.keep = false;
                } else if token.eq_ignore_ascii_case(b"keep-alive") {
                    reply.keep = true;
                }
            }
        }
        reply.on_header(name, value);
    }
    Ok(match (encoded, length) {
        (Some(true), _) => Framing::Chunked,
        (Some(false), _) | (None, None) => Framing::UntilClose,
        (None, Some(length)) => Framing::Length(length),
    })
}

fn last_token(value: &[u8]) -> Option<&[u8]> {
    value.rsplit(|&b| b == b',').next().map(<[u8]>::trim_ascii)
}

fn feed_chunks(chunk: &mut Chunk, bytes: &[u8], reply: &mut Reply<'_>) -> Result<Fed, Malformed> {
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if let Chunk::Data(left) = chunk {
            let take = usize::try_from(*left)
                .unwrap_or(usize::MAX)
                .min(bytes.len() - at);
            reply.on_body(&bytes[at..at + take]);
            *left -= take as u64;
            at += take;
            if *left == 0 {
                *chunk = Chunk::DataEnd;
            }
            continue;
        }
        at += 1;
        *chunk = match (*chunk, byte) {
            (Chunk::Trailer(0), b'\n') => return Ok(Fed::Done(at)),
            (state, byte) => next_chunk_state(state, byte)?,
        };
    }
    Ok(Fed::More)
}

fn next_chunk_state(state: Chunk, byte: u8) -> Result<Chunk, Malformed> {
    let after_size = |size| match size {
        0 => Chunk::Trailer(0),
        size => Chunk::Data(size),
    };
    Ok(match (state, byte) {
        (Chunk::Size(size, _), digit) if digit.is_ascii_hexdigit() => {
            let value = (digit as char).to_digit(16).unwrap_or(0);
            let size = size
                .checked_mul(16)
                .ok_or(Malformed("a chunk size that is too large"))?;
            Chunk::Size(size + u64::from(value), true)
        }
        (Chunk::Size(size, true), b';' | b' ' | b'\t') => Chunk::Extension(size),
        (Chunk::Size(size, true) | Chunk::Extension(size), b'\r') => Chunk::SizeEnd(size),
        (Chunk::Size(size, true) | Chunk::Extension(size) | Chunk::SizeEnd(size), b'\n') => {
            after_size(size)
        }
        (Chunk::Extension(size), _) => Chunk::Extension(size),
        (Chunk::DataEnd, b'\r') => Chunk::DataEnd,
        (Chunk::DataEnd, b'\n') => Chunk::Size(0, false),
        // A CR alone leaves a line empty: only CRLF or LF after nothing ends the trailer.
        (Chunk::Trailer(length), b'\r') => Chunk::Trailer(length),
        (Chunk::Trailer(_), b'\n') => Chunk::Trailer(0),
        (Chunk::Trailer(length), _) if length < LARGEST_HEAD as u32 => Chunk::Trailer(length + 1),
        _ => return Err(Malformed("a chunk that is not framed as one")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::expectations::Expectations;
    use expect_test::{Expect, expect};
    use kneepoint_model::VariableNames;
    use kneepoint_model::{Capture, CaptureFrom, Workload};
    use proptest::prelude::*;

    /// Reads a response in pieces of every size and shows what came of it, which must not depend on the size.
    fn check(method_is_head: bool, wire: &str, expected: Expect) {
        let shown: Vec<String> = (1..=wire.len())
            .map(|size| read(method_is_head, wire.as_bytes(), size))
            .collect();
        assert!(
            shown.iter().all(|s| *s == shown[0]),
            "pieces matter: {shown:?}"
        );
        expected.assert_eq(&shown[0]);
    }

    fn read(head: bool, wire: &[u8], size: usize) -> String {
        let mut parser = HttpParser::default();
        let mut reply = Reply::keeping_body(1 << 20);
        parser.begin(head);
        let mut seen = 0;
        for piece in wire.chunks(size) {
            match parser.feed(piece, &mut reply) {
                Ok(Fed::More) => seen += piece.len(),
                Ok(Fed::Done(used)) => {
                    let rest = wire.len() - seen - used;
                    let (status, keep) = (reply.status, reply.keep);
                    let body = String::from_utf8_lossy(&reply.take_body()).into_owned();
                    return format!("{status} keep={keep} body={body:?} rest={rest}");
                }
                Err(Malformed(why)) => return format!("malformed: {why}"),
            }
        }
        let end = parser.complete_at_end();
        let body = String::from_utf8_lossy(&reply.take_body()).into_owned();
        format!("open {} body={body:?} complete at end={end}", reply.status)
    }

    #[test]
    fn bodies_end_where_the_protocol_says() {
        check(
            false,
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello!",
            expect![[r#"200 keep=true body="hello" rest=1"#]],
        );
        check(
            false,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\nContent-Length: 1\r\n\r\n\
             5;x=y\r\nhello\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n",
            expect![[r#"200 keep=true body="hello!" rest=0"#]],
        );
        check(
            false,
            "HTTP/1.1 200 OK\r\nConnection: Close\r\n\r\nall of it",
            expect![[r#"open 200 body="all of it" complete at end=true"#]],
        );
        check(
            false,
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            expect![[r#"open 200 body="half" complete at end=false"#]],
        );
    }

    #[test]
    fn some_responses_have_no_body() {
        for status in ["204 No Content", "304 Not Modified"] {
            let wire = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
            let code = &status[..3];
            assert_eq!(
                read(false, wire.as_bytes(), 7),
                format!("{code} keep=true body=\"\" rest=0")
            );
        }
        check(
            true,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            expect![[r#"200 keep=true body="" rest=0"#]],
        );
    }

    #[test]
    fn interim_responses_are_passed_over() {
        check(
            false,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            expect![[r#"200 keep=true body="ok" rest=0"#]],
        );
    }

    #[test]
    fn persistence_depends_on_the_version() {
        check(
            false,
            "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
            expect![[r#"200 keep=false body="" rest=0"#]],
        );
        check(
            false,
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
            expect![[r#"200 keep=true body="" rest=0"#]],
        );
    }

    #[test]
    fn what_is_not_http_is_malformed() {
        check(
            false,
            "+PONG\r\n",
            expect!["malformed: not an HTTP response"],
        );
        check(
            false,
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            expect!["malformed: two different Content-Length headers"],
        );
        check(
            false,
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\n",
            expect!["malformed: a Content-Length that is not a number"],
        );
        check(
            false,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
            expect!["malformed: a chunk that is not framed as one"],
        );
        check(
            false,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
            expect!["malformed: a chunk size that is too large"],
        );
    }

    /// A value that is captured from a response, which comes in two pieces.
    fn captured(wire: &[u8], cut: usize) -> Option<String> {
        let mut workload = Workload::single("/");
        workload.requests[0].captures = vec![Capture {
            name: "csrf".into(),
            from: CaptureFrom::BodyBetween {
                before: "value=\"".into(),
                after: "\"".into(),
            },
        }];
        let expectations = Expectations::new(&workload.requests[0], &VariableNames::new(&workload));
        let (mut parser, mut reply) = (HttpParser::default(), Reply::default());
        parser.begin(false);
        reply.begin(expectations.as_ref(), true);
        let (head, rest) = wire.split_at(cut);
        let fed = parser.feed(head, &mut reply);
        if fed == Ok(Fed::More) {
            assert_eq!(parser.feed(rest, &mut reply), Ok(Fed::Done(rest.len())));
        }
        let mut value = None;
        reply.take_values(
            |_| None,
            |_, bytes| value = bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
        );
        value
    }

    proptest! {
        #[test]
        fn every_split_of_a_chunked_response_captures_the_same(
            before in "[a-z<>=\"]{0,20}", token in "[A-Za-z0-9]{1,40}", sizes in prop::collection::vec(1usize..9, 1..20)
        ) {
            let body = format!("{before}<input value=\"{token}\">");
            let expected = body
                .split_once("value=\"")
                .and_then(|(_, rest)| rest.split_once('"'))
                .map(|(value, _)| value.to_owned());
            let mut wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
            let mut rest = body.as_bytes();
            for size in sizes.iter().cycle() {
                let (chunk, after) = rest.split_at(rest.len().min(*size));
                wire.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                wire.extend_from_slice(chunk);
                wire.extend_from_slice(b"\r\n");
                rest = after;
                if chunk.is_empty() {
                    break;
                }
            }
            for cut in 0..=wire.len() {
                prop_assert_eq!(&captured(&wire, cut), &expected, "cut at {}", cut);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(wire in any::<Vec<u8>>(), size in 1usize..50) {
            read(false, &wire, size);
        }

        #[test]
        fn no_nearly_right_bytes_make_it_panic(
            head in "HTTP/1.[01] [0-9]{3} ?(\r\n(Content-Length|Transfer-Encoding|Connection): ?([0-9]{1,22}|chunked|close)){0,3}\r\n\r\n",
            body in "[0-9a-f\r\n; ]{0,60}", size in 1usize..50
        ) {
            let wire = format!("{head}{body}");
            prop_assert_eq!(read(false, wire.as_bytes(), size), read(false, wire.as_bytes(), wire.len()));
        }
    }
}
