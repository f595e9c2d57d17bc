//! R* of runs that found the machine at different speeds.

use super::LimitResult;
use crate::Interval;

impl LimitResult {
    /// R* per second at the speed at which the canary's piece of work takes this long in ms: the same for two runs, it
    /// takes out of their comparison how fast the machine happened to be. `None` where this run does not know its own.
    #[must_use]
    pub fn at_canary_ms(&self, canary_ms: f64) -> Option<Interval> {
        let (reference, noise) = (self.reference_hz?, self.noise?);
        let factor = (noise.reference_ms? / canary_ms).powf(noise.speed_exponent);
        Some(Interval {
            low: reference.low * factor,
            estimate: reference.estimate * factor,
            high: reference.high * factor,
        })
    }

    /// R* per second if a request took this much CPU time in ms: the same for two runs of one configuration, it takes out of
    /// their comparison how fast the machine happened to be. It says nothing of two configurations, whose requests may need
    /// more and less. `None` where this run did not count it.
    #[must_use]
    pub fn at_cpu_ms(&self, cpu_ms: f64) -> Option<f64> {
        let noise = self.noise?;
        Some(self.rate_hz.estimate * (noise.cpu_ms? / cpu_ms).powf(noise.speed_exponent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::run::LimitNoise;

    fn limit(speed_exponent: f64) -> LimitResult {
        let around = |estimate: f64| Interval {
            low: 0.9 * estimate,
            estimate,
            high: 1.1 * estimate,
        };
        LimitResult {
            rate_hz: around(95.0),
            reference_hz: Some(around(100.0)),
            noise: Some(LimitNoise {
                speed_exponent,
                reference_ms: Some(6.0),
                cpu_ms: Some(5.0),
                ..LimitNoise::default()
            }),
            ..LimitResult::default()
        }
    }

    #[test]
    fn a_machine_on_which_the_same_work_takes_longer_bears_less_as_far_as_the_limit_follows_its_speed()
     {
        let at = |speed_exponent, canary_ms| {
            let rate = limit(speed_exponent).at_canary_ms(canary_ms);
            rate.expect("all is known").estimate
        };
        assert!((at(1.0, 6.0) - 100.0).abs() < 1e-9);
        assert!((at(1.0, 7.5) - 80.0).abs() < 1e-9);
        assert!((at(0.0, 7.5) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_configuration_whose_requests_took_more_cpu_bore_less() {
        let at = |speed_exponent, cpu_ms| limit(speed_exponent).at_cpu_ms(cpu_ms).expect("known");
        assert!((at(1.0, 5.0) - 95.0).abs() < 1e-9);
        assert!((at(1.0, 4.0) - 118.75).abs() < 1e-9);
        assert!((at(0.0, 4.0) - 95.0).abs() < 1e-9);
    }

    #[test]
    fn a_run_that_does_not_know_its_speed_says_nothing() {
        let mut unknown = limit(1.0);
        unknown.noise = unknown.noise.map(|noise| LimitNoise {
            reference_ms: None,
            ..noise
        });
        assert_eq!(unknown.at_canary_ms(6.0), None);
    }
}
