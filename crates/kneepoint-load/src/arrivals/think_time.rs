//! How long a virtual user thinks after a response.

use crate::arrivals::random::Random;
use crate::in_flight::nanos;
use kneepoint_model::ThinkTime;
use std::time::Duration;

/// A think time, ready to be drawn from. Times are nanoseconds.
#[derive(Debug)]
pub(crate) enum Pause<'p> {
    None,
    Fixed(u64),
    Exponential(f64),
    Empirical(&'p [Duration]),
}

impl<'p> Pause<'p> {
    /// Takes over a think time that the check of the plan has passed.
    pub(crate) fn new(think_time: &'p ThinkTime) -> Self {
        match think_time {
            ThinkTime::None => Self::None,
            ThinkTime::Fixed(time) if time.is_zero() => Self::None,
            ThinkTime::Fixed(time) => Self::Fixed(nanos(*time)),
            ThinkTime::Exponential { mean } => Self::Exponential(mean.as_secs_f64() * 1e9),
            ThinkTime::Empirical { quantiles } => Self::Empirical(quantiles),
        }
    }

    /// Whether there never is one.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// The next one.
    pub(crate) fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Self::None => 0,
            Self::Fixed(time) => *time,
            Self::Exponential(mean) => (mean * random.exponential()) as u64,
            Self::Empirical(quantiles) => between(quantiles, random.uniform()),
        }
    }
}

/// The quantile at `share`, linear between those that are known.
fn between(quantiles: &[Duration], share: f64) -> u64 {
    let at = share * (quantiles.len() - 1) as f64;
    let below = (at as usize).min(quantiles.len() - 2);
    let (low, high) = (nanos(quantiles[below]), nanos(quantiles[below + 1]));
    low + ((high - low) as f64 * (at - below as f64)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arrivals::random::Purpose;

    const DRAWS: u32 = 20_000;

    /// Draws many and checks their mean against what it must be, within `tolerance` of it, and their range.
    fn check(think_time: &ThinkTime, mean_ms: f64, tolerance: f64, range_ms: (u64, u64)) {
        let pause = Pause::new(think_time);
        let mut random = Random::new(7, Purpose::Visitors, 1);
        let drawn: Vec<u64> = (0..DRAWS).map(|_| pause.draw(&mut random)).collect();
        let mean = drawn.iter().map(|ns| *ns as f64 / 1e6).sum::<f64>() / f64::from(DRAWS);
        assert!(
            (mean - mean_ms).abs() <= tolerance * mean_ms,
            "{think_time:?}: mean {mean} ms"
        );
        let (least, most) = range_ms;
        assert!(
            drawn
                .iter()
                .all(|ns| (least * 1_000_000..=most * 1_000_000).contains(ns)),
            "{think_time:?}"
        );
    }

    #[test]
    fn think_times_have_their_distribution() {
        let ms = Duration::from_millis;
        check(&ThinkTime::None, 0.0, 0.0, (0, 0));
        check(&ThinkTime::Fixed(ms(5)), 5.0, 0.0, (5, 5));
        // The standard error of the mean of n exponential times is mean/sqrt(n): 0.7 % here.
        check(
            &ThinkTime::Exponential { mean: ms(10) },
            10.0,
            0.03,
            (0, 1_000),
        );
        // Half of them even between 0 and 10, half between 10 and 100: a mean of 2.5 + 27.5.
        let quantiles = vec![ms(0), ms(10), ms(100)];
        check(&ThinkTime::Empirical { quantiles }, 30.0, 0.03, (0, 100));
        let same = vec![ms(3), ms(3)];
        check(&ThinkTime::Empirical { quantiles: same }, 3.0, 0.0, (3, 3));
    }

    #[test]
    fn half_of_the_times_are_below_the_median() {
        let quantiles = [0, 10, 100].map(Duration::from_millis);
        assert_eq!(between(&quantiles, 0.0), 0);
        assert_eq!(between(&quantiles, 0.25), 5_000_000);
        assert_eq!(between(&quantiles, 0.5), 10_000_000);
        assert_eq!(between(&quantiles, 0.75), 55_000_000);
        assert!(between(&quantiles, 1.0 - f64::EPSILON) <= 100_000_000);
    }

    #[test]
    fn a_pause_beyond_all_clocks_is_the_longest_there_is() {
        let forever = ThinkTime::Fixed(Duration::MAX);
        let mut random = Random::new(1, Purpose::Visitors, 0);
        assert_eq!(Pause::new(&forever).draw(&mut random), u64::MAX);
    }
}
