//! Whether a series grows: quarters compared, and a straight line with the uncertainty of its slope.

use serde::Serialize;
use std::fmt;

/// Two-sided 95 % quantile of the normal distribution; there are some hundred samples.
const Z: f64 = 1.96;
/// Fewer samples have no quarters worth the name.
const FEWEST: usize = 8;

/// How a figure in MiB went over time in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Trend {
    first_quarter_mean: f64,
    last_quarter_mean: f64,
    /// MiB a second.
    slope: f64,
    /// Half the width of the slope's 95 % interval. Memory stays where it is from sample to sample, so the samples
    /// are not independent: their number is reduced by the lag-1 autocorrelation of the residuals, n (1-r)/(1+r)
    /// (Santer et al. 2000, Journal of Geophysical Research 105, section 4).
    slope_half_width: f64,
    /// From the first sample to the last.
    length_s: f64,
}

impl Trend {
    /// The trend of (seconds, MiB) in the order of time; `None` of too few.
    pub(super) fn of(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < FEWEST {
            return None;
        }
        let n = points.len() as f64;
        let quarter = points.len() / 4;
        let mean_of =
            |part: &[(f64, f64)]| part.iter().map(|(_, y)| y).sum::<f64>() / part.len() as f64;
        let mean_t = points.iter().map(|(t, _)| t).sum::<f64>() / n;
        let mean_y = mean_of(points);
        let spread_t: f64 = points.iter().map(|(t, _)| (t - mean_t).powi(2)).sum();
        let covariance: f64 = points
            .iter()
            .map(|(t, y)| (t - mean_t) * (y - mean_y))
            .sum();
        let slope = covariance / spread_t;
        let residuals: Vec<f64> = points
            .iter()
            .map(|(t, y)| y - mean_y - slope * (t - mean_t))
            .collect();
        let squares: f64 = residuals.iter().map(|r| r * r).sum();
        let products: f64 = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let correlation = if squares > 0.0 {
            (products / squares).clamp(0.0, 0.99)
        } else {
            0.0
        };
        let independent = (n * (1.0 - correlation) / (1.0 + correlation)).max(3.0);
        let error = (squares / (independent - 2.0) / spread_t).sqrt();
        Some(Self {
            first_quarter_mean: mean_of(&points[..quarter]),
            last_quarter_mean: mean_of(&points[points.len() - quarter..]),
            slope,
            slope_half_width: Z * error,
            length_s: points[points.len() - 1].0 - points[0].0,
        })
    }

    /// Growth in MiB over the whole length at the upper end of the slope's interval.
    pub(super) fn growth_at_most(&self) -> f64 {
        (self.slope + self.slope_half_width) * self.length_s
    }
}

impl fmt::Display for Trend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hourly = |slope: f64| slope * 3600.0;
        write!(
            f,
            "first quarter {:.2} MiB, last quarter {:.2} MiB ({:+.1} %), slope {:+.3} MiB an hour [{:+.3} {:+.3}]",
            self.first_quarter_mean,
            self.last_quarter_mean,
            (self.last_quarter_mean / self.first_quarter_mean - 1.0) * 100.0,
            hourly(self.slope),
            hourly(self.slope - self.slope_half_width),
            hourly(self.slope + self.slope_half_width),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::SplitMix64;
    use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

    /// 180 samples, 10 s apart, with noise between -0.5 and 0.5 that keeps this share from sample to sample.
    fn series(slope: f64, memory: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut noise = 0.0;
        (0..180)
            .map(|k| {
                let fresh = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
                noise = memory * noise + fresh;
                let t = f64::from(k) * 10.0;
                (t, 20.0 + slope * t + noise)
            })
            .collect()
    }

    #[test]
    fn a_line_is_its_slope() {
        let points: Vec<(f64, f64)> = (0..100)
            .map(|k| (f64::from(k), 5.0 + 0.25 * f64::from(k)))
            .collect();
        let trend = Trend::of(&points).expect("enough");
        assert!(
            (trend.slope - 0.25).abs() < 1e-9 && trend.slope_half_width < 1e-6,
            "{trend:?}"
        );
        assert!((trend.growth_at_most() - 0.25 * 99.0).abs() < 1e-3);
        assert_eq!(
            (trend.first_quarter_mean, trend.last_quarter_mean),
            (8.0, 26.75)
        );
        assert_eq!(Trend::of(&points[..7]), None);
    }

    #[test]
    fn the_interval_covers_the_slope_also_when_samples_depend_on_each_other() {
        for memory in [0.0, 0.5, 0.8] {
            let covered = (0..400)
                .filter(|seed| {
                    let trend = Trend::of(&series(0.001, memory, *seed)).expect("enough");
                    (trend.slope - 0.001).abs() <= trend.slope_half_width
                })
                .count();
            // 95 % of 400 is 380, and four standard deviations below are 362; the correction is an approximation.
            assert!(covered >= 350, "{covered} of 400 at {memory}");
        }
    }

    #[test]
    fn what_does_not_change_is_flat() {
        let points: Vec<(f64, f64)> = (0..20).map(|k| (f64::from(k), 3.0)).collect();
        let trend = Trend::of(&points).expect("enough");
        assert_eq!((trend.slope, trend.growth_at_most()), (0.0, 0.0));
    }
}
