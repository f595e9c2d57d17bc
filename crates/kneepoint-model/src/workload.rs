//! What is asked of the stack, and when the answer counts as good.

use crate::session::Sessions;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// An HTTP method, as written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Method(pub String);

impl Default for Method {
    fn default() -> Self {
        Self("GET".into())
    }
}

/// What a response must be to count as good, beside arriving in time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Expect {
    /// The status; `None` accepts 200 to 399.
    pub status: Option<u16>,
    /// Text the body must contain (catalogue GEN-04: a fatal error can come with status 200).
    pub body_contains: Option<String>,
}

/// One kind of request in the mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Path with query string.
    pub path: String,
    /// Share of the mix, relative to the other weights.
    pub weight: f64,
    /// Method.
    pub method: Method,
    /// Extra headers, name and value.
    pub headers: Vec<(String, String)>,
    /// Body, already encoded.
    pub body: Option<String>,
    /// What a good response is.
    pub expect: Expect,
    /// Whether the request carries a user's cookie jar.
    pub session: bool,
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
        }
    }
}

/// The mix of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The requests with their weights; never empty.
    pub requests: Vec<Request>,
    /// How many users' cookie jars take turns for requests with `session`.
    pub users: u32,
    /// Visitors who make several requests each; `None` makes every request stand for itself.
    #[serde(default)]
    pub sessions: Option<Sessions>,
}

impl Workload {
    /// A workload of one plain GET.
    #[must_use]
    pub fn single(path: &str) -> Self {
        Self {
            requests: vec![Request::get(path)],
            users: 100,
            sessions: None,
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

    /// `p95 <= 200 ms, errors <= 0.1 %, timeout 2 s`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "p{} <= {}, errors <= {}, timeout {}",
            (self.quantile * 1000.0).round() / 10.0,
            crate::units::format_ms(self.response_time.as_secs_f64() * 1e3),
            crate::units::format_share(self.errors),
            crate::units::format_ms(self.timeout.as_secs_f64() * 1e3),
        )
    }
}
