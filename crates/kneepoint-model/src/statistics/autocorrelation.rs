//! How much neighbouring measurements resemble each other, and what that costs in certainty.

/// Fewest values from which a lag-one autocorrelation is more than noise itself.
const FEWEST: usize = 8;
/// Largest autocorrelation that is taken at face value: beyond, the inflation would be all guess.
const LARGEST: f64 = 0.95;

/// Lag-one autocorrelation; `None` with fewer than eight values, or when all are the same.
#[must_use]
pub fn lag_one(values: &[f64]) -> Option<f64> {
    if values.len() < FEWEST {
        return None;
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let power: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let lagged: f64 = values
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    (power > 0.0).then(|| lagged / power)
}

/// Variance inflation of a mean whose values follow a first-order autoregression, (1 + rho)/(1 - rho)
/// (method.md section 1). Never below 1.
#[must_use]
pub fn inflation(rho: f64) -> f64 {
    let rho = rho.clamp(0.0, LARGEST);
    (1.0 + rho) / (1.0 - rho)
}

/// Values until which the mean of a machine's speed may move on: half an hour of steps of a search for a limit. A drift of
/// this kind has no mean that it comes back to, so how uncertain the mean is depends on how long one means to rely on it.
const HORIZON: f64 = 200.0;
/// Groups that the values are compared in: fewer say too little, and of more the drift is not told from chance.
const GROUPS: usize = 8;

/// Standard deviation of the mean of values that follow a machine's drift, over half an hour, from the values themselves.
///
/// A shared machine's speed flickers: means over 10 s differ from the next ones as much as means over 320 s do (Allan
/// deviation 5.0, 5.1, 4.7, 4.9, 4.9, 3.9 % at 10 to 320 s; six series of 8 to 16 min of the CPU time a request took). So
/// a longer series does not say the mean better. A model that forgets, as the first-order autoregression of method.md
/// section 1 does, covers 72 % of the means of thirty such values, and this 92 %.
///
/// The Allan variance of groups of an eighth of the series is taken apart into what chance leaves in it, which is known from
/// neighbours, and the flicker; the mean of n values then varies by the flicker's N-sample variance,
/// N ln N / (2 (N - 1) ln 2) of its Allan variance with N times n the half hour (Barnes et al. 1971, "Characterization of
/// Frequency Stability"), and by chance. The factor for few groups is method.md's, 1 + 1.5/n. With fewer than sixteen
/// values all of it is taken for flicker. `None` with fewer than two.
#[must_use]
pub fn sd_of_drifting_mean(values: &[f64]) -> Option<f64> {
    let group = (values.len() / GROUPS).max(1);
    let neighbours = allan_variance(values, 1)?;
    let flicker = if group == 1 {
        neighbours
    } else {
        let share = 1.0 / group as f64;
        let seen = allan_variance(values, group)?;
        ((seen - share * neighbours) / (1.0 - share)).max(0.0)
    };
    let chance = (neighbours - flicker).max(0.0);
    let n = values.len() as f64;
    let means = (HORIZON / n).max(2.0);
    let wandering = means * means.ln() / (2.0 * (means - 1.0) * std::f64::consts::LN_2);
    let few = 1.0 + 1.5 / (n / group as f64 - 1.0);
    Some((wandering * flicker + chance / n).sqrt() * few)
}

/// Half the mean square by which the mean of a group of values differs from that of the group after it, over all groups of
/// this size (the overlapping Allan variance); `None` with fewer than two groups.
fn allan_variance(values: &[f64], group: usize) -> Option<f64> {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / group as f64;
    let differences = values.windows(2 * group).map(|pair| {
        let (one, next) = pair.split_at(group);
        (mean(next) - mean(one)).powi(2)
    });
    let n = differences.len();
    (n > 0).then(|| differences.sum::<f64>() / n as f64 / 2.0)
}

#[cfg(test)]
mod tests {
    use super::super::chance::normals;
    use super::*;

    #[test]
    fn known_series() {
        let alternating: Vec<f64> = (0..20).map(|i| f64::from(i % 2)).collect();
        assert!(lag_one(&alternating).expect("enough") < -0.9);
        let rising: Vec<f64> = (0..20).map(f64::from).collect();
        assert!(lag_one(&rising).expect("enough") > 0.8);
        assert_eq!(lag_one(&[1.0; 20]), None);
        assert_eq!(lag_one(&rising[..5]), None);
    }

    #[test]
    fn a_resemblance_of_one_half_triples_the_variance() {
        assert!((inflation(0.5) - 3.0).abs() < 1e-12);
        assert!((inflation(-0.5) - 1.0).abs() < 1e-12);
        assert!(inflation(1.0).is_finite());
    }

    /// Values that forget all but this share of themselves from one to the next.
    fn forgetting(keeps: f64, chance: &mut impl Iterator<Item = f64>, n: usize) -> Vec<f64> {
        let mut last = chance.next().expect("endless");
        let fresh = (1.0 - keeps * keeps).sqrt();
        let mut next = || {
            last = keeps * last + fresh * chance.next().expect("endless");
            last
        };
        (0..n).map(|_| next()).collect()
    }

    /// Flicker: as much of each memory, from half a value to four thousand, each twice as long as the one before.
    fn flicker(chance: &mut impl Iterator<Item = f64>, n: usize) -> Vec<f64> {
        let mut sum = vec![0.0; n];
        for octave in 0..14 {
            let keeps = (-2.0 / f64::from(1 << octave)).exp();
            let part = forgetting(keeps, chance, n);
            sum.iter_mut()
                .zip(part)
                .for_each(|(sum, part)| *sum += part);
        }
        sum
    }

    /// Share of intervals from the middle `n` of a series that hold the mean of all of it.
    fn covered(n: usize, mut series: impl FnMut() -> Vec<f64>) -> f64 {
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let runs = 400;
        let covers = (0..runs).filter(|_| {
            let all = series();
            let known = &all[(all.len() - n) / 2..][..n];
            let sd = sd_of_drifting_mean(known).expect("enough values");
            (mean(known) - mean(&all)).abs() <= 1.96 * sd
        });
        covers.count() as f64 / f64::from(runs)
    }

    #[test]
    fn the_mean_over_half_an_hour_is_covered_whatever_the_drift() {
        let mut chance = normals(7);
        for n in [10, 30, 60] {
            let flickers = covered(n, || flicker(&mut chance, 200));
            assert!((0.9..=0.99).contains(&flickers), "{n}: {flickers}");
            // Neither is what the estimate is made for, and neither is it fooled by.
            let forgets = covered(n, || forgetting(0.8, &mut chance, 200));
            assert!(forgets > 0.9, "{n}: {forgets}");
            let white = covered(n, || chance.by_ref().take(200).collect());
            assert!(white > 0.95, "{n}: {white}");
        }
    }

    #[test]
    fn a_drift_makes_the_mean_less_certain() {
        let shuffled: Vec<f64> = (0..40).map(|i| f64::from(i * 17 % 40)).collect();
        let drifting: Vec<f64> = (0..40).map(f64::from).collect();
        let sd = |values: &[f64]| sd_of_drifting_mean(values).expect("enough values");
        // What keeps on one way over all of the series is taken for flicker too, which it is more than.
        assert!(sd(&drifting) > 2.0 * sd(&shuffled));
    }

    #[test]
    fn chance_that_leaves_no_drift_is_averaged_out() {
        let n = 80;
        let alternating: Vec<f64> = (0..n).map(|i| f64::from(i % 2)).collect();
        let drifting: Vec<f64> = (0..n).map(|i| f64::from(i) / f64::from(n)).collect();
        let sd = |values: &[f64]| sd_of_drifting_mean(values).expect("enough values");
        assert!(sd(&alternating) < 0.11, "{}", sd(&alternating));
        assert!(sd(&drifting) > 0.08, "{}", sd(&drifting));
        assert_eq!(sd_of_drifting_mean(&[1.0]), None);
        assert_eq!(sd_of_drifting_mean(&[1.0; 30]), Some(0.0));
    }
}
