//! FastCGI 1.0 as a web server speaks it: one request at a time on a connection, as PHP-FPM serves them.

use crate::response::reply::{Fed, Malformed, Reply};
use kneepoint_model::Outcome;

const VERSION: u8 = 1;
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const ROLE_RESPONDER: u8 = 1;
const KEEP_CONN: u8 = 1;
/// The only request on its connection: FPM does not multiplex.
const REQUEST_ID: u16 = 1;
const HEADER_BYTES: usize = 8;
const LARGEST_RECORD: usize = 65_528;
const LARGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;

impl Malformed {
    /// A FastCGI server that refuses in words what others refuse by not accepting the connection.
    pub(crate) const OVERLOADED: Self = Self(
        "the FastCGI server says it is overloaded; raise how many requests it takes at a time",
    );

    /// How the request ends.
    pub(crate) fn outcome(self) -> Outcome {
        if self == Self::OVERLOADED {
            Outcome::Refused
        } else {
            Outcome::Protocol
        }
    }
}

/// Appends a stream's content as records; nothing for empty content (which would end the stream).
fn push_records(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    for piece in content.chunks(LARGEST_RECORD) {
        push_header(out, kind, piece.len());
        out.extend_from_slice(piece);
    }
}

fn push_header(out: &mut Vec<u8>, kind: u8, length: usize) {
    let [id_high, id_low] = REQUEST_ID.to_be_bytes();
    let [length_high, length_low] = (length as u16).to_be_bytes();
    out.extend_from_slice(&[
        VERSION,
        kind,
        id_high,
        id_low,
        length_high,
        length_low,
        0,
        0,
    ]);
}

fn push_pair(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for length in [name.len(), value.len()] {
        match u8::try_from(length) {
            Ok(short) if short < 0x80 => out.push(short),
            _ => out.extend_from_slice(&(length as u32 | 0x8000_0000).to_be_bytes()),
        }
    }
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value);
}

/// Appends the start of a request with its parameters, leaving the parameters open for more.
pub(crate) fn push_request(out: &mut Vec<u8>, keep_conn: bool, params: &[(String, String)]) {
    push_header(out, BEGIN_REQUEST, 8);
    let flags = if keep_conn { KEEP_CONN } else { 0 };
    out.extend_from_slice(&[0, ROLE_RESPONDER, flags, 0, 0, 0, 0, 0]);
    push_params(out, params);
}

fn push_params(out: &mut Vec<u8>, params: &[(String, String)]) {
    let mut pairs = Vec::new();
    for (name, value) in params {
        push_pair(&mut pairs, name, value.as_bytes());
    }
    push_records(out, PARAMS, &pairs);
}

/// Appends one more parameter, without allocating where one record holds it.
pub(crate) fn push_param(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    // Two lengths of at most four bytes.
    if name.len() + value.len() + 8 > LARGEST_RECORD {
        let mut pair = Vec::new();
        push_pair(&mut pair, name, value);
        return push_records(out, PARAMS, &pair);
    }
    let header_at = out.len();
    push_header(out, PARAMS, 0);
    push_pair(out, name, value);
    let length = (out.len() - header_at - HEADER_BYTES) as u16;
    out[header_at + 4..header_at + 6].copy_from_slice(&length.to_be_bytes());
}

/// Appends the end of the parameters and the body.
pub(crate) fn push_body(out: &mut Vec<u8>, body: &[u8]) {
    push_header(out, PARAMS, 0);
    push_records(out, STDIN, body);
    push_header(out, STDIN, 0);
}

/// Where in the stream of records the parser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In a record's header, of which this many bytes are there.
    Header(usize),
    /// In a record's content: its kind, and how much of it and of the padding is left.
    Content {
        kind: u8,
        left: u16,
        padding: u8,
    },
    Padding(u8),
}

/// Reads the records of one response after the other, in whatever pieces they come.
#[derive(Debug)]
pub(crate) struct FastCgiParser {
    state: State,
    header: [u8; HEADER_BYTES],
    keep_conn: bool,
    /// The CGI head, until it is complete.
    head: Vec<u8>,
    in_body: bool,
    /// The body of END_REQUEST, and how much of it is there.
    end: [u8; 8],
    end_len: usize,
}

impl FastCgiParser {
    /// A parser for connections that asked to be kept, or not.
    pub(crate) fn new(keep_conn: bool) -> Self {
        Self {
            state: State::Header(0),
            header: [0; HEADER_BYTES],
            keep_conn,
            head: Vec::new(),
            in_body: false,
            end: [0; 8],
            end_len: 0,
        }
    }

    pub(crate) fn begin(&mut self) {
        self.state = State::Header(0);
        self.head.clear();
        self.in_body = false;
        self.end_len = 0;
    }

    pub(crate) fn feed(&mut self, bytes: &[u8], reply: &mut Reply<'_>) -> Result<Fed, Malformed> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match self.state {
                State::Header(have) => {
                    let take = rest.len().min(HEADER_BYTES - have);
                    self.header[have..have + take].copy_from_slice(&rest[..take]);
                    at += take;
                    self.state = State::Header(have + take);
                    if have + take == HEADER_BYTES {
                        self.open_record()?;
                    }
                }
                State::Content {
                    kind,
                    left,
                    padding,
                } => {
                    let take = rest.len().min(usize::from(left));
                    self.on_content(kind, &rest[..take], reply)?;
                    at += take;
                    let left = left - take as u16;
                    self.state = State::Content {
                        kind,
                        left,
                        padding,
                    };
                    if left == 0 {
                        self.state = State::Padding(padding);
                    }
                }
                State::Padding(left) => {
                    let take = rest.len().min(usize::from(left));
                    at += take;
                    self.state = State::Padding(left - take as u8);
                }
            }
            if self.state == State::Padding(0) {
                self.state = State::Header(0);
                if self.header[1] == END_REQUEST {
                    return self.finish(reply).map(|()| Fed::Done(at));
                }
            }
        }
        Ok(Fed::More)
    }

    fn open_record(&mut self) -> Result<(), Malformed> {
        let [
            version,
            kind,
            id_high,
            id_low,
            length_high,
            length_low,
            padding,
            _,
        ] = self.header;
        if version != VERSION {
            return Err(Malformed("not a FastCGI record"));
        }
        if u16::from_be_bytes([id_high, id_low]) != REQUEST_ID {
            return Err(Malformed("a FastCGI record of another request"));
        }
        let left = u16::from_be_bytes([length_high, length_low]);
        self.state = if left == 0 {
            State::Padding(padding)
        } else {
            State::Content {
                kind,
                left,
                padding,
            }
        };
        Ok(())
    }

    fn on_content(
        &mut self,
        kind: u8,
        bytes: &[u8],
        reply: &mut Reply<'_>,
    ) -> Result<(), Malformed> {
        match kind {
            STDOUT if self.in_body => reply.on_body(bytes),
            STDOUT => self.on_head(bytes, reply)?,
            STDERR => reply.on_stderr(bytes),
            END_REQUEST => {
                let take = bytes.len().min(self.end.len() - self.end_len);
                self.end[self.end_len..self.end_len + take].copy_from_slice(&bytes[..take]);
                self.end_len += take;
            }
            _ => return Err(Malformed("a FastCGI record that no application sends")),
        }
        Ok(())
    }

    fn on_head(&mut self, bytes: &[u8], reply: &mut Reply<'_>) -> Result<(), Malformed> {
        let before = self.head.len();
        self.head.extend_from_slice(bytes);
        if memchr::memchr(b'\n', bytes).is_some() {
            let mut space = [httparse::EMPTY_HEADER; MOST_HEADERS];
            let parsed = httparse::parse_headers(&self.head, &mut space)
                .map_err(|_| Malformed("not a CGI head"))?;
            if let httparse::Status::Complete((used, headers)) = parsed {
                reply.status = read_status(headers)?;
                headers
                    .iter()
                    .for_each(|h| reply.on_header(h.name, h.value));
                self.in_body = true;
                reply.on_body(&bytes[used - before..]);
                return Ok(());
            }
        }
        if self.head.len() > LARGEST_HEAD {
            return Err(Malformed("a head of more than 64 KiB"));
        }
        Ok(())
    }

    /// Judges END_REQUEST: its fifth byte is the protocol status.
    fn finish(&self, reply: &mut Reply<'_>) -> Result<(), Malformed> {
        match (self.end_len, self.end[4]) {
            (8, 0) if self.in_body => {
                reply.keep = self.keep_conn;
                Ok(())
            }
            (8, 0) => Err(Malformed("a FastCGI response without a head")),
            (8, 1) => Err(Malformed(
                "the FastCGI server says it cannot multiplex, which was not asked of it",
            )),
            (8, 2) => Err(Malformed::OVERLOADED),
            (8, 3) => Err(Malformed(
                "the FastCGI server does not play the role of a responder; check that it runs PHP",
            )),
            _ => Err(Malformed("a FastCGI end that is not one")),
        }
    }
}

/// The status of a CGI head: 200 without a `Status` header, 302 with a `Location` alone (RFC 3875, 6.2).
fn read_status(headers: &[httparse::Header<'_>]) -> Result<u16, Malformed> {
    let find = |name: &str| {
        headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case(name))
    };
    match (find("status"), find("location")) {
        (Some(status), _) => status
            .value
            .get(..3)
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| code.parse().ok())
            .ok_or(Malformed("a Status that is not a number")),
        (None, Some(_)) => Ok(302),
        (None, None) => Ok(200),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let mut out = Vec::new();
        push_header(&mut out, kind, content.len());
        out[6] = padding;
        out.extend_from_slice(content);
        out.extend(std::iter::repeat_n(0, usize::from(padding)));
        out
    }

    fn end(protocol_status: u8) -> Vec<u8> {
        record(END_REQUEST, &[0, 0, 0, 0, protocol_status, 0, 0, 0], 0)
    }

    fn read(wire: &[u8], size: usize) -> String {
        let mut parser = FastCgiParser::new(true);
        let mut reply = Reply::keeping_body(1 << 20);
        parser.begin();
        let mut seen = 0;
        for piece in wire.chunks(size) {
            match parser.feed(piece, &mut reply) {
                Ok(Fed::More) => seen += piece.len(),
                Ok(Fed::Done(used)) => {
                    let rest = wire.len() - seen - used;
                    let stderr = String::from_utf8_lossy(&reply.stderr).into_owned();
                    let body = String::from_utf8_lossy(&reply.take_body()).into_owned();
                    return format!(
                        "{} keep={} body={body:?} stderr={stderr:?} rest={rest}",
                        reply.status, reply.keep
                    );
                }
                Err(Malformed(why)) => return format!("malformed: {why}"),
            }
        }
        format!("open {}", reply.status)
    }

    /// Reads records in pieces of every size and shows what came of them, which must not depend on the size.
    fn check(wire: &[Vec<u8>], expected: Expect) {
        let wire = wire.concat();
        let shown: Vec<String> = (1..=wire.len()).map(|size| read(&wire, size)).collect();
        assert!(
            shown.iter().all(|s| *s == shown[0]),
            "pieces matter: {shown:?}"
        );
        expected.assert_eq(&shown[0]);
    }

    #[test]
    fn responses_are_read_from_records() {
        check(
            &[
                record(STDERR, b"PHP message: oh", 1),
                record(STDOUT, b"Status: 404 Not Found\r\nX-A: b\r", 0),
                record(STDOUT, b"\n\r\nnot ", 7),
                record(STDOUT, b"here", 0),
                record(STDOUT, b"", 0),
                end(0),
                b"x".to_vec(),
            ],
            expect![[r#"404 keep=true body="not here" stderr="PHP message: oh" rest=1"#]],
        );
        check(
            &[
                record(STDOUT, b"Content-type: text/html\r\n\r\nhi", 0),
                end(0),
            ],
            expect![[r#"200 keep=true body="hi" stderr="" rest=0"#]],
        );
        check(
            &[record(STDOUT, b"Location: /x\r\n\r\n", 0), end(0)],
            expect![[r#"302 keep=true body="" stderr="" rest=0"#]],
        );
        check(&[record(STDOUT, b"A: b\r\n\r\n", 0)], expect!["open 200"]);
    }

    #[test]
    fn what_is_not_fastcgi_is_malformed() {
        check(
            &[b"HTTP/1.1 200 OK".to_vec()],
            expect!["malformed: not a FastCGI record"],
        );
        check(
            &[end(1)],
            expect![
                "malformed: the FastCGI server says it cannot multiplex, which was not asked of it"
            ],
        );
        check(
            &[end(2)],
            expect![
                "malformed: the FastCGI server says it is overloaded; raise how many requests it takes at a time"
            ],
        );
        check(
            &[end(3)],
            expect![
                "malformed: the FastCGI server does not play the role of a responder; check that it runs PHP"
            ],
        );
        let mut other = record(STDOUT, b"A: b\r\n\r\n", 0);
        other[3] = 2;
        check(
            &[other],
            expect!["malformed: a FastCGI record of another request"],
        );
        check(
            &[end(0)],
            expect!["malformed: a FastCGI response without a head"],
        );
        check(
            &[record(BEGIN_REQUEST, b"12345678", 0)],
            expect!["malformed: a FastCGI record that no application sends"],
        );
    }

    #[test]
    fn long_values_and_bodies_are_split_into_records() {
        let mut out = Vec::new();
        push_request(&mut out, true, &[("A".into(), "v".repeat(70_000))]);
        push_param(&mut out, "B", b"short");
        push_param(&mut out, "C", "v".repeat(LARGEST_RECORD).as_bytes());
        push_body(&mut out, &[b'x'; 70_000]);
        let mut kinds = Vec::new();
        let mut rest = out.as_slice();
        while let [_, kind, _, _, high, low, padding, _, tail @ ..] = rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            kinds.push((*kind, length));
            rest = &tail[length + usize::from(*padding)..];
        }
        assert_eq!(
            kinds,
            [
                (BEGIN_REQUEST, 8),
                (PARAMS, LARGEST_RECORD),
                (PARAMS, 70_000 + 6 - LARGEST_RECORD),
                (PARAMS, 8),
                (PARAMS, LARGEST_RECORD),
                (PARAMS, 6),
                (PARAMS, 0),
                (STDIN, LARGEST_RECORD),
                (STDIN, 70_000 - LARGEST_RECORD),
                (STDIN, 0),
            ]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(wire in any::<Vec<u8>>(), size in 1usize..50) {
            read(&wire, size);
        }

        #[test]
        fn no_nearly_right_records_make_it_panic(
            records in prop::collection::vec((0u8..9, any::<Vec<u8>>(), any::<u8>()), 0..6), size in 1usize..50
        ) {
            let wire: Vec<u8> = records.iter().flat_map(|(k, c, p)| record(*k, c, *p)).collect();
            prop_assume!(!wire.is_empty());
            prop_assert_eq!(read(&wire, size), read(&wire, wire.len()));
        }
    }
}
