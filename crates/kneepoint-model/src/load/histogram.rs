//! Latency histograms: three significant digits from one microsecond to one minute, mergeable without loss.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrReader, Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};

const LARGEST_US: u64 = 60_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// Response or service times in microseconds, from 1 us to 60 s with an error of at most 0.1 %.
/// Longer times are recorded as 60 s; nothing is dropped.
///
/// Serialised as base64 of the HDR V2 encoding, so that stored histograms can be merged again and read by
/// any HDR tool.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyHistogram(Histogram<u32>);

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self(
            Histogram::new_with_bounds(1, LARGEST_US, SIGNIFICANT_DIGITS)
                .expect("the bounds are constants that HDR accepts"),
        )
    }
}

impl LatencyHistogram {
    /// Records one time in microseconds.
    #[inline]
    pub fn record_us(&mut self, us: u64) {
        self.0.saturating_record(us.clamp(1, LARGEST_US));
    }

    /// Adds all of another histogram.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        // Bounds are equal by construction, so addition cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// Forgets everything, keeping the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// How many times were recorded.
    #[must_use]
    #[inline]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time in milliseconds that a share `quantile` (0.95) of all did not exceed; `None` when empty.
    #[must_use]
    #[inline]
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.value_at_quantile(quantile) as f64 / 1e3)
    }

    /// The mean in milliseconds; `None` when empty.
    #[must_use]
    #[inline]
    pub fn mean_ms(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.mean() / 1e3)
    }

    /// The largest time in milliseconds; `None` when empty.
    #[must_use]
    #[inline]
    pub fn max_ms(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.max() as f64 / 1e3)
    }

    /// How many times exceeded a limit in microseconds (within the histogram's 0.1 %).
    #[must_use]
    #[inline]
    pub fn count_above_us(&self, limit_us: u64) -> u64 {
        self.0
            .iter_recorded()
            .filter(|v| v.value_iterated_to() > limit_us)
            .map(|v| u64::from(v.count_at_value()))
            .sum()
    }

    /// The points of the distribution: (upper bound of the bucket in ms, cumulative share), for drawing.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        let total = self.count() as f64;
        let mut seen = 0u64;
        self.0
            .iter_recorded()
            .map(|v| {
                seen += u64::from(v.count_at_value());
                (v.value_iterated_to() as f64 / 1e3, seen as f64 / total)
            })
            .collect()
    }
}

impl Serialize for LatencyHistogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.0, &mut bytes)
            .map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&STANDARD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let text = String::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text).map_err(D::Error::custom)?;
        let read: Histogram<u32> = HdrReader::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(D::Error::custom)?;
        let mut histogram = Self::default();
        histogram.0.add(&read).map_err(D::Error::custom)?;
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut histogram = LatencyHistogram::default();
        (1..=10_000).for_each(|us| histogram.record_us(us));
        for (quantile, ms) in [(0.5, 5.0), (0.95, 9.5), (0.99, 9.9)] {
            let measured = histogram.quantile_ms(quantile).expect("not empty");
            assert!(
                (measured / ms - 1.0).abs() < 0.001,
                "{quantile}: {measured}"
            );
        }
        assert!(
            histogram.count_above_us(9_000).abs_diff(1_000) <= 9,
            "within a thousandth of the limit"
        );
        assert_eq!(LatencyHistogram::default().quantile_ms(0.5), None);
    }

    #[test]
    fn a_stored_histogram_is_the_histogram() {
        let mut histogram = LatencyHistogram::default();
        [1, 50, 999_999, u64::MAX]
            .into_iter()
            .for_each(|us| histogram.record_us(us));
        let text = serde_json::to_string(&histogram).expect("serialises");
        let back: LatencyHistogram = serde_json::from_str(&text).expect("reads back");
        assert_eq!(back.curve(), histogram.curve());
        let mut twice = back.clone();
        twice.merge(&histogram);
        assert_eq!(twice.count(), 8);
    }
}
