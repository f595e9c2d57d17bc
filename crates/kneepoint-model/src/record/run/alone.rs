//! An SLO that one request alone misses, with nothing beside it: no rate meets it.

use crate::statistics::binomial::at_least;
use crate::units::format_ms;
use crate::workload::percentile;
use crate::{LoadPoint, Slo};
use serde::{Deserialize, Serialize};

/// One request at a time that is answered later than the SLO allows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MissedAlone {
    /// Requests that were sent, each when the one before was answered.
    pub requests: u64,
    /// Those of them that were answered too late.
    pub late: u64,
    /// The SLO's quantile.
    pub quantile: f64,
    /// That quantile of their response times in ms.
    pub took_ms: f64,
    /// What the SLO allows it to be, in ms.
    pub allowed_ms: f64,
}

/// Late requests over those the SLO allows, from which on it is out of reach \[ours\]: some may be late by others' work.
const OUT_OF_REACH: f64 = 2.0;
/// Late requests below which nothing is sure: what slows one request down may slow the next one down as well \[ours\].
const FEWEST: u64 = 4;
/// Chance of being wrong about it that is taken \[ours\].
const CHANCE: f64 = 0.001;

impl MissedAlone {
    /// What a stretch of load says in which hardly anything waited for anything else; `None` where the SLO is met, or it may be
    /// chance that it is not.
    #[must_use]
    pub fn of(load: &LoadPoint, slo: &Slo) -> Option<Self> {
        let goal_us = u64::try_from(slo.response_time.as_micros()).unwrap_or(u64::MAX);
        let (requests, late) = (load.response.count(), load.response.count_above_us(goal_us));
        let allowed = (OUT_OF_REACH * slo.violating_share()).min(1.0);
        let is_sure = late >= FEWEST && at_least(late, requests, allowed) <= CHANCE;
        let took_ms = load.response.quantile_ms(slo.quantile)?;
        (is_sure && load.validity.is_valid()).then_some(Self {
            requests,
            late,
            quantile: slo.quantile,
            took_ms,
            allowed_ms: slo.response_time.as_secs_f64() * 1e3,
        })
    }

    /// `one request at a time has a p95 of 309 ms, and 200 ms are allowed`.
    #[must_use]
    pub fn in_words(&self) -> String {
        format!(
            "one request at a time has a p{} of {}, and {} are allowed",
            percentile(self.quantile),
            format_ms(self.took_ms),
            format_ms(self.allowed_ms)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LatencyHistogram;

    /// Requests of 150 ms and of 309 ms one after the other, where 200 ms are allowed.
    fn check(in_time: u64, late: u64, is_sure: bool) {
        let mut load = LoadPoint {
            arrivals: in_time + late,
            ..LoadPoint::default()
        };
        let mut response = LatencyHistogram::default();
        (0..in_time).for_each(|_| response.record_us(150_000));
        (0..late).for_each(|_| response.record_us(309_000));
        load.response = response;
        let missed = MissedAlone::of(&load, &Slo::default());
        assert_eq!(missed.is_some(), is_sure, "{late} late, {in_time} in time");
        if let Some(missed) = missed {
            assert_eq!((missed.requests, missed.late), (in_time + late, late));
            let words = missed.in_words();
            assert!(
                words.starts_with("one request at a time has a p95 of 309 ms"),
                "{words}"
            );
            assert!(words.ends_with("and 200 ms are allowed"), "{words}");
        }
    }

    #[test]
    fn a_few_late_requests_may_be_chance_and_nearly_all_are_not() {
        check(0, 0, false);
        check(0, 3, false);
        check(0, 4, true);
        check(1, 7, true);
        check(40, 5, false);
        check(30, 15, true);
        check(1000, 50, false);
    }
}
