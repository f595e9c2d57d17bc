//! How long visitors pause, from the differences of a log's times.

use crate::entry::time::SECOND_US;
use crate::sample::uniform;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::time::Duration;

/// How many pauses are kept as a uniform sample. Their quantiles are then right within 0.4 points.
const KEPT: usize = 20_000;

/// Into how many equal steps the distribution is cut.
const STEPS: usize = 200;

/// Pauses of one kind: their sum exactly, and a uniform sample of them.
///
/// With times in whole seconds a pause can come out negative by up to a second, and its mean over many is right
/// nevertheless: what rounding takes from one pause it adds to another. So they are kept with their sign.
#[derive(Debug)]
pub(crate) struct Pauses {
    count: u64,
    sum_us: i128,
    kept_us: Vec<i64>,
    random: Xoshiro256PlusPlus,
}

impl Pauses {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            count: 0,
            sum_us: 0,
            kept_us: Vec::new(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    pub(crate) fn add(&mut self, pause_us: i64) {
        self.count += 1;
        self.sum_us += i128::from(pause_us);
        if self.kept_us.len() < KEPT {
            self.kept_us.push(pause_us);
        } else {
            let at = (uniform(&mut self.random) * self.count as f64) as usize;
            if at < KEPT {
                self.kept_us[at] = pause_us;
            }
        }
    }

    /// Joins two kinds into one.
    pub(crate) fn merge(mut self, mut other: Self) -> Self {
        let (count, sum_us) = (self.count + other.count, self.sum_us + other.sum_us);
        if self.kept_us.len() + other.kept_us.len() > KEPT {
            let share = self.count as f64 / count as f64;
            let own = ((KEPT as f64 * share).round() as usize).min(self.kept_us.len());
            self.shuffle();
            other.shuffle();
            self.kept_us.truncate(own);
            other.kept_us.truncate(KEPT - own);
        }
        self.kept_us.append(&mut other.kept_us);
        Self {
            count,
            sum_us,
            ..self
        }
    }

    fn shuffle(&mut self) {
        for last in (1..self.kept_us.len()).rev() {
            let other = (self.random.next_u64() % (last as u64 + 1)) as usize;
            self.kept_us.swap(last, other);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The mean in seconds, 0 where there is none.
    pub(crate) fn mean_s(&self) -> f64 {
        match self.count {
            0 => 0.0,
            count => (self.sum_us as f64 / count as f64 / SECOND_US as f64).max(0.0),
        }
    }

    /// The median in seconds, 0 where there is none.
    pub(crate) fn median_s(&self) -> f64 {
        let mut sorted = self.kept_us.clone();
        sorted.sort_unstable();
        let median = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
        (median as f64 / SECOND_US as f64).max(0.0)
    }

    /// The distribution of pauses of which a share is none at all: its quantiles at equal steps, linear between
    /// them, with the mean of the data. `resolution_us` is the step of the log's times: whole seconds are spread
    /// over the second they stand for.
    pub(crate) fn quantiles(&self, none: f64, resolution_us: i64) -> Vec<Duration> {
        let sorted = self.sorted_s(resolution_us);
        let Some(last) = sorted.len().checked_sub(1) else {
            return vec![Duration::ZERO; 2];
        };
        let rank = |share: f64| (share - none).max(0.0) / (1.0 - none).max(1e-9) * last as f64;
        let value = |share: f64| {
            if share < none {
                return 0.0;
            }
            let rank = rank(share).min(last as f64);
            let low = sorted[rank as usize];
            let high = sorted[(rank as usize + 1).min(last)];
            low + (high - low) * rank.fract()
        };
        let mut values: Vec<f64> = (0..=STEPS)
            .map(|i| value(i as f64 / STEPS as f64))
            .collect();
        // The longest pause is an accident of the log, and a line up to it would make the last step far longer
        // than it was: the end is put where the step's mean is right.
        let before = values[STEPS - 1];
        let tail = &sorted[(rank(1.0 - 1.0 / STEPS as f64) as usize).min(last)..];
        let tail_mean = tail.iter().sum::<f64>() / tail.len() as f64;
        values[STEPS] = (2.0 * tail_mean - before).max(before);
        let steps = values.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
        let mean = steps.sum::<f64>() / STEPS as f64;
        let wanted = self.mean_s() * (1.0 - none);
        let scale = if mean > 0.0 { wanted / mean } else { 0.0 };
        values
            .into_iter()
            .map(|s| Duration::try_from_secs_f64(s * scale).unwrap_or_default())
            .collect()
    }

    fn sorted_s(&self, resolution_us: i64) -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let width = if resolution_us >= SECOND_US {
            resolution_us as f64
        } else {
            0.0
        };
        let spread = |us: &i64| {
            let us = *us as f64 + (uniform(&mut random) - 0.5) * width;
            us.max(0.0) / SECOND_US as f64
        };
        let mut sorted: Vec<f64> = self.kept_us.iter().map(spread).collect();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean of the distribution that quantiles at equal steps describe.
    fn mean_s(quantiles: &[Duration]) -> f64 {
        let pairs = quantiles.windows(2);
        let sum: f64 = pairs
            .map(|pair| (pair[0] + pair[1]).as_secs_f64() / 2.0)
            .sum();
        sum / (quantiles.len() - 1) as f64
    }

    fn exponential(mean_s: f64, count: usize) -> impl Iterator<Item = f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        (0..count).map(move |_| -(1.0 - uniform(&mut random)).ln() * mean_s)
    }

    #[test]
    fn the_distribution_and_its_mean_are_kept() {
        let mut pauses = Pauses::new(1);
        exponential(2.0, 50_000).for_each(|s| pauses.add((s * 1e6) as i64));
        let quantiles = pauses.quantiles(0.0, 1000);
        assert!(quantiles.is_sorted());
        assert!((mean_s(&quantiles) / pauses.mean_s() - 1.0).abs() < 1e-6);
        // The median of an exponential distribution is its mean times ln 2.
        let median = quantiles[STEPS / 2].as_secs_f64();
        assert!((median / (2.0 * 2f64.ln()) - 1.0).abs() < 0.05, "{median}");
        assert!((pauses.median_s() / median - 1.0).abs() < 0.05);
    }

    #[test]
    fn pauses_that_are_none_come_first() {
        let mut pauses = Pauses::new(1);
        (0..1000).for_each(|_| pauses.add(10_000_000));
        let quantiles = pauses.quantiles(0.75, 1000);
        assert_eq!(quantiles[STEPS / 2], Duration::ZERO);
        assert!((mean_s(&quantiles) - 2.5).abs() < 1e-6);
        assert!((quantiles[STEPS].as_secs_f64() - 10.0).abs() < 0.3);
    }

    /// A visitor's requests at times that are then rounded down to whole seconds.
    #[test]
    fn whole_seconds_keep_the_mean_of_pauses_shorter_than_a_second() {
        let mut pauses = Pauses::new(1);
        let mut at = 0.0f64;
        for pause in exponential(0.3, 20_000) {
            let next = at + pause;
            pauses.add((next.floor() as i64 - at.floor() as i64) * SECOND_US);
            at = next;
        }
        assert!(
            (pauses.mean_s() / 0.3 - 1.0).abs() < 0.03,
            "{}",
            pauses.mean_s()
        );
        let quantiles = pauses.quantiles(0.0, SECOND_US);
        assert!((mean_s(&quantiles) / pauses.mean_s() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn joined_kinds_weigh_what_they_counted() {
        let kind = |pause_us: i64, count: usize| {
            let mut pauses = Pauses::new(1);
            (0..count).for_each(|_| pauses.add(pause_us));
            pauses
        };
        let joined = kind(1_000_000, 30_000).merge(kind(5_000_000, 10_000));
        assert_eq!((joined.count(), joined.kept_us.len()), (40_000, KEPT));
        assert!((joined.mean_s() - 2.0).abs() < 1e-9);
        let long = joined.kept_us.iter().filter(|us| **us > 2_000_000).count();
        assert_eq!(long, KEPT / 4);
    }

    #[test]
    fn without_pauses_there_is_none() {
        assert_eq!(Pauses::new(1).quantiles(0.0, 1000), [Duration::ZERO; 2]);
    }
}
