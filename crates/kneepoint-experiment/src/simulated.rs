//! A simulated worker pool behind the same interface as the real stack, for the planners' tests.
//!
//! First come, first served: `workers` servers, exponential service times, a queue without bound.

use crate::bench::{Bench, Offer, Step};
use kneepoint_model::{LoadPoint, Outcome, Slo};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// An M/M/c queue with a known limit.
#[derive(Debug, Clone)]
pub(crate) struct SimulatedStack {
    workers: u32,
    service_s: f64,
    state: u64,
    /// The SLO whose limit is known.
    pub(crate) slo: Slo,
    /// When set, every request fails.
    pub(crate) broken: bool,
    /// Load driven so far.
    pub(crate) driven: Duration,
}

impl SimulatedStack {
    /// A pool of workers with a mean service time; runs with equal seeds are equal.
    #[must_use]
    pub(crate) fn new(workers: u32, service: Duration, seed: u64) -> Self {
        Self {
            workers,
            service_s: service.as_secs_f64(),
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            slo: Slo {
                response_time: Duration::from_millis(300),
                ..Slo::default()
            },
            broken: false,
            driven: Duration::ZERO,
        }
    }

    fn uniform(&mut self) -> f64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((self.state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.uniform().ln()
    }

    /// The rate at which the violating share of long runs is exactly the SLO's, by bisection on this very
    /// simulation with long runs.
    #[must_use]
    pub(crate) fn true_limit_hz(&self) -> f64 {
        let mut probe = self.clone();
        let capacity = f64::from(self.workers) / self.service_s;
        let (mut low, mut high) = (0.3 * capacity, capacity);
        for _ in 0..12 {
            let middle = f64::midpoint(low, high);
            // Many short steps, as the search takes them: a step's start is part of what it sees.
            let (mut violations, mut arrivals) = (0, 0);
            for _ in 0..60 {
                let point = probe.open(middle, 5.0, 1.0);
                violations += point.violations();
                arrivals += point.arrivals;
            }
            if violations as f64 > arrivals as f64 * self.slo.violating_share() {
                high = middle
            } else {
                low = middle
            }
        }
        f64::midpoint(low, high)
    }

    fn point(&self, offered_hz: f64, window_s: f64, response_times_s: &[f64]) -> LoadPoint {
        let mut point = LoadPoint {
            offered_hz,
            window_s,
            arrivals: response_times_s.len() as u64,
            ..LoadPoint::default()
        };
        let limit = self.slo.response_time.as_secs_f64();
        for time in response_times_s {
            let outcome = if self.broken {
                Outcome::HttpError
            } else if *time > self.slo.timeout.as_secs_f64() {
                Outcome::Timeout
            } else {
                point.response.record_us((time * 1e6) as u64);
                Outcome::Ok
            };
            *point.outcomes.by_outcome.entry(outcome).or_default() += 1;
            point.good += u64::from(outcome == Outcome::Ok && *time <= limit);
        }
        point
    }

    fn open(&mut self, rate_hz: f64, duration_s: f64, skip_s: f64) -> LoadPoint {
        let mut free_at: BinaryHeap<Reverse<u64>> = (0..self.workers).map(|_| Reverse(0)).collect();
        let (mut now, mut times) = (0.0, Vec::new());
        loop {
            now += self.exponential(1.0 / rate_hz);
            if now > duration_s {
                break;
            }
            let Reverse(earliest) = free_at.pop().unwrap_or(Reverse(0));
            let begin = now.max(earliest as f64 / 1e9);
            let end = begin + self.exponential(self.service_s);
            free_at.push(Reverse((end * 1e9) as u64));
            if now > skip_s {
                times.push(end - now);
            }
        }
        self.point(rate_hz, duration_s - skip_s, &times)
    }

    fn closed(&mut self, workers: u32, duration_s: f64) -> LoadPoint {
        let served_by = workers.min(self.workers);
        let capacity = f64::from(served_by) / self.service_s;
        let count = (capacity * duration_s) as usize;
        let waiting = f64::from(workers) / capacity;
        let times: Vec<f64> = (0..count).map(|_| self.exponential(waiting)).collect();
        self.point(capacity, duration_s, &times)
    }
}

impl Bench for SimulatedStack {
    type Error = std::convert::Infallible;

    fn measure(&mut self, _arm: &str, step: &Step) -> Result<LoadPoint, Self::Error> {
        self.driven += step.duration;
        let seconds = step.duration.as_secs_f64();
        Ok(match step.offer {
            Offer::Rate(rate) => self.open(rate, seconds, step.skip.as_secs_f64()),
            Offer::Workers(workers) => self.closed(workers, seconds),
        })
    }
}
