//! Points in time and durations, as log lines write them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::Offset;

/// One second in microseconds.
pub(crate) const SECOND_US: i64 = 1_000_000;
/// One minute in microseconds.
pub(crate) const MINUTE_US: i64 = 60 * SECOND_US;
/// The year 2200: what lies beyond is a damaged line.
const LATEST_US: i64 = 7_258_118_400 * SECOND_US;
/// No request took longer than a day: what did is a damaged line.
const LONGEST_US: i64 = 24 * 60 * MINUTE_US;

/// A point in time and how finely it was written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Microseconds since 1970.
    pub(crate) us: i64,
    /// The step in which the log counts: a second, or a millisecond.
    pub(crate) resolution_us: i64,
}

/// How a point in time is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Clock {
    /// `21/Nov/2026:01:15:12 +0000`.
    Local,
    /// `2026-11-21T01:15:12+00:00`, with or without a fraction.
    Iso,
    /// Seconds since 1970, with or without a fraction.
    Seconds,
    /// Milliseconds since 1970.
    Millis,
    /// Microseconds since 1970.
    Micros,
    /// Whichever of the above it looks like.
    Any,
    /// A pattern of strftime; without an offset it is taken for UTC, since only differences count.
    Pattern(String),
}

impl Clock {
    /// Reads a point in time; `None` when it is none between 1970 and 2200.
    pub(crate) fn read(&self, text: &str) -> Option<Stamp> {
        let stamp = match self {
            Self::Local => local(text)?,
            Self::Iso => iso(text)?,
            Self::Seconds => decimal(text, SECOND_US)?,
            Self::Millis => decimal(text, 1000)?,
            Self::Micros => decimal(text, 1)?,
            Self::Any => any(text)?,
            Self::Pattern(pattern) => patterned(pattern, text)?,
        };
        (0..LATEST_US).contains(&stamp.us).then_some(stamp)
    }
}

/// The unit a duration is logged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Millis,
    Micros,
}

impl Unit {
    /// A duration in microseconds; `None` when it is none of up to a day.
    pub(crate) fn read(self, text: &str) -> Option<i64> {
        let us = match self {
            Self::Seconds => decimal(text, SECOND_US)?,
            Self::Millis => decimal(text, 1000)?,
            Self::Micros => decimal(text, 1)?,
        }
        .us;
        (0..=LONGEST_US).contains(&us).then_some(us)
    }
}

/// A plain decimal number of units of `unit_us` microseconds. The resolution is that of its digits.
fn decimal(text: &str, unit_us: i64) -> Option<Stamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || whole.len() > 18 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let mut us = whole.parse::<i64>().ok()?.checked_mul(unit_us)?;
    let mut resolution_us = unit_us;
    for digit in fraction.bytes() {
        if resolution_us < 10 {
            break;
        }
        resolution_us /= 10;
        us = us.checked_add(i64::from(digit - b'0') * resolution_us)?;
    }
    Some(Stamp { us, resolution_us })
}

fn any(text: &str) -> Option<Stamp> {
    let whole = text.split_once('.').map_or(text, |(whole, _)| whole);
    if !whole.is_empty() && whole.bytes().all(|b| b.is_ascii_digit()) {
        // Ten digits are seconds until the year 2286, thirteen milliseconds, sixteen microseconds.
        return match whole.len() {
            0..=11 => decimal(text, SECOND_US),
            12..=14 => decimal(text, 1000),
            _ => decimal(text, 1),
        };
    }
    local(text.trim_start_matches('[').trim_end_matches(']')).or_else(|| iso(text))
}

fn stamp(at: Timestamp) -> Stamp {
    let us = at.as_microsecond();
    let resolution_us = match us % SECOND_US {
        0 => SECOND_US,
        _ => 1000,
    };
    Stamp { us, resolution_us }
}

/// Of a time on a whole second nobody can tell whether it has a fraction of zero: the text says it.
fn iso(text: &str) -> Option<Stamp> {
    let at: Timestamp = text.parse().ok()?;
    let resolution_us = match text.contains(['.', ',']) {
        true => 1000,
        false => SECOND_US,
    };
    Some(Stamp {
        resolution_us,
        ..stamp(at)
    })
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// `21/Nov/2026:01:15:12 +0100`, the one that nearly every line has; written out since it is read so often.
fn local(text: &str) -> Option<Stamp> {
    let bytes = text.as_bytes();
    if bytes.len() != 26 || !text.is_ascii() {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<i16> {
        let part = &text[from..to];
        let digits = part.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    };
    let small = |from: usize| number(from, from + 2).and_then(|n| i8::try_from(n).ok());
    let punctuation = [
        (2, b'/'),
        (6, b'/'),
        (11, b':'),
        (14, b':'),
        (17, b':'),
        (20, b' '),
    ];
    if punctuation.iter().any(|(at, byte)| bytes[*at] != *byte) {
        return None;
    }
    let month = MONTHS.iter().position(|month| *month == &text[3..6])?;
    let month = i8::try_from(month + 1).ok()?;
    let (year, day) = (number(7, 11)?, small(0)?);
    // A leap second is the second before it.
    let second = small(18)?.min(59);
    let date_time = DateTime::new(year, month, day, small(12)?, small(15)?, second, 0).ok()?;
    let sign = match bytes[21] {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let offset_s = i32::from(small(22)?) * 3600 + i32::from(small(24)?) * 60;
    let offset = Offset::from_seconds(sign * offset_s).ok()?;
    offset.to_timestamp(date_time).ok().map(stamp_of_seconds)
}

fn stamp_of_seconds(at: Timestamp) -> Stamp {
    Stamp {
        us: at.as_microsecond(),
        resolution_us: SECOND_US,
    }
}

fn patterned(pattern: &str, text: &str) -> Option<Stamp> {
    let parts = strtime::parse(pattern, text).ok()?;
    let at = match parts.to_timestamp() {
        Ok(at) => at,
        Err(_) => Offset::UTC.to_timestamp(parts.to_datetime().ok()?).ok()?,
    };
    Some(stamp(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(clock: &Clock, text: &str, expected: Option<(i64, i64)>) {
        let read = clock
            .read(text)
            .map(|stamp| (stamp.us, stamp.resolution_us));
        assert_eq!(read, expected, "{text}");
    }

    #[test]
    fn a_point_in_time_is_read_however_it_is_written() {
        const AT: i64 = 1_795_223_712;
        let whole = Some((AT * SECOND_US, SECOND_US));
        let milli = Some((AT * SECOND_US + 345_000, 1000));
        check(&Clock::Local, "21/Nov/2026:01:15:12 +0000", whole);
        check(&Clock::Local, "21/Nov/2026:03:15:12 +0200", whole);
        check(&Clock::Local, "20/Nov/2026:19:45:12 -0530", whole);
        check(&Clock::Iso, "2026-11-21T01:15:12+00:00", whole);
        check(&Clock::Iso, "2026-11-21T02:15:12.345+01:00", milli);
        check(&Clock::Seconds, "1795223712.345", milli);
        check(&Clock::Seconds, "1795223712", whole);
        check(&Clock::Millis, "1795223712345", milli);
        check(
            &Clock::Micros,
            "1795223712345678",
            Some((AT * SECOND_US + 345_678, 1)),
        );
        let pattern = Clock::Pattern("%Y-%m-%d %H:%M:%S %z".into());
        check(&pattern, "2026-11-21 02:15:12 +0100", whole);
        let without_offset = Clock::Pattern("%d.%m.%Y %H:%M:%S".into());
        check(&without_offset, "21.11.2026 01:15:12", whole);
        for text in [
            "21/Nov/2026:01:15:12 +0000",
            "[21/Nov/2026:01:15:12 +0000]",
            "2026-11-21T01:15:12Z",
            "1795223712",
        ] {
            check(&Clock::Any, text, whole);
        }
        check(&Clock::Any, "1795223712345", milli);
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "-",
            ".",
            "31/Feb/2026:01:15:12 +0000",
            "21/Nov/2026:01:15:12",
            "21/Nov/2026:25:15:12 +0000",
            "21/Nov/2026:01:15:1é+0000",
            "9999999999999999999999",
            "-5",
            "1e9",
        ] {
            check(&Clock::Any, text, None);
            check(&Clock::Local, text, None);
            check(&Clock::Seconds, text, None);
        }
        assert_eq!(Unit::Seconds.read("0.0125"), Some(12_500));
        assert_eq!(Unit::Millis.read("12"), Some(12_000));
        assert_eq!(Unit::Micros.read("12"), Some(12));
        assert_eq!(Unit::Seconds.read("100000"), None, "longer than a day");
    }
}
