//! When the requests of one thread start.

use crate::arrivals::random::{Purpose, Random};
use kneepoint_model::schedule::Cursor;
use kneepoint_model::{Arrivals, FirstArrival, Schedule};
use std::collections::VecDeque;

/// The intended starts of one thread, in order.
///
/// Even arrivals are shared out by number: thread *t* of *T* takes *k* = *t* (mod *T*). A Poisson process of rate
/// *r* is the sum of *T* independent ones of rate *r/T*, so each thread draws its own.
#[derive(Debug)]
pub(crate) struct ArrivalStream<'a> {
    cursor: Cursor<'a>,
    step: f64,
    /// Integrated rate at the next arrival.
    area: f64,
    end: f64,
    random: Option<Random>,
}

impl<'a> ArrivalStream<'a> {
    pub(crate) fn new(
        schedule: &'a Schedule,
        arrivals: Arrivals,
        first: FirstArrival,
        thread: usize,
        threads: usize,
    ) -> Self {
        let mut stream = Self {
            cursor: schedule.cursor_from(first),
            step: threads as f64,
            area: thread as f64,
            end: schedule.total_arrivals() as f64,
            random: None,
        };
        if let Arrivals::Poisson { seed } = arrivals {
            // A Poisson process has no first interval that could be left out.
            stream.cursor = schedule.cursor();
            stream.random = Some(Random::new(seed, Purpose::Arrivals, thread));
            stream.end = f64::INFINITY;
            stream.area = stream.gap();
        }
        stream
    }

    /// Integrated rate between an arrival of this thread and its next.
    fn gap(&mut self) -> f64 {
        self.random
            .as_mut()
            .map_or(self.step, |random| random.exponential() * self.step)
    }
}

impl Iterator for ArrivalStream<'_> {
    type Item = u64;

    /// The next intended start in nanoseconds since the load began.
    fn next(&mut self) -> Option<u64> {
        if self.area >= self.end {
            return None;
        }
        let at_s = self.cursor.time_of(self.area)?;
        self.area += self.gap();
        Some((at_s * 1e9) as u64)
    }
}

/// The intended starts that come next, of which some may be looked at before they are due.
#[derive(Debug)]
pub(crate) struct Upcoming<'a> {
    stream: ArrivalStream<'a>,
    /// In order; empty once there are no more.
    ahead: VecDeque<u64>,
}

/// Starts that are looked at ahead of their time at most.
const AHEAD: usize = 64;

impl<'a> Upcoming<'a> {
    pub(crate) fn new(mut stream: ArrivalStream<'a>) -> Self {
        let ahead = stream.next().into_iter().collect();
        Self { stream, ahead }
    }

    /// The next one.
    pub(crate) fn first(&self) -> Option<u64> {
        self.ahead.front().copied()
    }

    /// Goes on to the one after it.
    pub(crate) fn advance(&mut self) {
        self.ahead.pop_front();
        if self.ahead.is_empty() {
            self.ahead.extend(self.stream.next());
        }
    }

    /// The last one that follows the next within a span: they can leave together.
    pub(crate) fn last_within(&mut self, span_ns: u64) -> Option<u64> {
        let limit = self.first()?.saturating_add(span_ns);
        while self.ahead.len() < AHEAD && self.ahead.back().is_some_and(|last| *last <= limit) {
            let Some(next) = self.stream.next() else {
                break;
            };
            self.ahead.push_back(next);
        }
        self.ahead
            .iter()
            .copied()
            .take_while(|at| *at <= limit)
            .last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn starts(text: &str, arrivals: Arrivals, first: FirstArrival, threads: usize) -> Vec<u64> {
        let schedule: Schedule = text.parse().expect("valid");
        let stream = |t| ArrivalStream::new(&schedule, arrivals, first, t, threads);
        let mut all: Vec<u64> = (0..threads).flat_map(stream).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn even_arrivals_are_the_schedule_whatever_the_threads() {
        let text = "line(0,40,2) const(0,1) const(20,1.5)";
        let schedule: Schedule = text.parse().expect("valid");
        let ways = [FirstArrival::AtStart, FirstArrival::AfterInterval];
        for (threads, first) in [1, 2, 3, 7].into_iter().flat_map(|n| ways.map(|w| (n, w))) {
            let got = starts(text, Arrivals::Even, first, threads);
            let wanted: Vec<u64> = (0..schedule.total_arrivals())
                .filter_map(|k| schedule.arrival_time_from(first, k))
                .map(|t| t.as_nanos() as u64)
                .collect();
            assert_eq!(got.len(), 70);
            assert!(
                got.iter().zip(&wanted).all(|(a, b)| a.abs_diff(*b) <= 1),
                "{threads} threads, {first:?}"
            );
        }
    }

    proptest! {
        /// Looking ahead changes nothing of what comes, and finds the last of those that follow within the span.
        #[test]
        fn what_is_looked_at_ahead_still_comes_in_its_turn(rate in 1.0f64..50_000.0, span in 0u64..1_000_000) {
            let schedule = Schedule::constant(rate, std::time::Duration::from_millis(50));
            let stream = || ArrivalStream::new(&schedule, Arrivals::Poisson { seed: 5 }, FirstArrival::AtStart, 0, 1);
            let all: Vec<u64> = stream().collect();
            let mut upcoming = Upcoming::new(stream());
            for (index, at) in all.iter().enumerate() {
                prop_assert_eq!(upcoming.first(), Some(*at));
                let within = all[index..].iter().take(AHEAD).take_while(|later| **later <= at + span).last();
                prop_assert_eq!(upcoming.last_within(span), within.copied());
                upcoming.advance();
            }
            prop_assert_eq!(upcoming.first(), None);
            prop_assert_eq!(upcoming.last_within(span), None);
        }
    }

    #[test]
    fn equal_seeds_give_equal_arrivals_and_others_do_not() {
        let poisson = |seed| {
            starts(
                "const(200,5)",
                Arrivals::Poisson { seed },
                FirstArrival::AtStart,
                2,
            )
        };
        assert_eq!(poisson(7), poisson(7));
        assert_ne!(poisson(7), poisson(8));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_spread_of_a_poisson_process() {
        for threads in [1, 3] {
            let got = starts(
                "const(1000,20)",
                Arrivals::Poisson { seed: 3 },
                FirstArrival::AfterInterval,
                threads,
            );
            let n = got.len() as f64;
            assert!(
                (n - 20_000.0).abs() < 4.0 * 20_000f64.sqrt(),
                "{n} arrivals"
            );
            let gaps: Vec<f64> = got.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
            let cv = variance.sqrt() / mean;
            assert!((cv - 1.0).abs() < 0.05, "coefficient of variation {cv}");
        }
    }
}
