//! Axes: where a value lies between two ends, and which round values to mark.

/// How values are spread over an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Equal differences are equally far apart.
    Linear,
    /// Equal ratios are equally far apart.
    Log,
}

/// A range of values along a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Axis {
    /// From zero to a little beyond the largest value.
    pub(crate) fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let most = values
            .into_iter()
            .filter(|v| v.is_finite())
            .fold(0.0, f64::max);
        let high = if most > 0.0 { most * 1.05 } else { 1.0 };
        Self {
            low: 0.0,
            high,
            scale: Scale::Linear,
        }
    }

    /// Around every positive value, with a margin; equal ratios equally far apart.
    pub(crate) fn log(values: impl IntoIterator<Item = f64>, margin: f64) -> Self {
        let (low, high) = values
            .into_iter()
            .filter(|v| v.is_finite() && *v > 0.0)
            .fold((f64::MAX, 0.0), |(low, high): (f64, f64), v| {
                (low.min(v), high.max(v))
            });
        if high <= 0.0 {
            return Self {
                low: 0.5,
                high: 2.0,
                scale: Scale::Log,
            };
        }
        Self {
            low: low / margin,
            high: high * margin,
            scale: Scale::Log,
        }
    }

    /// With given ends; equal ratios equally far apart.
    pub(crate) fn between(low: f64, high: f64) -> Self {
        Self {
            low,
            high,
            scale: Scale::Log,
        }
    }

    /// Rates: linear, or logarithmic where the smallest is under a thirtieth of the largest.
    pub(crate) fn rates(values: &[f64]) -> Self {
        let positive = || values.iter().copied().filter(|v| v.is_finite() && *v > 0.0);
        let (low, high) = (
            positive().fold(f64::MAX, f64::min),
            positive().fold(0.0, f64::max),
        );
        if high > 0.0 && low * 30.0 < high {
            Self::log(positive(), 1.15)
        } else {
            Self::from_zero(positive())
        }
    }

    /// The upper end.
    pub(crate) fn high(&self) -> f64 {
        self.high
    }

    /// The lower end.
    pub(crate) fn low(&self) -> f64 {
        self.low
    }

    /// Where a value lies, 0 to 1; beyond an end, the end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        if place.is_nan() {
            0.0
        } else {
            place.clamp(0.0, 1.0)
        }
    }

    /// Round values within the axis, about `wanted` of them.
    pub(crate) fn ticks(&self, wanted: usize) -> Vec<f64> {
        let within = |v: &f64| (self.low * 0.999..=self.high * 1.001).contains(v);
        let ticks: Vec<f64> = match self.scale {
            Scale::Linear => linear_ticks(self.high - self.low, wanted)
                .filter(within)
                .collect(),
            Scale::Log => {
                let decades = (self.high / self.low).log10();
                let steps: &[f64] = match decades * 3.0 {
                    few if few < 1.5 => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0],
                    some if some <= wanted as f64 => &[1.0, 2.0, 5.0],
                    _ => &[1.0],
                };
                log_ticks(self.low, self.high, steps)
                    .filter(within)
                    .collect()
            }
        };
        if ticks.is_empty() {
            vec![self.low, self.high]
        } else {
            ticks
        }
    }
}

fn linear_ticks(span: f64, wanted: usize) -> impl Iterator<Item = f64> {
    let rough = span / wanted.max(1) as f64;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * decade)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(span);
    (0..=wanted * 2).map(move |i| i as f64 * step)
}

fn log_ticks(low: f64, high: f64, steps: &[f64]) -> impl Iterator<Item = f64> {
    // An f64 spans fewer than 700 decades, and 40 hold every rate and time there is.
    let first = low.log10().floor() as i32;
    let last = (high.log10().ceil() as i32).min(first.saturating_add(40));
    (first..=last).flat_map(move |decade| steps.iter().map(move |step| step * 10f64.powi(decade)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(ticks: &[f64], expected: &[f64]) {
        assert_eq!(ticks.len(), expected.len(), "{ticks:?}");
        for (a, b) in ticks.iter().zip(expected) {
            assert!((a - b).abs() < 1e-9 * b.abs().max(1.0), "{ticks:?}");
        }
    }

    #[test]
    fn ticks_are_round() {
        close(
            &Axis::from_zero([80.0]).ticks(5),
            &[0.0, 20.0, 40.0, 60.0, 80.0],
        );
        close(
            &Axis::between(8.0, 1200.0).ticks(8),
            &[10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0],
        );
        close(&Axis::between(0.9, 2.1).ticks(6), &[1.0, 1.2, 1.5, 2.0]);
    }

    #[test]
    fn any_value_has_a_place_on_any_axis() {
        let odd = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            0.0,
            -1.0,
            f64::MIN_POSITIVE,
            1e300,
        ];
        for axis in [
            Axis::from_zero(odd),
            Axis::log(odd, 1.1),
            Axis::rates(&odd),
            Axis::from_zero([]),
        ] {
            for value in odd {
                assert!(
                    (0.0..=1.0).contains(&axis.place(value)),
                    "{value} on {axis:?}"
                );
            }
            assert!(!axis.ticks(5).is_empty());
            assert!(axis.ticks(5).len() < 1000);
        }
    }
}
