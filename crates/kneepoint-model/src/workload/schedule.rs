//! Load schedules: the offered rate over time, in closed form.
//!
//! A schedule is a concatenation of segments; arrival *k* of an even schedule starts where the integral of
//! the rate reaches *k* (load-engine.md, sections 3 and 4).

use serde::{Deserialize, Serialize};
use std::time::Duration;

pub mod text;

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

/// Where the first of evenly spaced arrivals lies. Load generators differ in this (load-engine.md, section 4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstArrival {
    /// At the start: arrival *k*, counted from 0, comes where the integral of the rate exceeds *k*. yandex.tank,
    /// wrk2 and oha.
    #[default]
    AtStart,
    /// One interval later: arrival *k* comes where the integral of the rate reaches *k + 1*. k6, vegeta and
    /// Artillery. The last one may come at the very end of the schedule.
    AfterInterval,
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
    #[inline]
    fn length_s(&self) -> f64 {
        self.duration.as_secs_f64()
    }

    #[inline]
    fn slope(&self) -> f64 {
        (self.to_hz - self.from_hz) / self.length_s()
    }

    #[inline]
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
    #[inline]
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

#[inline]
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
        self.arrival_time_from(FirstArrival::AtStart, k)
    }

    /// When arrival `k` of an even schedule comes, counted from 0, with the first where `first` says; `None` past
    /// the last. There are [`Schedule::total_arrivals`] of them either way.
    #[must_use]
    pub fn arrival_time_from(&self, first: FirstArrival, k: u64) -> Option<Duration> {
        (k < self.total_arrivals())
            .then(|| self.cursor_from(first).time_of(k as f64))
            .flatten()
            .and_then(|at| Duration::try_from_secs_f64(at).ok())
    }

    /// A reader for many arrivals in order, at constant cost each, the first at the start.
    #[must_use]
    pub fn cursor(&self) -> Cursor<'_> {
        self.cursor_from(FirstArrival::AtStart)
    }

    /// A reader for many arrivals in order, at constant cost each, with the first where `first` says: given *k* it
    /// answers when arrival *k* comes.
    #[must_use]
    pub fn cursor_from(&self, first: FirstArrival) -> Cursor<'_> {
        Cursor {
            segments: &self.segments,
            start_s: 0.0,
            area_before: 0.0,
            first,
        }
    }
}

/// Inverts the integral of a schedule for areas that do not fall.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    segments: &'a [Segment],
    start_s: f64,
    area_before: f64,
    first: FirstArrival,
}

impl Cursor<'_> {
    /// Seconds from the start at which the integral of the rate exceeds `area`; `None` when it never does. Where
    /// the first arrival comes after an interval: at which it reaches `area + 1`.
    /// `area` must not be smaller than in the call before: earlier pieces are forgotten.
    #[inline]
    pub fn time_of(&mut self, area: f64) -> Option<f64> {
        match self.first {
            FirstArrival::AtStart => self.time_exceeding(area),
            FirstArrival::AfterInterval => self.time_reaching(area + 1.0),
        }
    }

    /// The latest time at which the integral is `area`: after a pause, not before it.
    #[inline]
    fn time_exceeding(&mut self, area: f64) -> Option<f64> {
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

    /// The earliest time at which the integral is `area`: before a pause, or at the very end.
    #[inline]
    fn time_reaching(&mut self, area: f64) -> Option<f64> {
        while let [segment, rest @ ..] = self.segments {
            let own = segment.area();
            let after = self.area_before + own;
            if own > 0.0 && area <= after + tolerance(after) {
                let inside = (area - self.area_before).min(own);
                return Some(self.start_s + segment.time_of(inside));
            }
            self.area_before = after;
            self.start_s += segment.length_s();
            self.segments = rest;
        }
        None
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
