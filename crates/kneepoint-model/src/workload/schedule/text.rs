//! How schedules are written: the pieces of yandex.tank, and the way back.

use super::{Schedule, ScheduleError, Segment};
use crate::units::{SECOND_NS, exact_duration};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, segment) in self.segments.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            let (from, to) = (segment.from_hz, segment.to_hz);
            let length = seconds(segment.duration);
            if from == to {
                write!(f, "{gap}const({from},{length}s)")?;
            } else {
                write!(f, "{gap}line({from},{to},{length}s)")?;
            }
        }
        Ok(())
    }
}

/// Seconds with every digit the duration has and none it has not: `90`, `0.25`.
#[must_use]
pub fn seconds(duration: Duration) -> String {
    let digits = format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos());
    digits
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// Most pieces of a schedule: more is a typing error.
pub const MOST_SEGMENTS: usize = 10_000;
/// Highest rate that is believed.
pub const LARGEST_RATE_HZ: f64 = 1e7;
/// Longest schedule that is believed: a year.
pub const LONGEST: Duration = Duration::from_secs(366 * 86_400);

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let mut schedule = Self::default();
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            let end = rest.find(')').map_or(rest.len(), |i| i + 1);
            let piece = &rest[..end];
            let error = |problem: String| ScheduleError {
                at: text[..text.len() - rest.len()].chars().count() + 1,
                piece: piece.chars().take(60).collect(),
                problem,
            };
            if piece.is_empty() {
                break;
            }
            let new = parse_piece(piece).map_err(error)?;
            if schedule.segments.len() + new.len() > MOST_SEGMENTS {
                return Err(error(format!(
                    "this makes more than {MOST_SEGMENTS} pieces; take a larger step or write line(FROM,TO,DURATION)"
                )));
            }
            schedule.segments.extend(new);
            if schedule.duration() > LONGEST {
                return Err(error(
                    "with this the schedule lasts over a year; write shorter durations such as 10m"
                        .into(),
                ));
            }
            rest = &rest[end..];
        }
        if schedule.segments.is_empty() {
            return Err(ScheduleError {
                at: 1,
                piece: String::new(),
                problem: "there is nothing; write for example const(50,1m)".into(),
            });
        }
        Ok(schedule)
    }
}

fn parse_piece(piece: &str) -> Result<Vec<Segment>, String> {
    const SHAPES: &str =
        "write const(RATE,DURATION), line(FROM,TO,DURATION) or step(FROM,TO,INCREMENT,DURATION)";
    let (name, inside) = piece
        .strip_suffix(')')
        .and_then(|open| open.split_once('('))
        .ok_or_else(|| format!("this is not a piece of a schedule; {SHAPES}"))?;
    let values: Vec<&str> = inside.split(',').map(str::trim).collect();
    match (name.trim(), values.as_slice()) {
        ("const", [rate, length]) => {
            let rate = parse_rate(rate)?;
            Ok(vec![flat(rate, parse_length(length)?)])
        }
        ("line", [from, to, length]) => Ok(vec![Segment {
            from_hz: parse_rate(from)?,
            to_hz: parse_rate(to)?,
            duration: parse_length(length)?,
        }]),
        ("step", [from, to, increment, length]) => stairs(
            parse_rate(from)?,
            parse_rate(to)?,
            parse_rate(increment)?,
            parse_length(length)?,
        ),
        ("const", _) => Err("const takes two values; write for example const(50,1m)".into()),
        ("line", _) => Err("line takes three values; write for example line(1,50,2m)".into()),
        ("step", _) => Err("step takes four values; write for example step(10,50,10,30s)".into()),
        (other, _) => Err(format!("there is no `{}`; {SHAPES}", other.trim())),
    }
}

pub(crate) fn flat(rate_hz: f64, duration: Duration) -> Segment {
    Segment {
        from_hz: rate_hz,
        to_hz: rate_hz,
        duration,
    }
}

/// The stairs of `step`: down when `to` is below `from`, and always ending at `to`.
pub(crate) fn stairs(
    from: f64,
    to: f64,
    increment: f64,
    length: Duration,
) -> Result<Vec<Segment>, String> {
    if from == to {
        return Ok(vec![flat(to, length)]);
    }
    let steps = (to - from).abs() / increment;
    if increment <= 0.0 || steps >= MOST_SEGMENTS as f64 {
        return Err(format!(
            "an increment of {increment} does not lead from {from} to {to} in fewer than {MOST_SEGMENTS} steps; \
             write for example step({from},{to},{},{}s)",
            (to - from).abs() / 4.0,
            seconds(length)
        ));
    }
    // A whole number of steps may come out of the division a hair short or long.
    let whole = (steps + 1e-9).floor();
    let signed = increment.copysign(to - from);
    let mut stairs: Vec<Segment> = (0..=whole as u32)
        .map(|step| flat(from + signed * f64::from(step), length))
        .collect();
    if (steps - whole).abs() > 1e-9 {
        stairs.push(flat(to, length));
    } else if let Some(last) = stairs.last_mut() {
        *last = flat(to, length);
    }
    Ok(stairs)
}

/// A rate per second: a plain number.
///
/// # Errors
/// It is none, or beyond [`LARGEST_RATE_HZ`].
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let plain = text
        .chars()
        .all(|c| c.is_ascii_digit() || c == '.' || c == 'e' || c == '-');
    match text.parse::<f64>() {
        // Adding zero turns -0 into 0, which prints without a sign.
        Ok(rate) if plain && (0.0..=LARGEST_RATE_HZ).contains(&rate) => Ok(rate + 0.0),
        _ => Err(format!(
            "`{text}` is not a rate; write requests per second between 0 and {LARGEST_RATE_HZ}, such as 12.5"
        )),
    }
}

/// A duration as yandex.tank writes it: numbers with `d`, `h`, `m` or `s`, the last of which may be left out.
///
/// # Errors
/// It is none.
pub fn parse_length(text: &str) -> Result<Duration, String> {
    read_length(text).ok_or_else(|| {
        format!("`{text}` is not a duration; write for example 90, 30s, 2m or 1h30m (0.5s for half a second)")
    })
}

fn read_length(text: &str) -> Option<Duration> {
    const UNITS: &[(&str, u64)] = &[
        ("d", 86_400 * SECOND_NS),
        ("h", 3600 * SECOND_NS),
        ("m", 60 * SECOND_NS),
        ("s", SECOND_NS),
    ];
    exact_duration(text, UNITS, Some(SECOND_NS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// Prints a schedule canonically with its length and number of arrivals, or the error.
    fn check(text: &str, expected: Expect) {
        let shown = match text.parse::<Schedule>() {
            Ok(s) => format!("{s} | {:?}, {} arrivals", s.duration(), s.total_arrivals()),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn tank_schedules_are_read() {
        check(
            "line(1,50,2m)const(50.5,90)  const(0, 10)",
            expect!["line(1,50,120s) const(50.5,90s) const(0,10s) | 220s, 7605 arrivals"],
        );
        check(
            "step(10,50,20,30s)",
            expect!["const(10,30s) const(30,30s) const(50,30s) | 90s, 2700 arrivals"],
        );
        check(
            "step(50,5,20,0.5s)",
            expect!["const(50,0.5s) const(30,0.5s) const(10,0.5s) const(5,0.5s) | 2s, 47 arrivals"],
        );
        check(
            "const(1,27h103m645)",
            expect!["const(1,104025s) | 104025s, 104025 arrivals"],
        );
    }

    #[test]
    fn errors_point_at_the_piece_and_say_what_to_write() {
        check(
            "const(5,1m) line(1,50)",
            expect![
                "schedule, character 13, `line(1,50)`: line takes three values; write for example line(1,50,2m)"
            ],
        );
        check(
            "const(5,200ms)",
            expect![
                "schedule, character 1, `const(5,200ms)`: `200ms` is not a duration; write for example 90, 30s, 2m or 1h30m (0.5s for half a second)"
            ],
        );
        check(
            "const(-5,1m)",
            expect![
                "schedule, character 1, `const(-5,1m)`: `-5` is not a rate; write requests per second between 0 and 10000000, such as 12.5"
            ],
        );
        check(
            "step(1,9,0,1s)",
            expect![
                "schedule, character 1, `step(1,9,0,1s)`: an increment of 0 does not lead from 1 to 9 in fewer than 10000 steps; write for example step(1,9,2,1s)"
            ],
        );
        check(
            "ramp(1,2)",
            expect![
                "schedule, character 1, `ramp(1,2)`: there is no `ramp`; write const(RATE,DURATION), line(FROM,TO,DURATION) or step(FROM,TO,INCREMENT,DURATION)"
            ],
        );
        check(
            "const(5,1m",
            expect![
                "schedule, character 1, `const(5,1m`: this is not a piece of a schedule; write const(RATE,DURATION), line(FROM,TO,DURATION) or step(FROM,TO,INCREMENT,DURATION)"
            ],
        );
        check(
            "  ",
            expect!["schedule, character 1, ``: there is nothing; write for example const(50,1m)"],
        );
    }
}
