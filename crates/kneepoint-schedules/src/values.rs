//! Numbers, durations and headers as several syntaxes write them.

use super::{Imported, ImportedLoad, NO_TIME_LIMIT, Refusal};
use kneepoint_model::Segment;
use kneepoint_model::schedule::text::{LARGEST_RATE_HZ, LONGEST, MOST_SEGMENTS, parse_rate};
use kneepoint_model::units::{GO_UNITS, exact_duration};
use std::time::Duration;

/// Most workers, connections and threads that are believed; more is a typing error.
const MOST_AT_ONCE: u64 = 1_000_000;

/// A whole number with the suffixes that a tool knows, such as `k` for 1000.
pub(super) fn whole(text: &str, suffixes: &[(char, u64)]) -> Result<u64, Refusal> {
    let last = text.chars().next_back();
    let suffix = suffixes.iter().find(|(suffix, _)| Some(*suffix) == last);
    let (digits, factor) = suffix.map_or((text, 1), |(suffix, factor)| {
        (&text[..text.len() - suffix.len_utf8()], *factor)
    });
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse::<u64>().ok().filter(|_| plain);
    number.and_then(|n| n.checked_mul(factor)).ok_or_else(|| {
        let known: String = suffixes
            .iter()
            .map(|(suffix, _)| format!(" or 2{suffix}"))
            .collect();
        Refusal::new(
            text,
            format!("this is not a whole number; write for example 10{known}"),
        )
    })
}

/// How many workers, connections or threads: at least one.
pub(super) fn count(text: &str, suffixes: &[(char, u64)]) -> Result<usize, Refusal> {
    match whole(text, suffixes)? {
        0 => Err(Refusal::new(
            text,
            "that many send nothing; write at least 1",
        )),
        n if n > MOST_AT_ONCE => Err(Refusal::new(
            text,
            format!("more than {MOST_AT_ONCE} of them fit into no machine; write fewer"),
        )),
        n => Ok(n as usize),
    }
}

/// A number of workers for a closed loop.
pub(super) fn workers(count: usize) -> u32 {
    // `count` has kept it below a million.
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// A rate per second.
pub(super) fn rate(text: &str) -> Result<f64, Refusal> {
    parse_rate(text).map_err(|problem| Refusal::new(text, problem))
}

/// A number of requests per something longer or shorter than a second.
pub(super) fn rate_per(text: &str, per: Duration) -> Result<f64, Refusal> {
    let count: f64 = rate(text)?;
    let hz = count / per.as_secs_f64();
    if hz.is_finite() && hz <= LARGEST_RATE_HZ {
        Ok(hz)
    } else {
        Err(Refusal::new(
            text,
            format!("in {per:?} that is over {LARGEST_RATE_HZ} a second; write a lower rate"),
        ))
    }
}

/// A duration as Go writes it (`1m30s`, `500ms`), which k6 and vegeta take.
pub(super) fn go_duration(text: &str) -> Result<Duration, Refusal> {
    duration(
        text,
        GO_UNITS,
        (text == "0").then_some(1),
        "30s, 1m30s or 500ms",
    )
}

/// A duration with the units a tool knows; `examples` says in the message what would be right.
pub(super) fn duration(
    text: &str,
    units: &[(&str, u64)],
    bare: Option<u64>,
    examples: &str,
) -> Result<Duration, Refusal> {
    match exact_duration(text, units, bare) {
        Some(duration) if duration <= LONGEST => Ok(duration),
        Some(_) => Err(Refusal::new(text, "that is over a year; write less")),
        None => Err(Refusal::new(
            text,
            format!("this is not a duration; write for example {examples}"),
        )),
    }
}

/// A duration in which something is to be sent.
pub(super) fn positive(text: &str, duration: Duration) -> Result<Duration, Refusal> {
    if duration.is_zero() {
        return Err(Refusal::new(
            text,
            "in no time nothing is sent; write a duration such as 30s",
        ));
    }
    Ok(duration)
}

/// `Name: value`, or `Name;` for an empty value as curl writes it.
pub(super) fn header(text: &str) -> Result<(String, String), Refusal> {
    let (name, value) = text
        .split_once(':')
        .or_else(|| Some((text.strip_suffix(';')?, "")))
        .ok_or_else(|| Refusal::new(text, "this is not a header; write \"Name: value\""))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Whether a header asks for its connection to be closed: `Connection: close`.
#[must_use]
pub fn asks_to_close(name: &str, value: &str) -> bool {
    let mut options = value.split(',');
    name.trim().eq_ignore_ascii_case("connection")
        && options.any(|option| option.trim().eq_ignore_ascii_case("close"))
}

/// Takes out the header that has connections closed: whether they are used again is said elsewhere.
pub(super) fn closing(mut read: Imported) -> Imported {
    let all = read.headers.len();
    read.headers
        .retain(|(name, value)| !asks_to_close(name, value));
    if read.headers.len() < all {
        read.keep_alive = Some(false);
    }
    read
}

/// A constant rate.
pub(super) fn constant(rate_hz: f64, duration: Duration) -> Segment {
    line(rate_hz, rate_hz, duration)
}

/// A rate that goes from one to another.
pub(super) fn line(from_hz: f64, to_hz: f64, duration: Duration) -> Segment {
    Segment {
        from_hz,
        to_hz,
        duration,
    }
}

/// Refuses what no run could be: more pieces than anybody writes, a year of load, or none at all.
pub(super) fn within_bounds(text: &str, read: Imported) -> Result<Imported, Refusal> {
    let wrong = |problem: String| Err(Refusal::new(text, problem));
    match &read.load {
        ImportedLoad::Closed(closed) if closed.duration.is_zero() => {
            return wrong("it lasts no time; write a duration".into());
        }
        ImportedLoad::Closed(closed) if closed.duration >= NO_TIME_LIMIT => {
            if closed.requests.is_none() && closed.loops.is_none() {
                return wrong(
                    "it would never end; write a duration or a number of requests".into(),
                );
            }
        }
        ImportedLoad::Closed(_) => {}
        ImportedLoad::Open { schedule, .. } => {
            if schedule.segments.is_empty() || schedule.duration().is_zero() {
                return wrong("it lasts no time; write stages with a duration".into());
            }
            if schedule.segments.len() > MOST_SEGMENTS {
                return wrong(format!(
                    "it has more than {MOST_SEGMENTS} pieces; write fewer"
                ));
            }
            if schedule.duration() > LONGEST {
                return wrong("it lasts over a year; write shorter durations".into());
            }
        }
    }
    Ok(read)
}
