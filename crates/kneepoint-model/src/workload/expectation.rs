//! When a response counts as good.

use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// Statuses from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRange {
    /// The least.
    pub from: u16,
    /// The greatest.
    pub to: u16,
}

impl StatusRange {
    /// Whether a status is in the range.
    #[must_use]
    #[inline]
    pub fn contains(self, status: u16) -> bool {
        (self.from..=self.to).contains(&status)
    }
}

impl From<u16> for StatusRange {
    fn from(status: u16) -> Self {
        Self {
            from: status,
            to: status,
        }
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = *self;
        match to.checked_sub(from) {
            Some(0) => write!(f, "{from}"),
            Some(99) if from % 100 == 0 => write!(f, "{}xx", from / 100),
            _ => write!(f, "{from} to {to}"),
        }
    }
}

/// What is wrong with a status somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a status such as 200 or a class such as \"2xx\"")]
pub struct StatusError(pub String);

impl FromStr for StatusRange {
    type Err = StatusError;

    /// Reads `204` or `2xx`.
    fn from_str(text: &str) -> Result<Self, StatusError> {
        let wrong = || StatusError(text.to_owned());
        let class = text
            .strip_suffix("xx")
            .or_else(|| text.strip_suffix("XX"))
            .filter(|class| class.len() == 1);
        let digits = class.unwrap_or(text);
        let number = digits
            .bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| digits.parse::<u16>().ok());
        match (class, number.flatten()) {
            (Some(_), Some(class @ 1..=5)) => Ok(Self {
                from: class * 100,
                to: class * 100 + 99,
            }),
            (None, Some(status @ 100..=599)) => Ok(status.into()),
            _ => Err(wrong()),
        }
    }
}

/// A header a response must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderExpectation {
    /// Its name, letter case ignored.
    pub name: String,
    /// What its value must contain; empty asks only that it is there.
    pub contains: String,
}

/// What a response must be to count as good, beside arriving in time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Expect {
    /// The good statuses; empty accepts 200 to 399.
    #[serde(deserialize_with = "statuses")]
    pub status: Vec<StatusRange>,
    /// Headers it must have.
    pub headers: Vec<HeaderExpectation>,
    /// Texts the body must contain, all of them (catalogue GEN-04: a fatal error can come with status 200).
    #[serde(deserialize_with = "texts")]
    pub body_contains: Vec<String>,
    /// Texts the body must not contain, none of them.
    pub body_lacks: Vec<String>,
    /// The least length of the body in bytes, as on the wire.
    pub body_min_bytes: u64,
}

impl Expect {
    /// Whether a status is good.
    #[must_use]
    #[inline]
    pub fn accepts(&self, status: u16) -> bool {
        if self.status.is_empty() {
            (200..400).contains(&status)
        } else {
            self.status.iter().any(|range| range.contains(status))
        }
    }

    /// The good statuses in words: `status 200`, `status 200 or 3xx`, `a status from 200 to 399`.
    #[must_use]
    pub fn describe_status(&self) -> String {
        if self.status.is_empty() {
            return "a status from 200 to 399".to_owned();
        }
        let words: Vec<String> = self.status.iter().map(ToString::to_string).collect();
        format!("status {}", words.join(" or "))
    }

    /// Whether the body must be read to judge a response: it may not be compressed then.
    #[must_use]
    #[inline]
    pub fn reads_body(&self) -> bool {
        !self.body_contains.is_empty() || !self.body_lacks.is_empty() || self.body_min_bytes > 0
    }
}

/// Runs of before stored one status, or none.
fn statuses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<StatusRange>, D::Error> {
    Ok(Stored::<u16, StatusRange>::deserialize(deserializer)?.into_list())
}

/// Runs of before stored one text, or none.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Stored::<String, String>::deserialize(deserializer)?.into_list())
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Stored<O, M> {
    List(Vec<M>),
    OneOrNone(Option<O>),
}

impl<O: Into<M>, M> Stored<O, M> {
    fn into_list(self) -> Vec<M> {
        match self {
            Self::List(list) => list,
            Self::OneOrNone(one) => one.into_iter().map(Into::into).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_numbers_and_classes() {
        for (text, shown) in [("200", "200"), ("2xx", "2xx"), ("5XX", "5xx")] {
            let range: StatusRange = text.parse().expect(text);
            assert_eq!(range.to_string(), shown);
        }
        for text in [
            "", "xx", "6xx", "0xx", "20", "600", "+200", "2x", "22xx", "ok",
        ] {
            assert!(text.parse::<StatusRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_status_is_good_when_it_is_in_the_list() {
        let mut expect = Expect::default();
        assert!(expect.accepts(302) && !expect.accepts(404));
        expect.status = vec![404.into(), "2xx".parse().expect("a class")];
        assert!(expect.accepts(404) && expect.accepts(299) && !expect.accepts(302));
        assert_eq!(expect.describe_status(), "status 404 or 2xx");
    }

    #[test]
    fn expectations_of_stored_runs_are_read() {
        let read = |json: &str| serde_json::from_str::<Expect>(json).expect("readable");
        assert_eq!(
            read(r#"{"status": null, "body_contains": null}"#),
            Expect::default()
        );
        let old = read(r#"{"status": 200, "body_contains": "visits"}"#);
        assert_eq!(old.status, [200.into()]);
        assert_eq!(old.body_contains, ["visits"]);
        let stored = serde_json::to_string(&old).expect("stored");
        assert_eq!(read(&stored), old);
    }
}
