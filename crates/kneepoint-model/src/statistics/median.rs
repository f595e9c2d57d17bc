//! The median of measurements that resemble their neighbours, and how well it is known.

use super::Interval;
use super::autocorrelation::{inflation, lag_one};
use super::special::normal_quantile;

/// The middle value; of two in the middle, their mean. `None` of none.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    middle(&sorted(values))
}

/// The median with its 95 % interval, from values in the order in which they were measured.
///
/// The interval lies between two of the values themselves, so that it needs no assumption about how they are distributed:
/// the ranks n/2 -+ z sqrt(n)/2 (Conover, "Practical Nonparametric Statistics", section 3.2). What counts is how many values
/// lie below the median, so the square root is widened by [`inflation`] for how much neighbours resemble each other in that.
/// `None` where the values are too few for their smallest and largest to be the ends: always with fewer than eight.
#[must_use]
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let sorted = sorted(values);
    let estimate = middle(&sorted)?;
    let above: Vec<f64> = values
        .iter()
        .map(|value| f64::from(u8::from(*value > estimate)))
        .collect();
    let n = values.len() as f64;
    let rank_sd = (n * lag_one(&above).map_or(1.0, inflation)).sqrt() / 2.0;
    let reach = normal_quantile(0.975) * rank_sd;
    let rank = (n / 2.0 - reach).floor();
    (rank >= 1.0).then(|| Interval {
        low: sorted[rank as usize - 1],
        estimate,
        high: sorted[sorted.len() - rank as usize],
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[sorted.len() / 2]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::chance::normals;

    #[test]
    fn the_middle_value() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    }

    #[test]
    fn few_values_have_no_interval() {
        assert_eq!(median_interval(&[5.0, 1.0, 7.0, 2.0, 3.0, 6.0, 4.0]), None);
        let eight = median_interval(&[5.0, 1.0, 8.0, 2.0, 7.0, 3.0, 6.0, 4.0]).expect("eight");
        assert_eq!((eight.low, eight.high), (1.0, 8.0));
    }

    /// How many of 1000 intervals hold the true median of what `values` draws.
    fn check(values: impl Fn(u64) -> Vec<f64>, truth: f64, holds: std::ops::RangeInclusive<usize>) {
        let held = (1..=1000)
            .filter(|seed| median_interval(&values(*seed)).is_some_and(|it| it.contains(truth)))
            .count();
        assert!(holds.contains(&held), "{held} of 1000");
    }

    #[test]
    fn nineteen_of_twenty_intervals_hold_a_skewed_median() {
        let skewed = |seed| normals(seed).take(60).map(f64::exp).collect();
        check(skewed, 1.0, 940..=985);
    }

    /// Values of which each is near the one before.
    #[test]
    fn neighbours_that_resemble_each_other_say_less() {
        let drifts = |seed| {
            let mut level = 0.0;
            let next = |noise| {
                level = 0.5 * level + noise;
                level
            };
            normals(seed).take(60).map(next).collect()
        };
        check(drifts, 0.0, 900..=985);
    }
}
