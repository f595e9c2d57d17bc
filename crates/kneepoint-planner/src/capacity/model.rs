//! A twin of the stack, and those that other draws of the same steps make, for the intervals.

use super::fit::{Fitted, drawn_anew, fit};
use super::low_load::{LowLoadStep, PlannedHost};
use super::twin::{REQUESTS, Stretches};
use crate::random::Random;
use kneepoint_model::{Interval, Slo};

/// Length in seconds of the stretches whose p95 is told: that of a verification's step, less the second that is left out.
const STRETCH_S: f64 = 3.0;
/// Runs of the twin that make a prediction: long enough for spells of the machine's speed, and two, since close to the limit
/// one is some per cent off by chance.
pub(crate) const WHOLE: Stretches = Stretches {
    each_s: STRETCH_S,
    requests: 8 * REQUESTS,
    runs: 2,
};
/// The run that says by what factor two twins are apart.
const ONCE: Stretches = Stretches {
    each_s: STRETCH_S,
    requests: 2 * REQUESTS,
    runs: 1,
};
/// Twins of steps drawn anew, for the intervals.
const BOOTSTRAPS: u64 = 48;

/// A twin of the stack, and those that other draws of the same steps make, for the intervals.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) whole: Fitted,
    others: Vec<Fitted>,
    pub(crate) slo: Slo,
}

impl Model {
    /// The twin of these steps; `None` where none is of a rate above the lowest.
    #[must_use]
    pub fn of(seen: &[LowLoadStep], host: PlannedHost, slo: &Slo) -> Option<Self> {
        Self::with_others(seen, host, slo, BOOTSTRAPS)
    }

    /// The same with as many other draws, which the estimates do not depend on.
    pub(crate) fn with_others(
        seen: &[LowLoadStep],
        host: PlannedHost,
        slo: &Slo,
        others: u64,
    ) -> Option<Self> {
        if seen.iter().all(|step| step.level == 0) {
            return None;
        }
        let mut random = Random::new(23, 0);
        Some(Self {
            whole: fit(seen, host, slo),
            others: (0..others)
                .map(|_| fit(&drawn_anew(seen, &mut random), host, slo))
                .collect(),
            slo: slo.clone(),
        })
    }

    /// A quantity of the twin, with the 95 % range of what it is in the others.
    pub(crate) fn over(&self, of: impl Fn(&Fitted, u64) -> f64) -> Interval {
        around(of(&self.whole, 1), self.of_others(of))
    }

    fn of_others(&self, of: impl Fn(&Fitted, u64) -> f64) -> Vec<f64> {
        let others = (1..).zip(&self.others);
        others.map(|(seed, fitted)| of(fitted, seed)).collect()
    }

    /// R* per second. Of the others, only by what factor they are apart: that is found with a tenth of the requests.
    pub(crate) fn limit_hz(&self) -> Interval {
        let long_run = |fitted: &Fitted, seed| fitted.twin.long_run_hz(&self.slo, REQUESTS, seed);
        let whole_hz = long_run(&self.whole, 1);
        let limit_hz = self.whole.twin.limit_hz(&self.slo, whole_hz, 1);
        let factor = limit_hz / whole_hz;
        let mut others_hz = self.of_others(long_run);
        others_hz.iter_mut().for_each(|hz| *hz *= factor);
        around(limit_hz, others_hz)
    }

    /// The SLO's quantile of the response time in ms at a rate, that half of all stretches stay below. Of
    /// the others, only by what factor they are apart where they see the same arrivals.
    pub(crate) fn p95_ms(&self, rate_hz: f64) -> Interval {
        let of = |fitted: &Fitted, asked| {
            let twin = &fitted.twin;
            twin.quantile_ms(rate_hz, self.slo.quantile, asked)
        };
        let (whole_ms, once_ms) = (of(&self.whole, WHOLE), of(&self.whole, ONCE));
        let others = self.others.iter();
        let others_ms = others.map(|fitted| whole_ms * of(fitted, ONCE) / once_ms);
        let most_ms = self.slo.timeout.as_secs_f64() * 1e3;
        around(whole_ms, others_ms.map(|ms| ms.min(most_ms)).collect())
    }
}

/// An estimate with the 95 % range of what other draws say.
fn around(estimate: f64, mut values: Vec<f64>) -> Interval {
    values.sort_by(f64::total_cmp);
    let at = |quantile: f64| {
        let index = (quantile * (values.len() - 1) as f64).round() as usize;
        values.get(index).copied().unwrap_or(estimate)
    };
    Interval {
        low: at(0.025).min(estimate),
        estimate,
        high: at(0.975).max(estimate),
    }
}
