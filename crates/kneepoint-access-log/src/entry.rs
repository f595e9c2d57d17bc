//! What the pieces of a line mean, and what they say together.

mod target;
pub(crate) mod time;
mod unescape;

pub use target::LoggedRequest;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use time::{Clock, Stamp, Unit};
use unescape::unescape;

/// What one piece of a line means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Field {
    /// Address of the client.
    Address,
    /// Addresses the request was forwarded for, the client's first.
    Forwarded,
    /// When the request began or ended.
    At(Clock, Moment),
    /// How long it took.
    Took(Unit),
    /// `GET /path?query HTTP/1.1`.
    Request,
    /// `GET`.
    Method,
    /// Path and query.
    Target,
    /// Host, path and query in one.
    HostTarget,
    /// Path alone.
    Path,
    /// `?` where a query follows.
    QueryMark,
    /// Query, with or without its `?`.
    Query,
    /// Status of the response.
    Status,
    /// The whole `Cookie` header.
    Cookies,
    /// The value that names the visitor: a session cookie, or what nginx's userid module set.
    Visitor,
    /// The browser.
    Agent,
    /// Nothing that is learnt from. Lists (upstream times) may hold the separator: `0.1, 0.2 : 0.3`.
    Other {
        /// Whether it may be a list.
        list: bool,
    },
}

/// Which moment of a request a log line is stamped with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Its beginning, as Apache does.
    Start,
    /// Its end, as nginx does.
    End,
}

/// Why a line says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// It has not the shape of the format.
    #[error("it does not have the shape of the format: {missing:?} is not where it should be")]
    Shape {
        /// What was looked for.
        missing: String,
    },
    /// A value is not what its place in the format says.
    #[error("{text:?} is not {expected}")]
    Value {
        /// The value.
        text: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A JSON line that is no JSON object.
    #[error("it is no JSON object: {problem}")]
    Json {
        /// What the JSON reader says.
        problem: String,
    },
    /// Longer than any real one.
    #[error("it is longer than 128 KiB")]
    TooLong,
}

impl BadLine {
    pub(crate) fn value(text: &str, expected: &'static str) -> Self {
        Self::Value {
            text: text.chars().take(60).collect(),
            expected,
        }
    }
}

/// Names of cookies that hold a session, as PHP and its frameworks (and their neighbours) call them.
const SESSION_COOKIES: &[&str] = &[
    "PHPSESSID",
    "laravel_session",
    "JSESSIONID",
    "connect.sid",
    "sessionid",
    "session",
    "sid",
];

/// The values of a line that are learnt from, as written.
#[derive(Debug, Default)]
pub(crate) struct Raw<'l> {
    address: Option<Cow<'l, str>>,
    forwarded: Option<Cow<'l, str>>,
    request: Option<Cow<'l, str>>,
    method: Option<Cow<'l, str>>,
    target: Option<Cow<'l, str>>,
    path: Option<Cow<'l, str>>,
    query: Option<Cow<'l, str>>,
    agent: Option<Cow<'l, str>>,
    cookie: Option<u64>,
    status: Option<u16>,
    at: Option<(Stamp, Moment)>,
    took_us: Option<i64>,
}

impl<'l> Raw<'l> {
    /// Takes over a value as a server escaped it. One that is empty or `-` was not known to the server.
    pub(crate) fn set(&mut self, field: &Field, text: &'l str) -> Result<(), BadLine> {
        if text.is_empty() || text == "-" {
            return Ok(());
        }
        if let Some(place) = self.text_place(field) {
            *place = Some(unescape(text));
            return Ok(());
        }
        match field {
            Field::Address if text.contains(' ') => Err(BadLine::value(text, "an address")),
            Field::Address => {
                self.address = Some(Cow::Borrowed(text));
                Ok(())
            }
            Field::Cookies => {
                self.cookie = session_cookie(&unescape(text));
                Ok(())
            }
            Field::HostTarget => {
                let path = text.find('/').map_or("/", |slash| &text[slash..]);
                self.target = Some(unescape(path));
                Ok(())
            }
            _ => self.set_number(field, text),
        }
    }

    /// Takes over a value that is not escaped.
    pub(crate) fn set_plain(&mut self, field: &Field, text: String) -> Result<(), BadLine> {
        if text.is_empty() || text == "-" {
            return Ok(());
        }
        match field {
            Field::Address => self.address = Some(Cow::Owned(text)),
            Field::Cookies => self.cookie = session_cookie(&text),
            _ => match self.text_place(field) {
                Some(place) => *place = Some(Cow::Owned(text)),
                None => self.set_number(field, &text)?,
            },
        }
        Ok(())
    }

    fn set_number(&mut self, field: &Field, text: &str) -> Result<(), BadLine> {
        match field {
            Field::At(clock, moment) => {
                let stamp = clock.read(text);
                let stamp = stamp.ok_or_else(|| BadLine::value(text, "a time"))?;
                self.stamp(stamp, *moment);
            }
            Field::Took(unit) => {
                let took = unit.read(text);
                let took = took.ok_or_else(|| BadLine::value(text, "a duration up to a day"))?;
                self.took_us = Some(took);
            }
            Field::Status => {
                let status = text.parse::<u16>().ok().filter(|status| *status < 1000);
                let status = status.ok_or_else(|| BadLine::value(text, "a status"))?;
                self.status = Some(status);
            }
            Field::Visitor => self.cookie = Some(hash(text)),
            _ => {}
        }
        Ok(())
    }

    /// Where a value of plain text is kept.
    fn text_place(&mut self, field: &Field) -> Option<&mut Option<Cow<'l, str>>> {
        Some(match field {
            Field::Forwarded => &mut self.forwarded,
            Field::Request => &mut self.request,
            Field::Method => &mut self.method,
            Field::Target => &mut self.target,
            Field::Path => &mut self.path,
            Field::Query => &mut self.query,
            Field::Agent => &mut self.agent,
            _ => return None,
        })
    }

    /// Of several times in a line the finest counts.
    fn stamp(&mut self, stamp: Stamp, moment: Moment) {
        let finer = |known: (Stamp, Moment)| stamp.resolution_us < known.0.resolution_us;
        if self.at.is_none_or(finer) {
            self.at = Some((stamp, moment));
        }
    }

    /// What the line says.
    pub(crate) fn entry(self) -> Result<LogEntry, BadLine> {
        let Some((stamp, moment)) = self.at else {
            return Err(BadLine::Shape {
                missing: "a time".into(),
            });
        };
        let took_us = self.took_us.unwrap_or(0);
        let (start_us, end_us) = match moment {
            Moment::Start => (stamp.us, stamp.us + took_us),
            Moment::End => (stamp.us - took_us, stamp.us),
        };
        let client = self.forwarded.as_deref().and_then(first_address);
        let client = client.or(self.address.as_deref());
        let client = client.map(|client| hash(&(client, self.agent.as_deref().unwrap_or(""))));
        Ok(LogEntry {
            start_us,
            end_us,
            timed: self.took_us.is_some(),
            resolution_us: stamp.resolution_us,
            cookie: self.cookie,
            client,
            status: self.status,
            request: self.request(),
        })
    }

    fn request(&self) -> Option<LoggedRequest> {
        let line = self.request.as_deref().map(target::split_request);
        let (method, from_line) = match line {
            Some(split) => {
                let (method, target) = split?;
                (method, Some(target))
            }
            None => (self.method.as_deref().unwrap_or("GET"), None),
        };
        let own = self.target.as_deref().or(from_line);
        let text = match (own, self.path.as_deref(), self.query.as_deref()) {
            (Some(target), _, _) => Cow::Borrowed(target),
            (None, Some(path), None) => Cow::Borrowed(path),
            (None, Some(path), Some(query)) => {
                Cow::Owned(format!("{path}?{}", query.trim_start_matches('?')))
            }
            (None, None, _) => return None,
        };
        LoggedRequest::new(method, &text)
    }
}

/// What one line of a log says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// When the request began, in microseconds since 1970. Without a logged duration it is the time of the line.
    pub start_us: i64,
    /// When it ended, likewise.
    pub end_us: i64,
    /// Whether its duration was logged.
    pub timed: bool,
    /// The step in which the log counts time, in microseconds.
    pub resolution_us: i64,
    /// Hash of the session cookie, where the line has one. (The value itself is never kept.)
    pub cookie: Option<u64>,
    /// Hash of address and browser, where the line has an address.
    pub client: Option<u64>,
    /// The status of the response.
    pub status: Option<u16>,
    /// What was asked for; `None` when the request line was none (noise on the port, a timeout before it came).
    pub request: Option<LoggedRequest>,
}

/// The first of a list of addresses a request was forwarded for.
fn first_address(list: &str) -> Option<&str> {
    let first = list.split(',').next()?.trim();
    (!first.is_empty() && first != "-" && first != "unknown").then_some(first)
}

/// The hash of the session cookie in a `Cookie` header.
fn session_cookie(header: &str) -> Option<u64> {
    let pairs = header.split(';').filter_map(|pair| pair.split_once('='));
    let session = |name: &str| {
        SESSION_COOKIES.contains(&name)
            || name.ends_with("_session")
            || name.starts_with("wordpress_logged_in_")
    };
    let mut values = pairs.map(|(name, value)| (name.trim(), value.trim()));
    values
        .find(|(name, value)| session(name) && !value.is_empty())
        .map(|pair| hash(&pair))
}

/// A hash that is the same in every process: what is learnt must not change from run to run.
pub(crate) fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_cookie_is_found_among_others() {
        let same = session_cookie("PHPSESSID=abc");
        assert!(same.is_some());
        assert_eq!(session_cookie("theme=dark; PHPSESSID=abc; _ga=1"), same);
        assert_ne!(session_cookie("PHPSESSID=abd"), same);
        assert!(session_cookie("my_shop_session=1").is_some());
        for header in ["", "theme=dark", "PHPSESSID=", "PHPSESSID", ";;=;"] {
            assert_eq!(session_cookie(header), None, "{header}");
        }
    }

    #[test]
    fn the_first_forwarded_address_is_the_client() {
        assert_eq!(first_address("10.0.0.1, 10.0.0.2"), Some("10.0.0.1"));
        assert_eq!(first_address("unknown, 10.0.0.2"), None);
    }
}
