//! Responses: parsed, searched, judged against what is expected, read as pages.

mod excerpt;
mod expectations;
pub(crate) mod fastcgi;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod http1;
mod page;
mod parser;
mod reply;

pub(crate) use excerpt::{printable, readable};
pub(crate) use expectations::{Expectations, FailedExpectation, reads_body};
#[cfg(test)]
pub(crate) use http1::HttpParser;
pub use page::{ErrorPage, Page, resolve_link};
pub(crate) use parser::Parser;
pub(crate) use reply::{EXCERPT_BYTES, Fed, Malformed, Reply};
