//! When the requests of one thread start.

use crate::arrivals::random::{Purpose, Random};
use crate::plan::{Counter, Numbers};
use kneepoint_model::schedule::Cursor;
use kneepoint_model::{Arrivals, FirstArrival, Schedule};
use std::collections::VecDeque;

/// The intended starts of one thread, in order.
///
/// Even arrivals are shared out by number: thread *t* of *T* takes *k* = *t* (mod *T*). A Poisson process of rate
/// *r* is the sum of *T* independent ones of rate *r/T*, so each thread draws its own. Where several generators share a
/// load, a thread has *m* of *S* slots instead.
#[derive(Debug)]
pub(crate) struct ArrivalStream<'a> {
    cursor: Cursor<'a>,
    numbers: Counter,
    /// What the rate of the whole is divided by.
    parts: f64,
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
        numbers: &Numbers,
    ) -> Self {
        let mut stream = Self {
            cursor: schedule.cursor_from(first),
            numbers: numbers.counter(),
            parts: numbers.parts(),
            area: 0.0,
            end: schedule.total_arrivals() as f64,
            random: None,
        };
        if let Arrivals::Poisson { seed } = arrivals {
            // A Poisson process has no first interval that could be left out.
            stream.cursor = schedule.cursor();
            stream.random = Some(Random::new(seed, Purpose::Arrivals, numbers.stretch()));
            stream.end = f64::INFINITY;
        }
        stream.pass();
        stream
    }

    /// Goes on to the next arrival of this thread.
    fn pass(&mut self) {
        match &mut self.random {
            Some(random) => self.area += random.exponential() * self.parts,
            None => self.area = self.numbers.take() as f64,
        }
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
        self.pass();
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
        let numbers = |t| Numbers::of_thread(None, t, threads);
        let stream = |t| ArrivalStream::new(&schedule, arrivals, first, &numbers(t));
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

    /// What generators with these slots start together, each on as many threads as it may.
    fn union(text: &str, arrivals: Arrivals, owner: &[usize], threads: usize) -> Vec<u64> {
        let schedule: Schedule = text.parse().expect("valid");
        let of = owner.len() as u32;
        let mut all = Vec::new();
        for generator in 0..=owner.iter().copied().max().unwrap_or(0) {
            let own = (0..of)
                .filter(|slot| owner[*slot as usize] == generator)
                .collect();
            let Some(share) = crate::plan::Share::new(own, of) else {
                continue;
            };
            let threads = threads.min(share.slots().len());
            for thread in 0..threads {
                let numbers = Numbers::of_thread(Some(&share), thread, threads);
                all.extend(ArrivalStream::new(
                    &schedule,
                    arrivals,
                    FirstArrival::AtStart,
                    &numbers,
                ));
            }
        }
        all.sort_unstable();
        all
    }

    proptest! {
        /// However the load is dealt out over generators and their threads, even arrivals are those of the schedule: the
        /// closed form, where the integral of the rate reaches a whole number.
        #[test]
        fn the_union_of_generators_is_the_closed_form(
            owner in prop::collection::vec(0usize..5, 8..80),
            threads in 1usize..4,
        ) {
            let text = "line(0,400,2) const(0,1) const(200,1.5)";
            let schedule: Schedule = text.parse().expect("valid");
            let got = union(text, Arrivals::Even, &owner, threads);
            let wanted: Vec<u64> = (0..schedule.total_arrivals())
                .filter_map(|k| schedule.arrival_time_from(FirstArrival::AtStart, k))
                .map(|t| t.as_nanos() as u64)
                .collect();
            prop_assert_eq!(got.len(), wanted.len());
            prop_assert!(got.iter().zip(&wanted).all(|(a, b)| a.abs_diff(*b) <= 1));
        }

        /// And Poisson arrivals are a Poisson process of the whole rate: as many as the rate's integral, and in any stretch
        /// as spread out as they are many.
        #[test]
        fn the_union_of_thinned_generators_is_a_poisson_process(
            owner in prop::collection::vec(0usize..5, 8..80),
            threads in 1usize..4,
            seed: u64,
        ) {
            let got = union("const(1000,20)", Arrivals::Poisson { seed }, &owner, threads);
            let n = got.len() as f64;
            // Six standard deviations: one in a thousand million.
            prop_assert!((n - 20_000.0).abs() < 6.0 * 20_000f64.sqrt(), "{n} arrivals");
            let mut counts = vec![0f64; 200];
            got.iter().for_each(|at| counts[(*at / 100_000_000) as usize] += 1.0);
            let dispersion = counts.iter().map(|c| (c - 100.0).powi(2)).sum::<f64>() / 100.0 / 200.0;
            // Variance over mean of 200 counts has a standard deviation of a tenth.
            prop_assert!((dispersion - 1.0).abs() < 0.6, "{dispersion}");
        }

        /// Looking ahead changes nothing of what comes, and finds the last of those that follow within the span.
        #[test]
        fn what_is_looked_at_ahead_still_comes_in_its_turn(rate in 1.0f64..50_000.0, span in 0u64..1_000_000) {
            let schedule = Schedule::constant(rate, std::time::Duration::from_millis(50));
            let stream = || ArrivalStream::new(&schedule, Arrivals::Poisson { seed: 5 }, FirstArrival::AtStart, &Numbers::of_thread(None, 0, 1));
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
