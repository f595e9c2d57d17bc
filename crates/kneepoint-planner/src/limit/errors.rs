//! Whether errors bind R*, and not the response time.

use super::{LimitSearch, RAISE, StepRecord};
use kneepoint_model::run::Bound;
use kneepoint_model::statistics::limit_fit::Fit;

/// Refused requests of a step that are no chance, where they are more than the goal of time bears \[ours\].
const MANY_REFUSED: u64 = 5;

impl LimitSearch {
    /// The fit of the failed share, where that is the goal that binds.
    pub(super) fn bound_by_errors(&self) -> Option<Fit> {
        self.errors
            .filter(|errors| errors.reference_hz.estimate < self.on_time.reference_hz.estimate)
    }

    /// The limit by errors, where the goal of errors is missed and that of time is kept: where few requests violate it, or
    /// where those that do were refused and not late.
    pub(super) fn error_fit(&self) -> Option<Fit> {
        let goal = self.slo.errors.max(1e-4);
        let binding = self.steps.iter().any(|step| {
            let expected = step.arrivals as f64 * goal;
            let is_missed = step.failed as f64 > expected + 2.0 * expected.sqrt() + 1.0;
            let bears = step.arrivals as f64 * self.slo.violating_share();
            let late = step.violations.saturating_sub(step.refused);
            let few = (step.violations as f64) < bears;
            is_missed && (few || (step.refused >= MANY_REFUSED && (late as f64) < bears))
        });
        binding.then(|| self.fit_of(|step| step.failed, goal))
    }

    /// The goal that binds: the response time, or errors, and of these the timeouts where they are most of them.
    pub(super) fn bound_by(&self) -> Bound {
        if self.bound_by_errors().is_none() {
            return Bound::ResponseTime(self.slo.percentile());
        }
        // Where it begins: far above the limit, other goals break than those that bind.
        let failing = self.steps.iter().filter(|step| step.failed > 0);
        let lowest_hz = failing.map(|step| step.rate_hz).min_by(f64::total_cmp);
        let near_hz = RAISE * lowest_hz.unwrap_or(f64::INFINITY);
        let near = || self.steps.iter().filter(|step| step.rate_hz <= near_hz);
        let sum = |of: fn(&StepRecord) -> u64| near().map(of).sum::<u64>();
        if 2 * sum(|step| step.timeouts) > sum(|step| step.failed) {
            Bound::Timeout
        } else {
            Bound::Errors
        }
    }
}
