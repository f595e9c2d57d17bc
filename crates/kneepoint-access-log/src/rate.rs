//! How many came when: counts per minute, and the schedule they make.

use crate::entry::time::{MINUTE_US, SECOND_US};
use kneepoint_model::{Schedule, Segment};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most minutes that are told apart: nearly two years.
const MOST_MINUTES: usize = 1_000_000;

/// Longest stretch without anything that a replay waits for.
const LONGEST_SILENCE_US: i64 = 24 * 60 * MINUTE_US;

/// A minute is a fair measure of the peak when the log covers at least half of it.
const HALF_US: i64 = MINUTE_US / 2;

/// Events per minute of the clock.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PerMinute {
    counts: BTreeMap<i64, u64>,
}

/// What stretch of time a log covers, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Span {
    first_us: i64,
    last_us: i64,
}

impl Default for Span {
    fn default() -> Self {
        Self {
            first_us: i64::MAX,
            last_us: i64::MIN,
        }
    }
}

impl Span {
    pub(crate) fn include(&mut self, start_us: i64, end_us: i64) {
        self.first_us = self.first_us.min(start_us);
        self.last_us = self.last_us.max(end_us);
    }

    /// At least a second: a shorter one says nothing about a rate.
    pub(crate) fn length(&self) -> Duration {
        let us = self.last_us.saturating_sub(self.first_us).max(SECOND_US);
        Duration::from_micros(us.unsigned_abs())
    }

    /// How much of a minute of the clock it covers.
    fn within(&self, minute: i64) -> i64 {
        let end = self.last_us.max(self.first_us.saturating_add(SECOND_US));
        let from = (minute * MINUTE_US).max(self.first_us);
        let to = ((minute + 1) * MINUTE_US).min(end);
        (to - from).max(0)
    }
}

impl PerMinute {
    pub(crate) fn add(&mut self, at_us: i64) {
        let minute = at_us.div_euclid(MINUTE_US);
        if let Some(count) = self.counts.get_mut(&minute) {
            *count += 1;
        } else if self.counts.len() < MOST_MINUTES {
            self.counts.insert(minute, 1);
        }
    }

    fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Events per second over the whole log.
    pub(crate) fn mean_hz(&self, span: Span) -> f64 {
        self.total() as f64 / span.length().as_secs_f64()
    }

    /// Events per second in the busiest minute.
    pub(crate) fn peak_hz(&self, span: Span) -> f64 {
        let rates = self.counts.iter().filter_map(|(minute, count)| {
            let covered = span.within(*minute);
            (covered >= HALF_US).then(|| *count as f64 * SECOND_US as f64 / covered as f64)
        });
        rates.fold(self.mean_hz(span), f64::max)
    }

    /// The rate of every minute, `times` as high. Of a silence longer than a day (logs of different weeks in one, a
    /// line with a wrong date) a day is kept.
    pub(crate) fn schedule(&self, span: Span, times: f64) -> Schedule {
        let mut segments: Vec<Segment> = Vec::new();
        let mut push = |rate_hz: f64, us: i64| {
            let duration = Duration::from_micros(us.max(0).unsigned_abs());
            match segments.last_mut() {
                _ if duration.is_zero() => {}
                Some(last) if last.from_hz == rate_hz => last.duration += duration,
                _ => segments.push(Segment {
                    from_hz: rate_hz,
                    to_hz: rate_hz,
                    duration,
                }),
            }
        };
        let mut done_us = span.first_us;
        for Piece {
            from_us,
            to_us,
            count,
        } in self.pieces(span)
        {
            push(0.0, (from_us - done_us).min(LONGEST_SILENCE_US));
            let seconds = (to_us - from_us) as f64 / SECOND_US as f64;
            push(count as f64 / seconds * times, to_us - from_us);
            done_us = to_us;
        }
        let silence_us = span.last_us.saturating_sub(done_us);
        push(0.0, silence_us.min(LONGEST_SILENCE_US));
        Schedule { segments }
    }

    /// The minutes that have events, cut to the span. What the span cuts shorter than a second is joined with the
    /// minute beside it, or made a second long where nothing is beside it: a rate over less says nothing.
    fn pieces(&self, span: Span) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for (minute, count) in &self.counts {
            let from_us = (minute * MINUTE_US).max(span.first_us);
            let to_us = from_us + span.within(*minute);
            let short = |from: i64, to: i64| to - from < SECOND_US;
            match pieces.last_mut() {
                Some(last)
                    if last.to_us == from_us
                        && (short(from_us, to_us) || short(last.from_us, last.to_us)) =>
                {
                    last.to_us = to_us;
                    last.count += count;
                }
                Some(_) if short(from_us, to_us) => pieces.push(Piece {
                    from_us: to_us - SECOND_US,
                    to_us,
                    count: *count,
                }),
                _ => pieces.push(Piece {
                    from_us,
                    to_us,
                    count: *count,
                }),
            }
        }
        pieces
    }
}

/// A stretch of time and how many events it has.
struct Piece {
    from_us: i64,
    to_us: i64,
    count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counted(times_s: &[f64]) -> (PerMinute, Span) {
        let (mut per_minute, mut span) = (PerMinute::default(), Span::default());
        for s in times_s {
            let us = (s * 1e6) as i64;
            per_minute.add(us);
            span.include(us, us);
        }
        (per_minute, span)
    }

    #[test]
    fn the_schedule_has_the_rate_of_every_minute() {
        // Half a minute at 2/s, a minute at 1/s, two minutes of nothing, then 90 in half a minute.
        let mut times: Vec<f64> = (0..60).map(|i| 30.0 + f64::from(i) / 2.0).collect();
        times.extend((0..60).map(|i| 60.0 + f64::from(i)));
        times.extend((0..90).map(|i| 240.0 + f64::from(i) / 3.0));
        times.push(270.0);
        let (per_minute, span) = counted(&times);
        let schedule = per_minute.schedule(span, 1.0);
        let shown: Vec<String> = schedule
            .segments
            .iter()
            .map(|s| format!("{:.2}/s {} s", s.from_hz, s.duration.as_secs()))
            .collect();
        assert_eq!(
            shown,
            ["2.00/s 30 s", "1.00/s 60 s", "0.00/s 120 s", "3.03/s 30 s"]
        );
        assert_eq!(span.length(), Duration::from_secs(240));
        assert!((per_minute.peak_hz(span) - 91.0 / 30.0).abs() < 1e-9);
        assert!((per_minute.mean_hz(span) - 211.0 / 240.0).abs() < 1e-9);
        let double = per_minute.schedule(span, 2.0);
        assert!((double.total_area() - 422.0).abs() < 1e-6);
    }

    #[test]
    fn a_single_moment_is_a_second() {
        let (per_minute, span) = counted(&[59.9, 59.9, 59.9]);
        assert_eq!(per_minute.mean_hz(span), 3.0);
        assert!((per_minute.schedule(span, 1.0).total_area() - 3.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn nobody_is_lost_or_made_up(times in prop::collection::vec(0.0..20_000.0f64, 1..50)) {
            let (per_minute, span) = counted(&times);
            let schedule = per_minute.schedule(span, 1.0);
            prop_assert!((schedule.total_area() - times.len() as f64).abs() < 1e-6);
            let difference = schedule.duration().abs_diff(span.length());
            prop_assert!(difference <= Duration::from_secs(1), "{difference:?}");
        }
    }
}
