//! What is asked of the stack, and when the answer counts as good.

pub mod body;
pub mod expectation;
mod names;
pub mod schedule;
mod sendable;
pub mod session;
pub mod variables;

pub use names::{REQUEST_ID, ValueSource, VariableNames};
pub use sendable::{Unsendable, check_request, check_workload};

use body::{Body, PartContent};
use expectation::Expect;
use serde::{Deserialize, Serialize};
use session::Sessions;
use std::time::Duration;
use variables::{Capture, Feeder, variables};

/// An HTTP method, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Method(pub String);

impl Default for Method {
    fn default() -> Self {
        Self("GET".into())
    }
}

/// One kind of request in the mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Name by which sessions refer to it; `None` when none does.
    #[serde(default)]
    pub name: Option<String>,
    /// Path with query string. Variables in it are put in percent-encoded.
    pub path: String,
    /// Share of the mix, relative to the other weights.
    pub weight: f64,
    /// Method.
    pub method: Method,
    /// Extra headers, name and value. Values may hold variables.
    pub headers: Vec<(String, String)>,
    /// What it carries.
    pub body: Option<Body>,
    /// What a good response is.
    pub expect: Expect,
    /// Whether the request carries a user's cookie jar. One that captures values or needs captured ones always does.
    pub session: bool,
    /// Values taken from its response, for later requests of the same user.
    #[serde(default)]
    pub captures: Vec<Capture>,
    /// What the line of the client who asks for it carries, in Mbit/s; `None` takes its response as fast as it comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_mbit: Option<f64>,
}

impl Request {
    /// A plain GET of a path with weight 1.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            weight: 1.0,
            method: Method::default(),
            headers: Vec::new(),
            body: None,
            expect: Expect::default(),
            session: false,
            captures: Vec::new(),
            client_mbit: None,
            name: None,
        }
    }

    /// The names of the variables it needs, in the order they stand in it, as often as they do.
    #[must_use]
    pub fn variables(&self) -> Vec<&str> {
        let mut texts = vec![self.path.as_str()];
        texts.extend(self.headers.iter().map(|(_, value)| value.as_str()));
        match &self.body {
            Some(Body::Text(text) | Body::Json(text)) => texts.push(text),
            Some(Body::Form(fields)) => {
                texts.extend(fields.iter().map(|(_, value)| value.as_str()));
            }
            Some(Body::Multipart(parts)) => {
                texts.extend(parts.iter().filter_map(|part| match &part.content {
                    PartContent::Value(text) => Some(text.as_str()),
                    PartContent::File(_) => None,
                }));
            }
            Some(Body::File(_) | Body::Bytes(_)) | None => {}
        }
        texts.into_iter().flat_map(variables).collect()
    }
}

/// The mix of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The requests with their weights; never empty.
    pub requests: Vec<Request>,
    /// How many users' cookie jars take turns for requests with `session`; visitors each have their own.
    pub users: u32,
    /// Visitors who make several requests each; `None` makes every request stand for itself.
    #[serde(default)]
    pub sessions: Option<Sessions>,
    /// Tables that variables take their values from.
    #[serde(default)]
    pub feeders: Vec<Feeder>,
}

impl Workload {
    /// A workload of one plain GET.
    #[must_use]
    pub fn single(path: &str) -> Self {
        Self {
            requests: vec![Request::get(path)],
            users: 100,
            sessions: None,
            feeders: Vec::new(),
        }
    }
}

/// When the stack counts as coping: timeout, response-time quantile, error share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slo {
    /// A request that takes longer from its intended start is ended and counts as failed.
    pub timeout: Duration,
    /// The quantile in question, 0.95.
    pub quantile: f64,
    /// The response time that quantile must not exceed.
    pub response_time: Duration,
    /// Largest tolerated share of failed requests, 0.001.
    pub errors: f64,
}

/// A quantile as people write it: 95 for 0.95.
pub(crate) fn percentile(quantile: f64) -> f64 {
    (quantile * 1000.0).round() / 10.0
}

impl Default for Slo {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(2),
            quantile: 0.95,
            response_time: Duration::from_millis(200),
            errors: 0.001,
        }
    }
}

impl Slo {
    /// The violating share F at which the SLO is exactly met: 5 % for p95 (method.md, section 1).
    #[must_use]
    pub fn violating_share(&self) -> f64 {
        1.0 - self.quantile
    }

    /// The quantile as people write it: 95 for p95, 99.9 for p99.9.
    #[must_use]
    pub fn percentile(&self) -> f64 {
        percentile(self.quantile)
    }

    /// `p95 <= 200 ms, errors <= 0.1 %, timeout 2 s`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "p{} <= {}, errors <= {}, timeout {}",
            self.percentile(),
            crate::units::format_ms(self.response_time.as_secs_f64() * 1e3),
            crate::units::exact_percent(self.errors).replace('%', " %"),
            crate::units::format_ms(self.timeout.as_secs_f64() * 1e3),
        )
    }
}
