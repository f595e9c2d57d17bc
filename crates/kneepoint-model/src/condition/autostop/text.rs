//! How conditions are written.

use super::{AutostopError, Condition, Level, Mask};
use crate::pieces::{Piece, excerpt, pieces};
use crate::units::{SECOND_NS, exact_duration, exact_percent, parse_share};
use crate::workload::schedule::text::seconds;
use std::fmt;
use std::time::Duration;

const SHAPES: &str = "write time(1s,10s), quantile(95,100ms,10s), http(5xx,10%,1m), net(110,5%,10s), \
     total_time(300ms,70%,3s), total_http(5xx,10%,1m), total_net(xx,25,10s), instances(80%,30s) or limit(10m)";

const MILLISECOND_NS: u64 = 1_000_000;

const UNITS: &[(&str, u64)] = &[
    ("ms", MILLISECOND_NS),
    ("s", SECOND_NS),
    ("m", 60 * SECOND_NS),
    ("h", 3600 * SECOND_NS),
    ("d", 86_400 * SECOND_NS),
];

/// Longest window: more seconds are kept of no run.
const LONGEST_WINDOW_S: u64 = 86_400;

/// Reads conditions with blanks between them.
pub(super) fn conditions(text: &str) -> Result<Vec<Condition>, AutostopError> {
    let pieces = pieces(text).map_err(|piece| AutostopError {
        piece,
        problem: format!("this is no condition; {SHAPES}"),
    })?;
    if pieces.is_empty() {
        return Err(AutostopError {
            piece: excerpt(text),
            problem: format!("there is nothing; {SHAPES}"),
        });
    }
    let read = pieces.iter().map(|piece| {
        condition(piece).map_err(|problem| AutostopError {
            piece: excerpt(piece.whole),
            problem,
        })
    });
    read.collect()
}

fn condition(piece: &Piece<'_>) -> Result<Condition, String> {
    let values = piece.values();
    let (name, total) = match piece.name.strip_prefix("total_") {
        Some(name) => (name, true),
        None => (piece.name, false),
    };
    match (name, values.as_slice()) {
        ("time", [limit, window]) if !total => Ok(Condition::Time {
            limit: time(limit)?,
            seconds: whole_seconds(window)?,
        }),
        ("time", [limit, share, window]) if total => Ok(Condition::TotalTime {
            limit: time(limit)?,
            share: part(share)?,
            seconds: whole_seconds(window)?,
        }),
        ("quantile", [percent, limit, window]) if !total => Ok(Condition::Quantile {
            percent: percentage(percent)?,
            limit: time(limit)?,
            seconds: whole_seconds(window)?,
        }),
        ("http", [numbers, level, window]) => Ok(Condition::Http {
            mask: mask(numbers)?,
            level: self::level(level)?,
            seconds: whole_seconds(window)?,
            total,
        }),
        ("net", [numbers, level, window]) => Ok(Condition::Net {
            mask: mask(numbers)?,
            level: self::level(level)?,
            seconds: whole_seconds(window)?,
            total,
        }),
        ("instances", [level, window]) if !total => Ok(Condition::Instances {
            level: self::level(level)?,
            seconds: whole_seconds(window)?,
        }),
        ("limit", [length]) if !total => Ok(Condition::Limit {
            limit: span(length, SECOND_NS)?,
        }),
        ("http" | "net" | "quantile", [_, _, _, tag]) => Err(format!(
            "requests are not counted by tag; leave `{tag}` out"
        )),
        _ => Err(format!(
            "there is no such condition with these values; {SHAPES}"
        )),
    }
}

/// A number without a unit is milliseconds where a response time is meant, as in yandex.tank.
fn time(text: &str) -> Result<Duration, String> {
    span(text, MILLISECOND_NS)
}

fn span(text: &str, bare: u64) -> Result<Duration, String> {
    exact_duration(text, UNITS, Some(bare))
        .filter(|length| !length.is_zero())
        .ok_or_else(|| format!("`{text}` is no duration; write for example 500ms, 10s or 1m"))
}

fn whole_seconds(text: &str) -> Result<u32, String> {
    let length = span(text, SECOND_NS)?;
    let seconds = length.as_secs();
    if length.subsec_nanos() != 0 || !(1..=LONGEST_WINDOW_S).contains(&seconds) {
        return Err(format!(
            "`{text}` is no window; write whole seconds, up to a day, such as 10s"
        ));
    }
    Ok(seconds as u32)
}

fn part(text: &str) -> Result<f64, String> {
    let share = text
        .ends_with('%')
        .then(|| parse_share(text).ok())
        .flatten();
    share
        .filter(|share| *share > 0.0)
        .ok_or_else(|| format!("`{text}` is no share; write for example 10%"))
}

fn level(text: &str) -> Result<Level, String> {
    if text.ends_with('%') {
        return part(text).map(Level::Share);
    }
    let count = text.parse().ok().filter(|count| *count > 0);
    count.map(Level::Count).ok_or_else(|| {
        format!("`{text}` is no number of requests and no share; write for example 25 or 10%")
    })
}

fn percentage(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse().ok();
    number
        .filter(|percent: &f64| *percent > 0.0 && *percent < 100.0)
        .ok_or_else(|| {
            format!("`{text}` is no quantile; write percent between 0 and 100, such as 95")
        })
}

fn mask(text: &str) -> Result<Mask, String> {
    let lower = text.to_ascii_lowercase();
    let fits = lower.bytes().all(|b| b == b'x' || b.is_ascii_digit());
    if !fits || !(1..=3).contains(&lower.len()) {
        return Err(format!(
            "`{text}` means no status and no error; write digits and x for any digit, such as 5xx, 404 or 110"
        ));
    }
    Ok(Mask(lower))
}

impl fmt::Display for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            Self::Share(share) => f.write_str(&exact_percent(*share)),
        }
    }
}

/// A time with its unit: milliseconds when it is a whole number of them below ten seconds.
pub(super) fn spelled(time: Duration) -> String {
    let ms = time.as_millis();
    if ms > 0
        && ms < 10_000
        && !ms.is_multiple_of(1000)
        && time.as_nanos() == ms * u128::from(MILLISECOND_NS)
    {
        format!("{ms}ms")
    } else {
        format!("{}s", seconds(time))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = |total: bool| if total { "total_" } else { "" };
        match self {
            Self::Time { limit, seconds } => write!(f, "time({},{seconds}s)", spelled(*limit)),
            Self::Quantile {
                percent,
                limit,
                seconds,
            } => write!(f, "quantile({percent},{},{seconds}s)", spelled(*limit)),
            Self::Http {
                mask,
                level,
                seconds,
                total,
            } => write!(f, "{}http({mask},{level},{seconds}s)", prefix(*total)),
            Self::Net {
                mask,
                level,
                seconds,
                total,
            } => write!(f, "{}net({mask},{level},{seconds}s)", prefix(*total)),
            Self::TotalTime {
                limit,
                share,
                seconds,
            } => write!(
                f,
                "total_time({},{},{seconds}s)",
                spelled(*limit),
                exact_percent(*share)
            ),
            Self::Instances { level, seconds } => write!(f, "instances({level},{seconds}s)"),
            Self::Limit { limit } => write!(f, "limit({})", spelled(*limit)),
        }
    }
}
