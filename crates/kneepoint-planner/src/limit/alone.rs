//! Whether one request at a time meets the SLO: where it does not, no rate does, and there is nothing to search for.

use super::{LimitSearch, MUCH_FAILED, Stage, StepRecord};
use kneepoint_model::LoadPoint;
use kneepoint_model::run::MissedAlone;
use kneepoint_model::statistics::binomial::at_least;
use kneepoint_model::statistics::limit_fit::LOWEST;
use std::time::Duration;

/// What such a step is for.
pub(super) const ONE_AT_A_TIME: &str = "limit: one request at a time";
/// Late share of a step from which on its rate may not be what makes its requests late \[ours\].
const NEARLY_ALL: f64 = 0.8;
/// Such steps before it is asked: the first may just be too high.
const STEPS: usize = 2;
/// Steps that all miss the SLO before it is asked although many of their requests were in time: some pages of the mix alone may
/// take longer than it allows \[ours\].
const ALL_MISS: usize = 3;
/// By how much the rates of these must differ, lowest over highest, for the rate to make no difference \[ours\].
const APART: f64 = 0.5;
/// Late share at the lowest of these rates over that at the highest, from which on it makes hardly any \[ours\]: where a queue makes
/// requests late, half the rate makes nearly all of them be in time.
const AS_LATE: f64 = 0.5;
/// Chance of being wrong that the SLO is missed \[ours\].
const CHANCE: f64 = 0.001;
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

/// Whether hardly any requests of a step failed: more of them say nothing of response times.
fn has_few_failed(step: &StepRecord) -> bool {
    step.failed as f64 <= MUCH_FAILED * step.arrivals as f64
}

/// Share of what was answered that was late; 0 where much failed.
fn late_share(step: &StepRecord) -> f64 {
    let answered = step.arrivals - step.failed.min(step.arrivals);
    let late = step.violations.saturating_sub(step.failed);
    if has_few_failed(step) && answered > 0 {
        late as f64 / answered as f64
    } else {
        0.0
    }
}

impl LimitSearch {
    /// Whether one request alone surely misses the SLO.
    pub(super) fn misses_alone(&self) -> bool {
        self.alone.missed.is_some()
    }

    /// Whether it is to be asked now: the rate seems to make no difference, and it is not known whether one request alone is in
    /// time.
    pub(super) fn is_alone_to_be_asked(&self) -> bool {
        let enough = self.steps.len() >= STEPS || self.out_of_time;
        let late = enough && self.steps.iter().all(|step| late_share(step) >= NEARLY_ALL);
        self.may_ask_alone() && (late || self.is_as_late_at_any_rate())
    }

    /// Whether it can be asked: nobody knows yet, and there is time. A search that confirms nothing only says where to look: it may
    /// take a little longer for that.
    pub(super) fn may_ask_alone(&self) -> bool {
        let room = self.clock.room().filter(|_| !self.options.soak.is_zero());
        let fits = room.is_none_or(|room| self.length_alone() <= room);
        !self.alone.is_answered && self.alone.asked < ATTEMPTS && fits
    }

    /// Whether nothing is known of how low R* is: the SLO is missed at any rate alike, or R* lies where the prior ends.
    pub(super) fn may_lie_anywhere_below(&self) -> bool {
        let is_at_the_end = self.estimate().reference_hz.low <= LOWEST * self.prior_hz;
        self.is_as_late_at_any_rate() || (is_at_the_end && !self.steps.is_empty())
    }

    /// Whether the SLO was missed at every rate so far, and surely, and hardly less at the lowest than at the highest. Where the
    /// share falls with the rate, the fit knows how far below R* lies.
    fn is_as_late_at_any_rate(&self) -> bool {
        let allowed = self.slo.violating_share();
        let misses = |step: &StepRecord| {
            step.violations as f64 > allowed * step.arrivals as f64 && has_few_failed(step)
        };
        let sum = |of: fn(&StepRecord) -> u64| self.steps.iter().map(of).sum::<u64>();
        let is_sure = || {
            let (missed, arrivals) = (sum(|step| step.violations), sum(|step| step.arrivals));
            at_least(missed, arrivals, allowed) <= CHANCE
        };
        let [Some(lowest), Some(highest)] = self.ends() else {
            return false;
        };
        self.steps.len() >= ALL_MISS
            && lowest.rate_hz <= APART * highest.rate_hz
            && late_share(lowest) >= AS_LATE * late_share(highest)
            && self.steps.iter().all(misses)
            && is_sure()
    }

    /// The steps at the lowest and at the highest rate.
    fn ends(&self) -> [Option<&StepRecord>; 2] {
        let by_rate = |a: &&StepRecord, b: &&StepRecord| a.rate_hz.total_cmp(&b.rate_hz);
        [
            self.steps.iter().min_by(by_rate),
            self.steps.iter().max_by(by_rate),
        ]
    }

    /// Whether nothing that was measured says how low R* is.
    pub(super) fn has_no_low_end(&self) -> bool {
        self.may_lie_anywhere_below() && !self.soak.held && !self.misses_alone()
    }

    /// That nobody knows how low R* is, in words; `None` where it is known.
    pub(super) fn held_nowhere(&self) -> Option<String> {
        let [lowest, _] = self.ends();
        let lowest = self.unit().format(lowest?.rate_hz);
        self.has_no_low_end().then(|| {
            format!(
                "no rate was seen at which the SLO surely holds, down to {lowest}: R* may lie anywhere below"
            )
        })
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
