//! Estimators and tests: pure functions of what was measured, each with its source.

pub mod autocorrelation;
pub mod binomial;
#[cfg(test)]
pub(crate) mod chance;
pub mod holm;
pub mod limit_fit;
pub mod median;
pub mod sequential;
pub mod special;

use serde::{Deserialize, Serialize};

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// The estimate.
    pub estimate: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half the width over the estimate.
    #[must_use]
    pub fn relative_half_width(&self) -> f64 {
        if self.estimate == 0.0 {
            f64::INFINITY
        } else {
            (self.high - self.low) / 2.0 / self.estimate
        }
    }

    /// Whether a value lies within, ends included.
    #[must_use]
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// What it says of a ratio, with each end in these figures: `1.74 to 1.95`, and `at least 1.74` or `at most 1.95` where the
    /// other end says nothing. `None` where neither does.
    #[must_use]
    pub fn ratio_range(&self, figures: impl Fn(f64) -> String) -> Option<String> {
        let low = Some(self.low).filter(|low| low.is_finite() && *low >= LEAST_TOLD);
        let high = Some(self.high).filter(|high| (0.0..=MOST_TOLD).contains(high));
        match (low, high) {
            (Some(low), Some(high)) => Some(format!("{} to {}", figures(low), figures(high))),
            (Some(low), None) => Some(format!("at least {}", figures(low))),
            (None, Some(high)) => Some(format!("at most {}", figures(high))),
            (None, None) => None,
        }
    }
}

/// The least lower and the largest upper end of a ratio's interval that say something: less is nothing with two decimals, and
/// more is farther than a change of a setting takes a stack \[ours\].
const LEAST_TOLD: f64 = 0.005;
const MOST_TOLD: f64 = 1e3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_says_nothing_is_not_told() {
        let range = |low, high| {
            let interval = Interval {
                low,
                estimate: 1.0,
                high,
            };
            interval.ratio_range(|end| format!("{end:.2}"))
        };
        let told = |low, high| range(low, high).expect("one end says something");
        assert_eq!(told(1.74, 1.95), "1.74 to 1.95");
        assert_eq!(told(1.3, f64::INFINITY), "at least 1.30");
        assert_eq!(told(0.0, 1.3), "at most 1.30");
        // The ends of three pairs that scatter much.
        assert_eq!(told(1e-8, 1.3), "at most 1.30");
        assert_eq!(told(1500.0, 4e8), "at least 1500.00");
        assert_eq!(range(0.0, f64::INFINITY), None);
        assert_eq!(range(f64::NAN, f64::NAN), None);
    }
}
