//! One face for the parsers of responses.

use crate::reply::{Fed, Malformed, Reply};

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
