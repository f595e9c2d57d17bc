//! The last ten seconds of a log.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What counts as now.
const WINDOW: Duration = Duration::from_secs(10);

/// Looks of the last seconds, and what each of them saw.
#[derive(Debug, Default)]
pub(super) struct Window {
    looks: VecDeque<Look>,
    /// Lines since the watch began.
    pub(super) total: u64,
}

#[derive(Debug)]
struct Look {
    at: Instant,
    lines: u64,
    /// Lines that were read in full, and how many of them failed.
    read: u64,
    failed: u64,
    times_s: Vec<f32>,
}

impl Window {
    /// A look begins, which found this many lines.
    pub(super) fn begin(&mut self, at: Instant, lines: u64) {
        // The look before the window stays: from it on the lines are counted.
        while self
            .looks
            .get(1)
            .is_some_and(|look| at.duration_since(look.at) >= WINDOW)
        {
            self.looks.pop_front();
        }
        // What the first look found came in an unknown time.
        let lines = if self.looks.is_empty() { 0 } else { lines };
        self.total += lines;
        self.looks.push_back(Look {
            at,
            lines,
            read: 0,
            failed: 0,
            times_s: Vec::new(),
        });
    }

    /// A line of this look that was read in full.
    pub(super) fn add(&mut self, took_s: Option<f32>, failed: bool) {
        if let Some(look) = self.looks.back_mut() {
            look.read += 1;
            look.failed += u64::from(failed);
            look.times_s.extend(took_s);
        }
    }

    /// The looks that have a look before them.
    fn counted(&self) -> impl Iterator<Item = &Look> {
        self.looks.iter().skip(1)
    }

    pub(super) fn rate_hz(&self, now: Instant) -> Option<f64> {
        let passed = now.duration_since(self.looks.front()?.at).as_secs_f64();
        let lines: u64 = self.counted().map(|look| look.lines).sum();
        (self.looks.len() > 1).then(|| lines as f64 / passed.max(1e-3))
    }

    pub(super) fn failed_share(&self) -> Option<f64> {
        let read: u64 = self.counted().map(|look| look.read).sum();
        let failed: u64 = self.counted().map(|look| look.failed).sum();
        (read > 0).then(|| failed as f64 / read as f64)
    }

    /// The 95th percentile: the smallest time that at least 95 of a hundred do not exceed.
    pub(super) fn p95_s(&self) -> Option<f64> {
        let mut times: Vec<f32> = self
            .counted()
            .flat_map(|look| look.times_s.iter().copied())
            .collect();
        let at = (times.len() * 95).div_ceil(100).checked_sub(1)?;
        let (_, p95, _) = times.select_nth_unstable_by(at, f32::total_cmp);
        Some(f64::from(*p95))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rates_are_of_the_last_ten_seconds() {
        let began = Instant::now();
        let mut window = Window::default();
        window.begin(began, 500);
        assert_eq!((window.rate_hz(began), window.total), (None, 0));
        for second in 1..=30 {
            let now = began + Duration::from_secs(second);
            window.begin(now, if second <= 15 { 100 } else { 10 });
            let rate = window.rate_hz(now).expect("a rate");
            assert!((10.0..=100.0).contains(&rate), "{rate}");
        }
        assert_eq!(window.rate_hz(began + Duration::from_secs(30)), Some(10.0));
        assert_eq!(window.total, 1650);
    }

    proptest! {
        #[test]
        fn at_least_95_of_100_are_not_above(times in proptest::collection::vec(0.0_f32..100.0, 1..300)) {
            let began = Instant::now();
            let mut window = Window::default();
            window.begin(began, 0);
            window.begin(began, times.len() as u64);
            times.iter().for_each(|time| window.add(Some(*time), false));
            let p95 = window.p95_s().expect("a time") as f32;
            let within = times.iter().filter(|time| **time <= p95).count();
            prop_assert!(within * 100 >= times.len() * 95);
            let below = times.iter().filter(|time| **time < p95).count();
            prop_assert!(below * 100 < times.len() * 95);
        }
    }
}
