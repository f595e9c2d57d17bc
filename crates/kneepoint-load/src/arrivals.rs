//! When the requests of one thread start, and which request each one is.

use kneepoint_model::schedule::Cursor;
use kneepoint_model::{Arrivals, Schedule, Workload};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A uniform number in [0, 1) with all 53 bits. Written out so that a seed means the same load in every version.
fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A generator of its own per thread: streams of 2^128 numbers that do not overlap.
fn stream(seed: u64, thread: usize) -> Xoshiro256PlusPlus {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..thread).for_each(|_| random.jump());
    random
}

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
    random: Option<Xoshiro256PlusPlus>,
}

impl<'a> ArrivalStream<'a> {
    pub(crate) fn new(
        schedule: &'a Schedule,
        arrivals: Arrivals,
        thread: usize,
        threads: usize,
    ) -> Self {
        let mut stream = Self {
            cursor: schedule.cursor(),
            step: threads as f64,
            area: thread as f64,
            end: schedule.total_arrivals() as f64,
            random: None,
        };
        if let Arrivals::Poisson { seed } = arrivals {
            stream.random = Some(self::stream(seed, thread));
            stream.end = f64::INFINITY;
            stream.area = stream.gap();
        }
        stream
    }

    /// Integrated rate between an arrival of this thread and its next.
    fn gap(&mut self) -> f64 {
        self.random
            .as_mut()
            .map_or(self.step, |random| -(-uniform(random)).ln_1p() * self.step)
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

/// The weighted mixture of requests, as one thread draws it.
#[derive(Debug)]
pub(crate) struct Mix {
    /// Sums of the weights so far, scaled to end at 1.
    upper: Vec<f64>,
    random: Xoshiro256PlusPlus,
}

impl Mix {
    pub(crate) fn new(workload: &Workload, seed: u64, thread: usize) -> Self {
        let total: f64 = workload.requests.iter().map(|r| r.weight).sum();
        let mut sum = 0.0;
        let upper = workload.requests.iter().map(|r| {
            sum += r.weight / total;
            sum
        });
        let upper = upper.collect();
        // Another half of the generator's period, so that a seed shared with the arrivals shares no numbers.
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        random.long_jump();
        (0..thread).for_each(|_| random.jump());
        Self { upper, random }
    }

    /// The index of the next request.
    pub(crate) fn draw(&mut self) -> u32 {
        if self.upper.len() == 1 {
            return 0;
        }
        let at = uniform(&mut self.random);
        let index = self.upper.partition_point(|&upper| upper <= at);
        // The sums may end a hair below 1: fall back on the last request that has a weight at all.
        index.min(self.last_weighted()) as u32
    }

    fn last_weighted(&self) -> usize {
        let end = self.upper[self.upper.len() - 1];
        self.upper.partition_point(|&upper| upper < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Request;
    use proptest::prelude::*;

    fn starts(text: &str, arrivals: Arrivals, threads: usize) -> Vec<u64> {
        let schedule: Schedule = text.parse().expect("valid");
        let mut all: Vec<u64> = (0..threads)
            .flat_map(|t| ArrivalStream::new(&schedule, arrivals, t, threads).collect::<Vec<_>>())
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn even_arrivals_are_the_schedule_whatever_the_threads() {
        for threads in [1, 2, 3, 7] {
            let got = starts(
                "line(0,40,2) const(0,1) const(20,1.5)",
                Arrivals::Even,
                threads,
            );
            let schedule: Schedule = "line(0,40,2) const(0,1) const(20,1.5)"
                .parse()
                .expect("valid");
            let wanted: Vec<u64> = (0..schedule.total_arrivals())
                .filter_map(|k| schedule.arrival_time(k))
                .map(|t| t.as_nanos() as u64)
                .collect();
            assert_eq!(got.len(), 70);
            assert!(
                got.iter().zip(&wanted).all(|(a, b)| a.abs_diff(*b) <= 1),
                "{threads} threads"
            );
        }
    }

    #[test]
    fn equal_seeds_give_equal_arrivals_and_others_do_not() {
        let poisson = |seed| starts("const(200,5)", Arrivals::Poisson { seed }, 2);
        assert_eq!(poisson(7), poisson(7));
        assert_ne!(poisson(7), poisson(8));
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_spread_of_a_poisson_process() {
        for threads in [1, 3] {
            let got = starts("const(1000,20)", Arrivals::Poisson { seed: 3 }, threads);
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

    #[test]
    fn the_mixture_keeps_its_weights() {
        let mut workload = Workload::single("/a");
        workload.requests[0].weight = 8.0;
        for (path, weight) in [("/b", 2.0), ("/never", 0.0)] {
            let mut request = Request::get(path);
            request.weight = weight;
            workload.requests.push(request);
        }
        let mut mix = Mix::new(&workload, 42, 0);
        let mut counts = [0u32; 3];
        (0..20_000).for_each(|_| counts[mix.draw() as usize] += 1);
        let sd = (20_000f64 * 0.8 * 0.2).sqrt();
        assert!(
            (f64::from(counts[0]) - 16_000.0).abs() < 4.0 * sd,
            "{counts:?}"
        );
        assert_eq!(counts[2], 0);
    }

    proptest! {
        #[test]
        fn a_draw_is_always_a_request(weights in prop::collection::vec(0.0..10.0f64, 1..9), seed: u64) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let mut workload = Workload { requests: Vec::new(), ..Workload::single("/") };
            for weight in &weights {
                let mut request = Request::get("/");
                request.weight = *weight;
                workload.requests.push(request);
            }
            let mut mix = Mix::new(&workload, seed, 1);
            for _ in 0..50 {
                let drawn = mix.draw() as usize;
                prop_assert!(drawn < weights.len());
                prop_assert!(weights.len() == 1 || weights[drawn] > 0.0);
            }
        }
    }
}
