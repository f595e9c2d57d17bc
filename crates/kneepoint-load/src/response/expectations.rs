//! What is looked for in the responses to a request: what a good one must have, and values for later requests.

use kneepoint_model::VariableNames;
use kneepoint_model::{CaptureFrom, Expect, Outcome, Request};
use memchr::memmem::Finder;

/// A text to be found in a body that comes in pieces.
pub(crate) type Marker = Finder<'static>;

fn marker(text: &str) -> Marker {
    Finder::new(text.as_bytes()).into_owned()
}

/// A header a response must have.
#[derive(Debug)]
pub(crate) struct ExpectedHeader {
    pub(crate) name: String,
    pub(crate) contains: Marker,
}

/// What stands before a value and behind it.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) before: Marker,
    pub(crate) after: Marker,
}

/// Where a value is found.
#[derive(Debug)]
pub(crate) enum Place {
    Between(Box<Ends>),
    Header(String),
    Json(String),
    Cookie(String),
}

/// A value to be captured.
#[derive(Debug)]
pub(crate) struct CaptureRule {
    /// Its number among the captured values of the workload.
    pub(crate) number: usize,
    pub(crate) place: Place,
}

/// Everything that is looked for in the responses to one request. Its lists have the order of the request's.
#[derive(Debug)]
pub(crate) struct Expectations {
    pub(crate) headers: Vec<ExpectedHeader>,
    /// What the body must contain, then what it must lack.
    pub(crate) markers: Vec<Marker>,
    /// How many of the markers must be there.
    pub(crate) wanted: usize,
    pub(crate) min_bytes: u64,
    pub(crate) captures: Vec<CaptureRule>,
    /// Whether the body is kept whole, for JSON pointers.
    pub(crate) keeps_json: bool,
    /// Bytes of a piece that may be the start of a marker that ends in the next.
    pub(crate) overlap: usize,
    /// Things in the body that are looked for as it streams by.
    pub(crate) streamed: usize,
}

/// What of its expectations a response does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedExpectation {
    Status,
    Header(usize),
    /// A marker: one that is not there, or one that must not be.
    Marker(usize),
    Length,
    Capture(usize),
}

impl FailedExpectation {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Status => Outcome::HttpError,
            _ => Outcome::WrongBody,
        }
    }

    /// What was expected, in words: `expected a body with "visits"`.
    pub(crate) fn describe(self, request: &Request) -> String {
        let expect = &request.expect;
        let wanted = expect.body_contains.len();
        match self {
            Self::Status => format!("expected {}", expect.describe_status()),
            Self::Header(index) => {
                let header = &expect.headers[index];
                let with = match header.contains.as_str() {
                    "" => String::new(),
                    text => format!(" with {text:?}"),
                };
                format!("expected a header `{}`{with}", header.name)
            }
            Self::Marker(index) if index < wanted => {
                format!("expected a body with {:?}", expect.body_contains[index])
            }
            Self::Marker(index) => format!(
                "expected a body without {:?}",
                expect.body_lacks[index - wanted]
            ),
            Self::Length => format!(
                "expected a body of at least {} bytes",
                expect.body_min_bytes
            ),
            Self::Capture(index) => {
                let capture = &request.captures[index];
                format!(
                    "expected a value for {{{{{}}}}} {}",
                    capture.name,
                    capture.from.describe()
                )
            }
        }
    }
}

impl Expectations {
    /// Compiles what a request looks for; `None` when only the status matters.
    pub(crate) fn new(request: &Request, names: &VariableNames) -> Option<Self> {
        let Expect {
            status: _,
            headers,
            body_contains,
            body_lacks,
            body_min_bytes,
        } = &request.expect;
        let rules = request.captures.iter().filter_map(|capture| {
            let place = match &capture.from {
                CaptureFrom::BodyBetween { before, after } => Place::Between(Box::new(Ends {
                    before: marker(before),
                    after: marker(after),
                })),
                CaptureFrom::Header(name) => Place::Header(name.clone()),
                CaptureFrom::Json(pointer) => Place::Json(pointer.clone()),
                CaptureFrom::Cookie(name) => Place::Cookie(name.clone()),
            };
            let number = names.captured(&capture.name)?;
            Some(CaptureRule { number, place })
        });
        let captures: Vec<CaptureRule> = rules.collect();
        let markers: Vec<Marker> = body_contains
            .iter()
            .chain(body_lacks)
            .map(|text| marker(text))
            .collect();
        let starts = captures.iter().filter_map(|rule| match &rule.place {
            Place::Between(ends) => Some(&ends.before),
            _ => None,
        });
        let between = starts.clone().count();
        let longest = markers.iter().chain(starts).map(|m| m.needle().len()).max();
        let expectations = Self {
            headers: headers
                .iter()
                .map(|header| ExpectedHeader {
                    name: header.name.clone(),
                    contains: marker(&header.contains),
                })
                .collect(),
            wanted: body_contains.len(),
            min_bytes: *body_min_bytes,
            keeps_json: captures.iter().any(|s| matches!(s.place, Place::Json(_))),
            overlap: longest.unwrap_or(0).saturating_sub(1),
            streamed: markers.len() + between,
            markers,
            captures,
        };
        let nothing = expectations.headers.is_empty()
            && expectations.markers.is_empty()
            && expectations.min_bytes == 0
            && expectations.captures.is_empty();
        (!nothing).then_some(expectations)
    }
}

/// Whether the body of a response must be readable as text: a compressed one would hide what is looked for.
pub(crate) fn reads_body(request: &Request) -> bool {
    let captured = request.captures.iter().any(|capture| {
        matches!(
            capture.from,
            CaptureFrom::BodyBetween { .. } | CaptureFrom::Json(_)
        )
    });
    captured || request.expect.reads_body()
}
