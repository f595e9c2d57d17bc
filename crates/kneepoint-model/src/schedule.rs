//! Load schedules: the offered rate over time, in closed form.
//!
//! A schedule is a concatenation of segments; arrival *k* of an even schedule starts where the integral of
//! the rate reaches *k* (load-engine.md, sections 3 and 4).

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How arrivals are spread within the schedule's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Evenly spaced: arrival *k* where the integral of the rate reaches *k*.
    Even,
    /// A Poisson process with this seed: exponential gaps in integrated rate. The default, since evenly
    /// spaced load overstates the limit by 6 to 7 % (method.md, section 6).
    Poisson {
        /// The seed; equal seeds give equal arrival times.
        seed: u64,
    },
}

/// A piece of a schedule: the rate goes linearly from `from_hz` to `to_hz` over `duration`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Offered rate at the start, per second.
    pub from_hz: f64,
    /// Offered rate at the end, per second.
    pub to_hz: f64,
    /// How long the piece takes.
    pub duration: Duration,
}

impl Segment {
    fn length_s(&self) -> f64 {
        self.duration.as_secs_f64()
    }

    fn slope(&self) -> f64 {
        (self.to_hz - self.from_hz) / self.length_s()
    }

    fn area(&self) -> f64 {
        (self.from_hz + self.to_hz) / 2.0 * self.length_s()
    }

    /// Arrivals within the first `x` seconds.
    fn area_until(&self, x: f64) -> f64 {
        if x >= self.length_s() {
            return self.area();
        }
        (self.from_hz + self.slope() * x / 2.0) * x
    }

    /// Seconds into the piece at which `area` arrivals have come. The form `2A / (f + sqrt(f^2 + 2sA))` of the
    /// quadratic's root does not cancel, so it holds for slopes near zero.
    fn time_of(&self, area: f64) -> f64 {
        if area <= 0.0 {
            return 0.0;
        }
        let root = (self.from_hz * self.from_hz + 2.0 * self.slope() * area)
            .max(0.0)
            .sqrt();
        (2.0 * area / (self.from_hz + root)).clamp(0.0, self.length_s())
    }
}

/// The offered rate over time.
///
/// Written and read in the syntax of yandex.tank: `line(1,50,2m) const(50,10m) step(10,50,10,30s)`. It prints
/// canonically, as `const` and `line` pieces with durations in seconds.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Schedule {
    /// The pieces, one after the other.
    pub segments: Vec<Segment>,
}

/// Sums of areas are exact to about this many arrivals; what is closer to a whole number counts as whole.
const AREA_TOLERANCE: f64 = 1e-9;

fn tolerance(area: f64) -> f64 {
    AREA_TOLERANCE.max(area * 1e-13)
}

impl Schedule {
    /// A constant rate.
    #[must_use]
    pub fn constant(rate_hz: f64, duration: Duration) -> Self {
        Self {
            segments: vec![Segment {
                from_hz: rate_hz,
                to_hz: rate_hz,
                duration,
            }],
        }
    }

    /// How long the schedule takes.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.segments
            .iter()
            .fold(Duration::ZERO, |sum, s| sum.saturating_add(s.duration))
    }

    /// The offered rate at `t` seconds; 0 before the start and after the end. Where two pieces meet, the
    /// later one counts.
    #[must_use]
    pub fn rate_at(&self, t: f64) -> f64 {
        let mut start = 0.0;
        for segment in &self.segments {
            let end = start + segment.length_s();
            if t >= start && t < end {
                return segment.from_hz + segment.slope() * (t - start);
            }
            start = end;
        }
        0.0
    }

    /// The integral of the rate from the start to `t` seconds: the number of arrivals until then.
    #[must_use]
    pub fn area(&self, t: f64) -> f64 {
        let mut start = 0.0;
        let mut area = 0.0;
        for segment in &self.segments {
            if t <= start {
                break;
            }
            area += segment.area_until(t - start);
            start += segment.length_s();
        }
        area
    }

    /// The integral of the rate over the whole schedule.
    #[must_use]
    pub fn total_area(&self) -> f64 {
        self.segments.iter().map(Segment::area).sum()
    }

    /// Arrivals of the schedule when evenly spaced: the whole part of the area, as yandex.tank counts.
    #[must_use]
    pub fn total_arrivals(&self) -> u64 {
        let area = self.total_area();
        (area + tolerance(area)).floor() as u64
    }

    /// When arrival `k` of an even schedule comes, counted from 0 at the start; `None` past the last.
    /// Where the rate is zero for a while, the arrival comes when it rises again.
    #[must_use]
    pub fn arrival_time(&self, k: u64) -> Option<Duration> {
        (k < self.total_arrivals())
            .then(|| self.cursor().time_of(k as f64))
            .flatten()
            .and_then(|at| Duration::try_from_secs_f64(at).ok())
    }

    /// A reader for many arrivals in order, at constant cost each.
    #[must_use]
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            segments: &self.segments,
            start_s: 0.0,
            area_before: 0.0,
        }
    }
}

/// Inverts the integral of a schedule for areas that do not fall.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    segments: &'a [Segment],
    start_s: f64,
    area_before: f64,
}

impl Cursor<'_> {
    /// Seconds from the start at which the integral of the rate exceeds `area`; `None` when it never does.
    /// `area` must not be smaller than in the call before: earlier pieces are forgotten.
    pub fn time_of(&mut self, area: f64) -> Option<f64> {
        while let [segment, rest @ ..] = self.segments {
            let own = segment.area();
            let after = self.area_before + own;
            if own > 0.0 && area < after - tolerance(after) {
                return Some(self.start_s + segment.time_of(area - self.area_before));
            }
            self.area_before = after;
            self.start_s += segment.length_s();
            self.segments = rest;
        }
        None
    }
}

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
fn seconds(duration: Duration) -> String {
    let digits = format!("{}.{:09}", duration.as_secs(), duration.subsec_nanos());
    digits
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

/// What is wrong with a schedule somebody wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schedule, character {at}, `{piece}`: {problem}")]
pub struct ScheduleError {
    /// Where the piece begins, counted in characters from 1.
    pub at: usize,
    /// The offending piece as written.
    pub piece: String,
    /// What is wrong and what to write.
    pub problem: String,
}

/// Bounds that keep a typing error from asking for the impossible.
const MOST_SEGMENTS: usize = 10_000;
const LARGEST_RATE_HZ: f64 = 1e7;
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

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

fn flat(rate_hz: f64, duration: Duration) -> Segment {
    Segment {
        from_hz: rate_hz,
        to_hz: rate_hz,
        duration,
    }
}

/// The stairs of `step`: down when `to` is below `from`, and always ending at `to`.
fn stairs(from: f64, to: f64, increment: f64, length: Duration) -> Result<Vec<Segment>, String> {
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

fn parse_rate(text: &str) -> Result<f64, String> {
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
fn parse_length(text: &str) -> Result<Duration, String> {
    read_length(text).ok_or_else(|| {
        format!("`{text}` is not a duration; write for example 90, 30s, 2m or 1h30m (0.5s for half a second)")
    })
}

fn read_length(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut nanos = 0u128;
    while !rest.is_empty() || text.is_empty() {
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(rest.len());
        let (whole, fraction) = rest[..end].split_once('.').unwrap_or((&rest[..end], ""));
        if fraction.len() > 9 || whole.len() > 12 {
            return None;
        }
        let number: u128 = whole.parse().ok()?;
        let part: u128 = format!("{fraction:0<9}").parse().ok()?;
        let (unit_s, unit_len) = match rest[end..].chars().next() {
            None => (1, 0),
            Some('s') => (1, 1),
            Some('m') => (60, 1),
            Some('h') => (3600, 1),
            Some('d') => (86_400, 1),
            Some(_) => return None,
        };
        nanos += (number * 1_000_000_000 + part) * unit_s;
        rest = &rest[end + unit_len..];
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).ok()?;
    Some(Duration::new(seconds, (nanos % 1_000_000_000) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

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

    #[test]
    fn nothing_arrives_in_a_pause() {
        let schedule: Schedule = "const(0,5) const(10,1) const(0,10) const(10,1)"
            .parse()
            .expect("valid");
        let at = |k| schedule.arrival_time(k).map(|t| t.as_secs_f64());
        assert_eq!(at(0), Some(5.0));
        assert_eq!(at(10), Some(16.0), "the first arrival after the pause");
        assert!((at(9).expect("exists") - 5.9).abs() < 1e-9);
        assert_eq!(at(20), None);
        assert_eq!(schedule.rate_at(10.0), 0.0);
        assert_eq!(schedule.rate_at(16.5), 10.0);
    }

    #[test]
    fn a_slope_near_zero_does_not_lose_digits() {
        let schedule: Schedule = "line(1000,1000.000000001,100)".parse().expect("valid");
        for k in [1u64, 50_000, 99_999] {
            let at = schedule.arrival_time(k).expect("within").as_secs_f64();
            assert!((at - k as f64 / 1000.0).abs() < 1e-8, "{k}: {at}");
        }
    }

    fn schedules() -> impl Strategy<Value = Schedule> {
        let rate = prop_oneof![Just(0.0), 0.001..500.0f64, (0u32..400).prop_map(f64::from)];
        let segment =
            (rate.clone(), rate, 0u64..20_000_000_000).prop_map(|(from_hz, to_hz, ns)| Segment {
                from_hz,
                to_hz,
                duration: Duration::from_nanos(ns),
            });
        prop::collection::vec(segment, 1..6).prop_map(|segments| Schedule { segments })
    }

    proptest! {
        #[test]
        fn arrival_k_comes_where_the_area_is_k(schedule in schedules(), share in 0.0..1.0f64) {
            let total = schedule.total_arrivals();
            prop_assume!(total > 0);
            let k = ((total as f64 * share) as u64).min(total - 1);
            let at = schedule.arrival_time(k).expect("within").as_secs_f64();
            // A nanosecond of rounding at the highest rate, and the tolerance of the sum.
            prop_assert!((schedule.area(at) - k as f64).abs() < 2e-6, "{k} at {at}: {}", schedule.area(at));
            prop_assert!(at <= schedule.duration().as_secs_f64());
            prop_assert_eq!(schedule.arrival_time(total), None);
        }

        #[test]
        fn arrivals_do_not_go_back(schedule in schedules()) {
            let mut cursor = schedule.cursor();
            let mut last = 0.0;
            for k in 0..schedule.total_arrivals() {
                let at = cursor.time_of(k as f64).expect("within");
                prop_assert!(at >= last);
                let direct = schedule.arrival_time(k).expect("within").as_secs_f64();
                prop_assert!((at - direct).abs() < 1e-8);
                last = at;
                if k > 300 { break; }
            }
        }

        #[test]
        fn a_printed_schedule_is_the_schedule(schedule in schedules()) {
            prop_assert_eq!(schedule.to_string().parse::<Schedule>(), Ok(schedule));
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<String>()) {
            let _ = text.parse::<Schedule>();
        }

        #[test]
        fn no_nearly_right_text_makes_it_panic(
            text in "(line|const|step| )?[(][0-9.,dhms e()-]{0,25}[)]( const[(]1,1[)])?"
        ) {
            if let Ok(schedule) = text.parse::<Schedule>() {
                let _ = schedule.arrival_time(schedule.total_arrivals() / 2);
                prop_assert_eq!(schedule.to_string().parse::<Schedule>(), Ok(schedule));
            }
        }
    }
}
