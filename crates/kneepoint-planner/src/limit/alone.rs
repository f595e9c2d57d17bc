//! Whether one request at a time meets the SLO: where it does not, no rate does, and there is nothing to search for.

use super::{LimitSearch, MUCH_FAILED, Stage};
use kneepoint_model::LoadPoint;
use kneepoint_model::run::MissedAlone;
use std::time::Duration;

/// What such a step is for.
pub(super) const ONE_AT_A_TIME: &str = "limit: one request at a time";
/// Late share of a step from which on its rate may not be what makes its requests late \[ours\].
const NEARLY_ALL: f64 = 0.8;
/// Such steps before it is asked: the first may just be too high.
const STEPS: usize = 2;
/// Requests that are to be answered one after the other: enough to tell, and some more.
const REQUESTS: f64 = 8.0;
/// The longest that is waited for them.
const LONGEST: Duration = Duration::from_secs(20);
/// How often it is asked where the generator was not sound.
const ATTEMPTS: u32 = 2;

/// What one request at a time said.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Alone {
    asked: u32,
    is_answered: bool,
    /// How it missed the SLO; `None` where it met it, may have, or was not asked.
    pub(super) missed: Option<MissedAlone>,
}

impl LimitSearch {
    /// Whether one request alone surely misses the SLO.
    pub(super) fn misses_alone(&self) -> bool {
        self.alone.missed.is_some()
    }

    /// Whether nearly all requests were late so far, and it is not known whether one alone is. A search that confirms nothing
    /// only says where to look: it may take a little longer for that.
    pub(super) fn is_alone_to_be_asked(&self) -> bool {
        let late = self.steps.iter().filter(|step| {
            let answered = step.arrivals - step.failed.min(step.arrivals);
            let late = step.violations.saturating_sub(step.failed);
            let few_failed = step.failed as f64 <= MUCH_FAILED * step.arrivals as f64;
            few_failed && answered > 0 && late as f64 >= NEARLY_ALL * answered as f64
        });
        let is_open = !self.alone.is_answered && self.alone.asked < ATTEMPTS;
        let enough = self.steps.len() >= STEPS || self.out_of_time;
        let room = self.clock.room().filter(|_| !self.options.soak.is_zero());
        let fits = room.is_none_or(|room| self.length_alone() <= room);
        is_open && enough && fits && late.count() == self.steps.len()
    }

    /// Long enough for several requests as long as those so far: alone, each takes less.
    pub(super) fn length_alone(&self) -> Duration {
        let response_ms = self.steps.last().and_then(|step| step.response_ms);
        let wanted = Duration::from_secs_f64(REQUESTS * response_ms.unwrap_or(0.0) / 1e3);
        wanted.clamp(self.options.saturate, LONGEST.max(self.options.saturate))
    }

    pub(super) fn record_alone(&mut self, point: &LoadPoint) {
        let took = self.length_alone();
        self.spent += took;
        self.clock.drove(took);
        self.out_of_time = self.is_out_of_time();
        self.judge_alone(point);
        if self.stage != Stage::Finished {
            self.after_a_step();
        }
    }

    /// Ends the search where one request at a time surely misses the SLO.
    pub(super) fn judge_alone(&mut self, point: &LoadPoint) {
        self.alone.asked += 1;
        self.alone.is_answered = point.validity.is_valid();
        self.alone.missed = MissedAlone::of(point, &self.slo);
        if let Some(missed) = self.alone.missed {
            self.why_wide = None;
            self.warnings.push(format!(
                "no rate meets the SLO: {}. What is told of rates is where load was driven",
                missed.in_words()
            ));
            self.stage = Stage::Finished;
        }
    }
}
