//! What the fuzz targets of `fuzz/` call, with the properties that must hold for any bytes whatever.
//!
//! The parsers are nobody's business outside this crate, so their doors for fuzzing open only in tests and with the
//! feature `fuzzing`, which nothing but `fuzz/` asks for.
//!
//! An input begins with a byte whose lower three bits say how many of the next bytes are sizes of pieces and whose
//! fourth bit is a flag; the rest is what a server sends.

use crate::response::fastcgi::FastCgiParser;
use crate::response::http1::HttpParser;
use crate::response::parser::Parser;
use crate::response::reply::{Fed, Reply};

/// Largest body that is compared.
const LARGEST_BODY: usize = 1 << 20;

/// Reads an HTTP/1.1 response; the flag says whether it answers a HEAD.
///
/// # Panics
/// The result depends on how the bytes were cut into pieces, or the parser claims bytes it was not given.
pub fn http_response(input: &[u8]) {
    if let Some(case) = Case::read(input) {
        case.hold(Parser::Http(HttpParser::default()));
    }
}

/// Reads the FastCGI records of a response; the flag says whether the connection was to be kept.
///
/// # Panics
/// The result depends on how the bytes were cut into pieces, or the parser claims bytes it was not given.
pub fn fastcgi_response(input: &[u8]) {
    if let Some(case) = Case::read(input) {
        case.hold(Parser::FastCgi(FastCgiParser::new(case.flag)));
    }
}

struct Case<'a> {
    flag: bool,
    sizes: &'a [u8],
    wire: &'a [u8],
}

/// How a reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// With the response, after so many bytes.
    Done(usize),
    /// With the bytes; whether the end of the connection would complete the response.
    Open(bool),
    Malformed,
}

#[derive(Debug, PartialEq, Eq)]
struct Reading {
    end: End,
    status: u16,
    keep: bool,
    body: Vec<u8>,
    stderr: Vec<u8>,
}

impl<'a> Case<'a> {
    fn read(input: &'a [u8]) -> Option<Self> {
        let (first, rest) = input.split_first()?;
        let (sizes, wire) = rest.split_at_checked(usize::from(first & 7))?;
        Some(Self {
            flag: first & 8 != 0,
            sizes,
            wire,
        })
    }

    /// Reads the bytes whole, in the pieces asked for and one by one, all with the same parser.
    fn hold(&self, mut parser: Parser) -> Reading {
        let whole = self.reading(&mut parser, &[]);
        for sizes in [self.sizes, &[1]] {
            let pieces = self.reading(&mut parser, sizes);
            assert!(
                agree(&whole, &pieces),
                "whole: {whole:?}\nin pieces of {sizes:?}: {pieces:?}"
            );
        }
        whole
    }

    /// Reads the bytes in pieces of these sizes, over and over; without any, whole.
    fn reading(&self, parser: &mut Parser, sizes: &[u8]) -> Reading {
        let mut reply = Reply::keeping_body(LARGEST_BODY);
        parser.begin(self.flag);
        let mut sizes = sizes.iter().cycle();
        let mut at = 0;
        let end = loop {
            let rest = &self.wire[at..];
            if rest.is_empty() {
                break End::Open(parser.complete_at_end());
            }
            let size = sizes.next().map_or(rest.len(), |size| usize::from(*size));
            let piece = &rest[..size.clamp(1, rest.len())];
            match parser.feed(piece, &mut reply) {
                Ok(Fed::More) => at += piece.len(),
                Ok(Fed::Done(used)) => {
                    assert!(
                        used <= piece.len(),
                        "{used} bytes used of the {} given",
                        piece.len()
                    );
                    break End::Done(at + used);
                }
                Err(_) => break End::Malformed,
            }
        };
        Reading {
            end,
            status: reply.status,
            keep: reply.keep,
            stderr: std::mem::take(&mut reply.stderr),
            body: reply.take_body(),
        }
    }
}

/// Two readings of the same bytes. A head is looked at when a line of it is complete, so that what is wrong in it
/// may be seen sooner in larger pieces; a response that is complete in one reading is so in all.
fn agree(a: &Reading, b: &Reading) -> bool {
    match (a.end, b.end) {
        (End::Malformed, End::Malformed) => true,
        (End::Malformed, End::Open(_)) => b.status == 0,
        (End::Open(_), End::Malformed) => a.status == 0,
        _ => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Every seed of a fuzz target holds, and most of them are whole responses: a corpus of refuse finds nothing.
    fn check(target: &str, parser: fn(&Case<'_>) -> Parser) {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let seeds = fs::read_dir(dir.join(target)).expect("the corpus");
        let mut ends = Vec::new();
        for seed in seeds {
            let bytes = fs::read(seed.expect("a file").path()).expect("readable");
            let case = Case::read(&bytes).expect("a seed has its sizes");
            ends.push(case.hold(parser(&case)).end);
        }
        let whole = ends.iter().filter(|end| **end != End::Malformed).count();
        assert!(ends.len() >= 8 && whole * 2 > ends.len(), "{ends:?}");
    }

    #[test]
    fn the_seeds_hold() {
        check("http_response", |_| Parser::Http(HttpParser::default()));
        check("fastcgi_record", |case| {
            Parser::FastCgi(FastCgiParser::new(case.flag))
        });
    }

    #[test]
    fn an_input_says_how_it_is_cut() {
        let case = Case::read(b"\x0a\x01\x02abc").expect("complete");
        assert_eq!(
            (case.flag, case.sizes, case.wire),
            (true, &[1, 2][..], &b"abc"[..])
        );
        assert!(Case::read(b"").is_none() && Case::read(b"\x02\x01").is_none());
        for input in [
            &b""[..],
            b"\x01",
            b"\x00HTTP/1.1 200 OK\r\n\r\n",
            b"\x00\x01\x06",
        ] {
            http_response(input);
            fastcgi_response(input);
        }
    }

    #[test]
    fn a_difference_is_one_unless_a_head_is_open() {
        let reading = |end, status| Reading {
            end,
            status,
            keep: false,
            body: Vec::new(),
            stderr: Vec::new(),
        };
        let malformed = reading(End::Malformed, 0);
        assert!(agree(&malformed, &reading(End::Open(false), 0)));
        assert!(!agree(&malformed, &reading(End::Open(false), 200)));
        assert!(!agree(&malformed, &reading(End::Done(3), 200)));
        assert!(!agree(
            &reading(End::Done(2), 200),
            &reading(End::Done(3), 200)
        ));
    }
}
