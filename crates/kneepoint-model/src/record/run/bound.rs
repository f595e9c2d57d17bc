//! Which goal of an SLO binds.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The goal that a higher rate would miss. Written as a word: `p95`, `errors`, `timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Bound {
    /// The response time at this quantile, in percent.
    ResponseTime(f64),
    /// The share of requests that may fail.
    Errors,
    /// The same, and most of those that fail time out.
    Timeout,
}

impl Default for Bound {
    /// The response time at p95, as in an SLO that says nothing else.
    fn default() -> Self {
        Self::ResponseTime(95.0)
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResponseTime(percent) => write!(f, "p{percent}"),
            Self::Errors => f.write_str("errors"),
            Self::Timeout => f.write_str("timeout"),
        }
    }
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let percent = word
            .strip_prefix('p')
            .and_then(|digits| digits.parse().ok());
        match (word, percent) {
            ("errors", _) => Ok(Self::Errors),
            ("timeout", _) => Ok(Self::Timeout),
            (_, Some(percent)) => Ok(Self::ResponseTime(percent)),
            _ => Err(format!("`{word}` is no goal of an SLO")),
        }
    }
}

impl From<Bound> for String {
    fn from(bound: Bound) -> Self {
        bound.to_string()
    }
}

impl TryFrom<String> for Bound {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        word.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_stored_as_its_word() {
        for (bound, word) in [
            (Bound::ResponseTime(95.0), "\"p95\""),
            (Bound::ResponseTime(99.9), "\"p99.9\""),
            (Bound::Errors, "\"errors\""),
            (Bound::Timeout, "\"timeout\""),
        ] {
            assert_eq!(serde_json::to_string(&bound).expect("writes"), word);
            assert_eq!(serde_json::from_str::<Bound>(word).expect("reads"), bound);
        }
        assert!(serde_json::from_str::<Bound>("\"speed\"").is_err());
    }
}
