//! One face for the parsers of responses.

use crate::plan::Target;
use crate::response::fastcgi::FastCgiParser;
use crate::response::http1::HttpParser;
use crate::response::reply::{Fed, Malformed, Reply};

/// A response parser that takes bytes in whatever pieces the socket gives.
#[derive(Debug)]
pub(crate) enum Parser {
    Http(HttpParser),
    FastCgi(FastCgiParser),
}

impl Parser {
    /// A parser for what a target answers.
    pub(crate) fn of(target: &Target) -> Self {
        match target {
            Target::Http { .. } => Self::Http(HttpParser::default()),
            Target::FastCgi { keep_conn, .. } => Self::FastCgi(FastCgiParser::new(*keep_conn)),
        }
    }

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
