//! Estimators and tests: pure functions of what was measured, each with its source.

pub mod autocorrelation;
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
}
