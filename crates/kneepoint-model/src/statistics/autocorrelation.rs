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

/// What neighbouring values are taken to resemble each other by where there are too few to tell: what the CPU time of a
/// request did on a shared machine from one step of a few seconds to the next (0.49 over 112 steps).
pub const UNTOLD: f64 = 0.5;

/// Standard deviation of the mean of values that follow a slow drift, from the values themselves.
///
/// Few values of a slow drift look less correlated than they are; the estimate is raised by its known bias,
/// (1 + 3 rho)/n (Kendall 1954, "Note on bias in the estimation of autocorrelation"), and the interval factor for few
/// effective values is method.md's, 1 + 1.5/n_eff. Too few values to tell are taken to resemble each other by a half.
/// `None` with fewer than two.
#[must_use]
pub fn sd_of_drifting_mean(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    if n < 2.0 {
        return None;
    }
    let seen = lag_one(values).unwrap_or(UNTOLD);
    let rho = seen + (1.0 + 3.0 * seen) / n;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / (n - 1.0);
    let effective = (n / inflation(rho)).max(1.0);
    Some((variance / effective).sqrt() * (1.0 + 1.5 / effective))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_drift_makes_the_mean_less_certain() {
        let shuffled: Vec<f64> = (0..40).map(|i| f64::from(i * 17 % 40)).collect();
        let drifting: Vec<f64> = (0..40).map(f64::from).collect();
        let sd = |values: &[f64]| sd_of_drifting_mean(values).expect("enough values");
        assert!(sd(&drifting) > 3.0 * sd(&shuffled));
    }
}
