//! How long a step of the search lasts: until requests enough were counted, and until a queue that grows misses the SLO.

use super::LimitSearch;
use kneepoint_model::units::{format_ms, format_share, format_span};
use std::time::Duration;

/// Requests of a step from which on the share that violates the SLO means something (method.md section 1).
const REQUESTS: f64 = 500.0;
/// Length of a step in response times of the SLO (method.md section 1). A step begins with an empty queue. At x times what the
/// stack bears, its last requests wait for (x - 1) of its length: a step of L seconds misses T seconds at the quantile q from
/// x = 1 + T / (q L) on.
const RESPONSE_TIMES: f64 = 20.0;
/// Share of the load time that a step takes for it at most: of fewer steps, R* is known less well.
const MOST: f64 = 0.1;
/// By how much R* may be too high, from which on it is told \[ours\].
const TOO_HIGH: f64 = 0.15;

impl LimitSearch {
    /// The length of the step at a rate.
    pub(super) fn step_length(&self, rate_hz: f64) -> Duration {
        let options = &self.options;
        let requests_hz = rate_hz * self.requests_a_visit();
        let by_count = Duration::from_secs_f64((REQUESTS / requests_hz.max(0.1)).min(3600.0));
        let by_goal = self.slo.response_time.mul_f64(RESPONSE_TIMES);
        by_count
            .clamp(options.step_min, options.step_max.max(options.step_min))
            .max(by_goal.min(options.load_time.mul_f64(MOST)))
    }

    /// That the steps were too short for the SLO, where no longer stretch has shown that R* holds or lowered it.
    pub(super) fn short_for_the_slo(&self) -> Option<String> {
        if self.steps.is_empty() || self.soak.point.is_some() || self.misses_alone() {
            return None;
        }
        let length = self.step_length(self.estimate().rate_hz.estimate);
        let goal = self.slo.response_time;
        let too_high = goal.div_duration_f64(length) / self.slo.quantile;
        (too_high > TOO_HIGH).then(|| {
            format!(
                "R* may be up to {} too high: a step begins with an empty queue, and {} are short for one that grows until \
                 requests take {}; a longer run confirms R* by a stretch that is long enough",
                format_share(too_high),
                format_span(length),
                format_ms(goal.as_secs_f64() * 1e3),
            )
        })
    }
}
