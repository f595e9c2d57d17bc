//! The median of measurements that resemble their neighbours, and how well it is known.

use super::Interval;
use super::autocorrelation::{inflation, lag_one};
use super::sequential::mean_and_sd;
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
    between_ranks(values, &vec![0.5; values.len()])
}

/// The median of positive values with the 95 % interval of what chance leaves of it where something that was measured beside
/// each says what moved it, such as how slow the machine was: how well it is known to whoever met the same conditions.
///
/// A straight line through `beside` (least squares on logarithms) and what it leaves say for each value how likely it was
/// below the median. How many are below scatters by the sum of `p (1 - p)` then, where it is n/4 in [`median_interval`], which
/// says how the median scatters over other conditions as well. `None` as there, and where the two are not of one length.
#[must_use]
pub fn median_interval_beside(values: &[f64], beside: &[f64]) -> Option<Interval> {
    let at = median(values)?.ln();
    if values.len() != beside.len() {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let line = line(beside, &logs);
    let left: Vec<f64> = logs.iter().zip(&line).map(|(log, on)| log - on).collect();
    let share_below = |on: &f64| {
        let below = left.iter().filter(|left| *left + on <= at).count();
        below as f64 / left.len() as f64
    };
    let likely: Vec<f64> = line.iter().map(share_below).collect();
    between_ranks(values, &likely)
}

/// What the least-squares line through these points says at each of them.
fn line(x: &[f64], y: &[f64]) -> Vec<f64> {
    let ((x_mean, _), (y_mean, _)) = (mean_and_sd(x), mean_and_sd(y));
    let spread: f64 = x.iter().map(|x| (x - x_mean).powi(2)).sum();
    let shared = x.iter().zip(y).map(|(x, y)| (x - x_mean) * (y - y_mean));
    let slope = shared.sum::<f64>() / spread.max(f64::MIN_POSITIVE);
    x.iter().map(|x| y_mean + slope * (x - x_mean)).collect()
}

/// The median between the ranks that it may have where each of the values was as likely below it as this.
fn between_ranks(values: &[f64], likely_below: &[f64]) -> Option<Interval> {
    let sorted = sorted(values);
    let estimate = middle(&sorted)?;
    let by_chance: Vec<f64> = values
        .iter()
        .zip(likely_below)
        .map(|(value, likely)| f64::from(u8::from(*value > estimate)) - (1.0 - likely))
        .collect();
    let variance: f64 = likely_below
        .iter()
        .map(|likely| likely * (1.0 - likely))
        .sum();
    let rank_sd = (variance * lag_one(&by_chance).map_or(1.0, inflation)).sqrt();
    let reach = normal_quantile(0.975) * rank_sd;
    let rank = (values.len() as f64 / 2.0 - reach).floor();
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

    /// A machine that drifts, what it does to values and how slow something beside them was, which is known to a tenth.
    fn on_a_machine_that_drifts(seed: u64, conditions: u64) -> (Vec<f64>, Vec<f64>) {
        let mut level = 0.0;
        let drifts = normals(conditions).take(60).map(|noise| {
            level = 0.8 * level + noise;
            level
        });
        let slow: Vec<f64> = drifts.collect();
        let mut chance = normals(seed);
        let mut next = |share: f64| share * chance.next().expect("endless");
        let values = slow.iter().map(|slow| (slow + next(0.5)).exp()).collect();
        (values, slow.iter().map(|slow| slow + next(0.1)).collect())
    }

    /// Under the same conditions, a median is known better than over others.
    #[test]
    fn what_moved_the_values_does_not_widen_their_interval() {
        let (values, beside) = on_a_machine_that_drifts(7, 3);
        let half = |it: Option<Interval>| it.expect("an interval").relative_half_width();
        let (known, alone) = (
            half(median_interval_beside(&values, &beside)),
            half(median_interval(&values)),
        );
        assert!(known < 0.6 * alone, "{known} {alone}");
        let by_itself = |seed| {
            let chance: Vec<f64> = normals(seed).take(60).collect();
            half(median_interval_beside(&values, &chance)) / alone
        };
        // What says nothing hardly changes anything.
        let usual = median(&(1..40).map(by_itself).collect::<Vec<_>>()).expect("values");
        assert!((0.85..1.1).contains(&usual), "{usual}");
        assert_eq!(median_interval_beside(&values, &beside[1..]), None);
    }

    /// How often the interval holds what half of all values under these very conditions lie below.
    #[test]
    fn at_least_nineteen_of_twenty_intervals_hold_the_median_under_the_same_conditions() {
        const CONDITIONS: u64 = 3;
        let many: Vec<f64> = (10_001..10_401)
            .flat_map(|seed| on_a_machine_that_drifts(seed, CONDITIONS).0)
            .collect();
        let truth = median(&many).expect("values");
        let held = (1..=1000)
            .filter(|seed| {
                let (values, beside) = on_a_machine_that_drifts(*seed, CONDITIONS);
                median_interval_beside(&values, &beside).is_some_and(|it| it.contains(truth))
            })
            .count();
        assert!((940..=992).contains(&held), "{held} of 1000");
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
