//! Whether one request at a time meets the SLO: where it does not, no rate does, and there is nothing to search for.

use super::{LimitSearch, MUCH_FAILED, Stage};
use kneepoint_model::LoadPoint;
use kneepoint_model::run::MissedAlone;

/// What such a step is for.
pub(super) const ONE_AT_A_TIME: &str = "limit: one request at a time";
/// Late share of a step from which on its rate may not be what makes its requests late \[ours\].
const NEARLY_ALL: f64 = 0.8;
/// Such steps before it is asked: the first may just be too high.
const STEPS: usize = 2;

/// What one request at a time said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Alone {
    /// How it missed the SLO; `None` where it met it, or may have.
    pub(super) missed: Option<MissedAlone>,
}

impl LimitSearch {
    /// Whether nearly all requests were late so far, and nobody asked whether one alone is: asked once.
    pub(super) fn is_alone_to_be_asked(&self) -> bool {
        let late = self.steps.iter().filter(|step| {
            let answered = step.arrivals - step.failed.min(step.arrivals);
            let late = step.violations.saturating_sub(step.failed);
            let few_failed = step.failed as f64 <= MUCH_FAILED * step.arrivals as f64;
            few_failed && answered > 0 && late as f64 >= NEARLY_ALL * answered as f64
        });
        let enough = self.steps.len() >= STEPS || self.out_of_time;
        self.alone.is_none() && enough && late.count() == self.steps.len()
    }

    pub(super) fn record_alone(&mut self, point: &LoadPoint) {
        self.spent += self.options.saturate;
        self.clock.drove(self.options.saturate);
        self.out_of_time = self.is_out_of_time();
        self.judge_alone(point);
        if self.stage != Stage::Finished {
            self.after_a_step();
        }
    }

    /// Ends the search where one request at a time surely misses the SLO.
    pub(super) fn judge_alone(&mut self, point: &LoadPoint) {
        let missed = MissedAlone::of(point, &self.slo);
        self.alone = Some(Alone { missed });
        if let Some(missed) = missed {
            self.why_wide = None;
            self.warnings.push(format!(
                "no rate meets the SLO: {}. What is told of rates is where load was driven",
                missed.in_words()
            ));
            self.stage = Stage::Finished;
        }
    }
}
