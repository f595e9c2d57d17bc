//! What is kept of a response while it streams by, whatever protocol carries it.

use kneepoint_model::Outcome;
use memchr::memmem::Finder;

/// How much of a body or of a FastCGI error stream is kept to be shown.
pub(crate) const EXCERPT_BYTES: usize = 200;

/// Bytes that are not the protocol, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

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

/// What a parser made of the bytes it was fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fed {
    /// The response goes on.
    More,
    /// The response ended after this many of the bytes.
    Done(usize),
}

/// A response parser that takes bytes in whatever pieces the socket gives.
#[derive(Debug)]
pub(crate) enum Parser {
    Http(crate::http::HttpParser),
    FastCgi(crate::fastcgi::FastCgiParser),
}

impl Parser {
    /// Makes ready for the response to a request. `head` when the method was HEAD.
    pub(crate) fn begin(&mut self, head: bool) {
        match self {
            Self::Http(parser) => parser.begin(head),
            Self::FastCgi(parser) => parser.begin(),
        }
    }

    pub(crate) fn feed(&mut self, bytes: &[u8], reply: &mut Reply<'_>) -> Result<Fed, Malformed> {
        match self {
            Self::Http(parser) => parser.feed(bytes, reply),
            Self::FastCgi(parser) => parser.feed(bytes, reply),
        }
    }

    /// Whether the response is complete now that the peer has closed.
    pub(crate) fn complete_at_end(&self) -> bool {
        match self {
            Self::Http(parser) => parser.complete_at_end(),
            Self::FastCgi(_) => false,
        }
    }
}

/// A text to be found in a body that comes in pieces.
#[derive(Debug)]
pub(crate) struct Needle {
    finder: Finder<'static>,
}

impl Needle {
    pub(crate) fn new(text: &str) -> Self {
        Self {
            finder: Finder::new(text.as_bytes()).into_owned(),
        }
    }

    fn len(&self) -> usize {
        self.finder.needle().len()
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
    needle: Option<&'p Needle>,
    found: bool,
    /// The last bytes of the piece before, where a needle may have begun.
    tail: Vec<u8>,
    /// The whole body with its largest size, for single requests.
    whole: Option<(Vec<u8>, usize)>,
}

impl<'p> Reply<'p> {
    /// Makes ready for the next response.
    pub(crate) fn begin(&mut self, needle: Option<&'p Needle>, wants_cookies: bool) {
        self.status = 0;
        self.keep = false;
        self.cookies.clear();
        self.wants_cookies = wants_cookies;
        self.excerpt.clear();
        self.stderr.clear();
        self.found = needle.is_none_or(|needle| needle.len() == 0);
        self.needle = needle;
        self.tail.clear();
    }

    /// A reply that keeps the body up to a size.
    pub(crate) fn keeping_body(limit: usize) -> Self {
        let mut reply = Self {
            whole: Some((Vec::new(), limit)),
            ..Self::default()
        };
        reply.begin(None, true);
        reply
    }

    /// The body that was kept.
    pub(crate) fn take_body(&mut self) -> Vec<u8> {
        self.whole.take().map(|(body, _)| body).unwrap_or_default()
    }

    /// Whether the body held what it must.
    pub(crate) fn has_needle(&self) -> bool {
        self.found
    }

    pub(crate) fn on_header(&mut self, name: &str, value: &[u8]) {
        if self.wants_cookies && name.eq_ignore_ascii_case("set-cookie") {
            self.cookies.push(value.to_vec());
        }
    }

    pub(crate) fn on_body(&mut self, bytes: &[u8]) {
        keep_start(&mut self.excerpt, bytes, EXCERPT_BYTES);
        if let Some((body, limit)) = &mut self.whole {
            keep_start(body, bytes, *limit);
        }
        if let (false, Some(needle)) = (self.found, self.needle) {
            self.search(needle, bytes);
        }
    }

    pub(crate) fn on_stderr(&mut self, bytes: &[u8]) {
        keep_start(&mut self.stderr, bytes, EXCERPT_BYTES);
    }

    fn search(&mut self, needle: &Needle, bytes: &[u8]) {
        let overlap = needle.len() - 1;
        if !self.tail.is_empty() {
            let before = self.tail.len();
            self.tail
                .extend_from_slice(&bytes[..bytes.len().min(overlap)]);
            self.found = needle.finder.find(&self.tail).is_some();
            if bytes.len() < overlap {
                let surplus = self.tail.len().saturating_sub(overlap);
                self.tail.drain(..surplus);
                return;
            }
            self.tail.truncate(before);
        }
        self.found |= needle.finder.find(bytes).is_some();
        self.tail.clear();
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(overlap)..]);
    }
}

fn keep_start(kept: &mut Vec<u8>, bytes: &[u8], limit: usize) {
    let room = limit.saturating_sub(kept.len());
    kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found_in(pieces: &[&[u8]], text: &str) -> bool {
        let needle = Needle::new(text);
        let mut reply = Reply::default();
        reply.begin(Some(&needle), false);
        pieces.iter().for_each(|piece| reply.on_body(piece));
        reply.has_needle()
    }

    #[test]
    fn a_needle_is_found_across_pieces() {
        assert!(found_in(&[b"<p>vis", b"i", b"ts: 3"], "visits"));
        assert!(!found_in(&[b"<p>vis", b"", b"ts: 3"], "visits"));
        assert!(found_in(&[], ""));
    }

    proptest! {
        #[test]
        fn cutting_a_body_does_not_change_what_is_found(
            body in "[ab]{0,40}", text in "[ab]{1,6}", cuts in prop::collection::vec(0usize..40, 0..8)
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|c| *c <= body.len()).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &body.as_bytes()[w[0]..w[1]]).collect();
            prop_assert_eq!(found_in(&pieces, &text), body.contains(&text));
        }
    }
}
