//! The anytime-valid paired test: look after every pair, stop when it is clear.
//!
//! Gaussian effect-size mixture of the t statistic (Wang and Ramdas, arXiv 2310.03722; method.md section 2).

use super::Interval;

/// Width of the mixture over effect sizes.
const MIXTURE: f64 = 0.5;
/// Evidence at which a test stops: 1 in 20 false stops at most, whenever one looks.
pub const ENOUGH: f64 = 20.0;
/// Fewest pairs at which the e-value can be looked at: with fewer it cannot reach [`ENOUGH`].
pub const MIN_PAIRS: usize = 6;
/// Smallest standard deviation of paired differences taken at face value. Steps that all clip at the same
/// value have none at all, which says that they are far apart, not that the instrument is perfect.
const SD_FLOOR: f64 = 1e-3;

/// Mean and standard deviation (n - 1) of paired differences.
#[must_use]
pub fn mean_and_sd(differences: &[f64]) -> (f64, f64) {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    (mean, variance.sqrt().max(SD_FLOOR))
}

fn ln_e(n: f64, mean: f64, sd: f64, shift: f64) -> f64 {
    let nu = n - 1.0;
    let t_squared = n * ((mean - shift) / sd).powi(2);
    let widened = 1.0 + n * MIXTURE;
    -0.5 * widened.ln()
        + (nu + 1.0) / 2.0 * ((1.0 + t_squared / nu) / (1.0 + t_squared / (nu * widened))).ln()
}

/// The e-value of paired differences against "their mean is zero". 1 with fewer than two pairs.
#[must_use]
pub fn e_value(differences: &[f64]) -> f64 {
    if differences.len() < 2 {
        return 1.0;
    }
    let (mean, sd) = mean_and_sd(differences);
    ln_e(differences.len() as f64, mean, sd, 0.0).exp()
}

/// The 95 % confidence sequence of the mean difference: the shifts that the e-test does not reject. It is
/// valid at every time of looking. `None` with fewer than [`MIN_PAIRS`] pairs.
#[must_use]
pub fn confidence_sequence(differences: &[f64]) -> Option<Interval> {
    if differences.len() < MIN_PAIRS {
        return None;
    }
    let n = differences.len() as f64;
    let (mean, sd) = mean_and_sd(differences);
    // The e-value grows with the distance from the mean: find where it reaches 20.
    let (mut inside, mut outside) = (0.0, sd);
    while ln_e(n, mean, sd, mean + outside) < ENOUGH.ln() {
        outside *= 2.0;
        if outside > 1e6 * sd {
            break;
        }
    }
    for _ in 0..60 {
        let middle = (inside + outside) / 2.0;
        if ln_e(n, mean, sd, mean + middle) < ENOUGH.ln() {
            inside = middle
        } else {
            outside = middle
        }
    }
    Some(Interval {
        low: mean - outside,
        estimate: mean,
        high: mean + outside,
    })
}

/// Smallest mean difference visible with 80 % power at the 5 % level: 2.8 sd / sqrt(n) (method.md section 2).
#[must_use]
pub fn smallest_visible(differences: &[f64]) -> f64 {
    if differences.len() < 2 {
        return f64::INFINITY;
    }
    2.8 * mean_and_sd(differences).1 / (differences.len() as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::chance::normals;

    fn rejects_within(true_mean: f64, pairs: usize, seed: u64) -> bool {
        let all: Vec<f64> = normals(seed).take(pairs).map(|z| z + true_mean).collect();
        (MIN_PAIRS..=pairs).any(|n| e_value(&all[..n]) >= ENOUGH)
    }

    #[test]
    fn peeking_after_every_pair_keeps_false_alarms_at_five_percent() {
        let false_alarms = (0..2000)
            .filter(|seed| rejects_within(0.0, 48, *seed))
            .count();
        assert!(false_alarms <= 100, "{false_alarms} of 2000");
    }

    #[test]
    fn an_effect_of_one_and_a_half_sd_is_found() {
        let found = (0..500)
            .filter(|seed| rejects_within(1.5, 24, *seed))
            .count();
        assert!(found >= 450, "{found} of 500");
    }

    #[test]
    fn the_confidence_sequence_is_the_inverted_test() {
        let differences: Vec<f64> = normals(7).take(12).map(|z| z + 1.0).collect();
        let sequence = confidence_sequence(&differences).expect("enough pairs");
        let shifted = |by: f64| differences.iter().map(|d| d - by).collect::<Vec<_>>();
        assert!(e_value(&shifted(sequence.high + 1e-6)) >= ENOUGH);
        assert!(e_value(&shifted(sequence.high - 1e-3)) < ENOUGH);
        assert!(sequence.contains(1.0));
        assert_eq!(confidence_sequence(&differences[..3]), None);
    }

    #[test]
    fn identical_differences_do_not_divide_by_zero() {
        assert!(e_value(&[2.0; 6]) >= ENOUGH);
        assert!(e_value(&[0.0; 6]) < 1.0);
    }
}
