//! The longer stretch of load that confirms a limit, and what follows when it does not.

use super::{LimitSearch, Stage};
use kneepoint_model::statistics::special::logit;
use kneepoint_model::units::format_share;
use kneepoint_model::{Interval, LoadPoint, Second};
use std::time::Duration;

/// Factor by which the rate is lowered when a soak contradicts the fit (method.md section 1, confirmation).
const LOWERING: f64 = 0.93;
/// The most that a soak which failed badly lowers it.
const LOWERING_MOST: f64 = 0.75;
/// The same when it failed as single stretches do by chance at this rate.
const STEP_DOWN: f64 = 0.97;
/// Standard deviations of single steps, and of the machine's speed, up to which the fit allows for a soak that failed:
/// three, since both have wide tails.
const CHANCE: f64 = 3.0;
/// Soaks that may fail by chance before the limit counts as not confirmed.
const MOST_BY_CHANCE: u32 = 2;
/// How many standard deviations of the steps' speeds the slowest moment of a stretch is away: a few seconds over the limit
/// are a twentieth of it, and it is as long as nine steps (the least of nine normal values: 1.5).
const WORST_OF_A_STRETCH: f64 = 1.5;
/// By how much R* must have fallen below a soak's rate for the machine's speed to be the reason that it failed.
const SLOWED: f64 = 1.005;

/// Seconds of a stretch that held before the rest of it drowned, and of that rest, at least: a queue that drifts above the
/// goal for a moment comes back in less.
const HELD_S: usize = 10;
const DROWNED_S: usize = 5;
/// Share of the rest that is late or failed at least.
const DROWNED: f64 = 0.25;
/// How far apart two stretches may be in the requests they bore before they drowned, as a share, for these to have filled
/// something up. Two slow spells of the machine seldom come after as many.
const AS_MANY: f64 = 0.15;

/// The confirming stretches so far.
#[derive(Debug, Clone)]
pub(super) struct Soak {
    /// Rate of the one that is next, or of the last.
    pub(super) rate_hz: f64,
    /// Its length.
    pub(super) length: Duration,
    pub(super) point: Option<LoadPoint>,
    pub(super) attempts: u32,
    /// Whether the last of them held.
    pub(super) held: bool,
    pub(super) spent: Duration,
    /// Failures that the fit has room for, or that the machine's speed explains.
    by_chance: u32,
    /// How far below the interval's lower end the limit is confirmed, for failures that the fit has room for.
    below: f64,
    /// Rates that failed and that the fit has no room for.
    contradicted_hz: Vec<f64>,
    /// Requests that a stretch bore before it drowned.
    bore: Option<f64>,
}

impl Default for Soak {
    fn default() -> Self {
        Self {
            rate_hz: 0.0,
            length: Duration::ZERO,
            point: None,
            attempts: 0,
            held: false,
            spent: Duration::ZERO,
            by_chance: 0,
            below: 1.0,
            contradicted_hz: Vec::new(),
            bore: None,
        }
    }
}

impl Soak {
    /// A search goes on: what its stretches contradicted stays so, and the limit is to be confirmed anew.
    pub(super) fn forget_all_but_what_contradicts(&mut self) {
        *self = Self {
            spent: self.spent,
            contradicted_hz: std::mem::take(&mut self.contradicted_hz),
            bore: self.bore,
            ..Self::default()
        };
    }

    /// An interval of R* with what the confirming stretches say: where the fit was contradicted, the limit lies between
    /// the rate that held and the last that did not, and no higher than the first. One that had to be repeated lower by
    /// chance says nothing that the fit did not: to widen the interval for it made it cover too often
    /// (`cargo xtask method`).
    pub(super) fn lowered(&self, fitted: Interval) -> Interval {
        let mut rate_hz = fitted;
        // What is known to hold; where nothing is, it is at least one step further down.
        let holds_hz = if self.held {
            self.rate_hz
        } else {
            self.rate_hz * LOWERING
        };
        let failed = || {
            self.contradicted_hz
                .iter()
                .copied()
                .filter(|failed| *failed > holds_hz)
        };
        if let (Some(first), Some(last)) = (failed().next(), failed().next_back()) {
            rate_hz.low = rate_hz.low.min(holds_hz);
            rate_hz.high = rate_hz.high.min(first);
            rate_hz.estimate = (holds_hz * last).sqrt().min(rate_hz.high);
        }
        rate_hz
    }
}

impl LimitSearch {
    /// Confirms the lower end, unless nobody asked for it or there is no time.
    pub(super) fn begin_soak(&mut self) {
        self.soak.rate_hz = self.confirmable_hz();
        self.stage = Stage::Finished;
        if self.options.soak.is_zero() {
            return;
        }
        match self.soak_length() {
            Some(length) => self.soak_for(length),
            None => self.warnings.push(
                "the budget was too small for a stretch of load that confirms the limit".to_owned(),
            ),
        }
    }

    fn soak_for(&mut self, length: Duration) {
        if length < self.options.soak {
            self.warnings.push(format!(
                "the stretch of load that confirms the limit was shortened to {:.0} s, to end within the budget",
                length.as_secs_f64()
            ));
        }
        self.soak.length = length;
        self.stage = Stage::Soaking;
    }

    /// The lower end of R* at a speed of the machine, as far as it was not refuted yet.
    fn low_hz(&self, speed: Option<f64>) -> f64 {
        let fitted = self.estimate();
        let low = fitted.reference_hz.low / fitted.reference_hz.estimate;
        self.soak.below * low * fitted.at_speed(speed)
    }

    /// By how much R* scatters with the machine's speed, as a share; 0 where that is not known.
    fn sd_by_speed(&self) -> f64 {
        self.estimate().beta * self.speed_sd().unwrap_or(0.0)
    }

    /// The rate to confirm next: the lower end at the machine's speed now, less what it may lose in the meantime.
    fn confirmable_hz(&self) -> f64 {
        self.low_hz(self.speed_ahead()) * (-WORST_OF_A_STRETCH * self.sd_by_speed()).exp()
    }

    pub(super) fn record_soak(&mut self, point: &LoadPoint, speed: Option<f64>) {
        let held = point.violating_share() <= self.slo.violating_share()
            && point.error_share() <= self.slo.errors;
        self.soak.point = Some(point.clone());
        self.soak.attempts += 1;
        let took = self.soak.length + self.options.build_up();
        self.soak.spent += took;
        self.clock.drove(took);
        self.stage = Stage::Finished;
        self.soak.held = held && point.validity.is_valid();
        if self.soak.held {
            return self.go_on();
        }
        let (why, next_hz) = self.after_a_failure(point, held, speed);
        let rate_hz = self.soak.rate_hz;
        let contradicted = self.soak.contradicted_hz.last() == Some(&rate_hz);
        self.soak.by_chance += u32::from(!contradicted);
        let failed = format!(
            "{why} over {:.0} s at {} ({})",
            point.window_s,
            self.unit().format(rate_hz),
            late_or_failed(point),
        );
        if self.soak.attempts > self.options.more_soaks || self.soak.by_chance >= MOST_BY_CHANCE {
            self.warnings
                .push(format!("{failed}: the limit is not confirmed"));
            return;
        }
        let Some(length) = self.soak_length() else {
            self.warnings.push(format!(
                "{failed}: the limit is not confirmed, since the budget leaves no time for another stretch"
            ));
            return;
        };
        let next = if contradicted {
            "the limit is lowered"
        } else if next_hz < rate_hz {
            "it is confirmed at a lower rate"
        } else {
            "it is measured again"
        };
        self.warnings.push(format!("{failed}: {next}"));
        self.soak.rate_hz = next_hz;
        self.soak_for(length);
    }

    /// The limit is confirmed: what is left of a bounded time goes into further steps, unless R* is narrow, or the steps were
    /// contradicted.
    fn go_on(&mut self) {
        let narrow = self.estimate().rate_hz.relative_half_width() <= self.options.target;
        let bounded = self.options.wall.is_some() && self.soak.contradicted_hz.is_empty();
        self.out_of_time = self.is_out_of_time();
        if bounded && !narrow && !self.out_of_time {
            self.stage = Stage::Stepping;
        }
    }

    /// Why a soak did not confirm, in words, and at which rate the next one may.
    fn after_a_failure(
        &mut self,
        point: &LoadPoint,
        held: bool,
        speed: Option<f64>,
    ) -> (&'static str, f64) {
        let rate_hz = self.soak.rate_hz;
        if held {
            // That says nothing of the stack.
            return ("the generator was not sound", rate_hz);
        }
        if self.filled_up(point) {
            self.soak.contradicted_hz.push(rate_hz);
            return (FILLED_UP, rate_hz * self.lowering(point));
        }
        if rate_hz > SLOWED * self.low_hz(speed) {
            let next_hz = self.confirmable_hz().min(rate_hz);
            return (self.slowed_or_disturbed(point, speed), next_hz);
        }
        if self.allows_for(point, speed) {
            self.soak.below *= STEP_DOWN;
            return ("the SLO did not hold", self.confirmable_hz());
        }
        self.soak.contradicted_hz.push(rate_hz);
        ("the SLO did not hold", rate_hz * self.lowering(point))
    }

    /// What made R* fall below the rate of a stretch: the machine, or what others took of it.
    fn slowed_or_disturbed(&self, point: &LoadPoint, speed: Option<f64>) -> &'static str {
        let undisturbed = speed.map(|speed| speed / point.health.available_at_worst());
        if self.soak.rate_hz > SLOWED * self.low_hz(undisturbed) {
            return "the machine had slowed and the SLO did not hold";
        }
        let taken = |share: Option<f64>| share.unwrap_or(0.0);
        let health = &point.health;
        let by_programs = taken(health.foreign_peak_share).max(taken(health.foreign_share));
        if by_programs >= taken(health.steal_share) {
            "other programs took part of the machine and the SLO did not hold"
        } else {
            "the host took part of the machine's time and the SLO did not hold"
        }
    }

    /// Whether this stretch drowned after about as many requests as one before. That is not how the fit's steps scatter, which
    /// are too short for it: connections use up local ports, a cache or a disk fills.
    fn filled_up(&mut self, point: &LoadPoint) -> bool {
        let Some(bore) = bore_before_it_drowned(&point.seconds, self.slo.violating_share()) else {
            return false;
        };
        let before = self.soak.bore.replace(bore);
        before.is_some_and(|before| (bore / before).ln().abs() <= AS_MANY)
    }

    /// By what factor a rate that failed is lowered: the worse it failed, the further above the limit it was, by the
    /// slope of the fit. One step down from a stretch that drowned would drown as well.
    fn lowering(&self, point: &LoadPoint) -> f64 {
        let beyond = self.excess(point) / self.estimate().slope;
        (-beyond).exp().clamp(LOWERING_MOST, LOWERING)
    }

    /// How far a soak's violating share lies above the goal's, or its share of errors where that lies further, as a difference
    /// of logits.
    fn excess(&self, point: &LoadPoint) -> f64 {
        let above = |share: f64, goal: f64| logit(share.clamp(1e-6, 1.0 - 1e-6)) - logit(goal);
        let by_time = above(point.violating_share(), self.slo.violating_share());
        match self.is_by_errors(point) {
            true => by_time.max(above(point.error_share(), self.slo.errors.max(1e-4))),
            false => by_time,
        }
    }

    /// Whether it is errors that a soak failed by: more than by chance, and of those that were not refused few were late.
    fn is_by_errors(&self, point: &LoadPoint) -> bool {
        let bearable = point.arrivals as f64 * self.slo.errors;
        let late = point.violations().saturating_sub(point.refused(&self.slo));
        let few_late = late as f64 <= point.arrivals as f64 * self.slo.violating_share();
        few_late && point.outcomes.failed() as f64 > bearable + CHANCE * bearable.sqrt() + CHANCE
    }

    /// Whether the fit expects single stretches at the soak's rate to come out as bad as it did, at times.
    fn allows_for(&self, point: &LoadPoint, speed: Option<f64>) -> bool {
        if self.is_by_errors(point) {
            return false;
        }
        let fitted = self.estimate();
        let above = (self.soak.rate_hz / fitted.at_speed(speed)).ln();
        let seen = self.excess(point) / fitted.slope;
        seen <= above + CHANCE * fitted.step_sd.hypot(self.sd_by_speed())
    }
}

/// Why a limit is lowered that stretches contradict which drowned alike.
const FILLED_UP: &str = "the SLO held at first and then not any more, after as many requests as before: something fills up, \
    such as local ports (`kneepoint explain KRN-01`)";

/// Requests that a stretch bore before it drowned for good; `None` where it did not, or did so from the start.
fn bore_before_it_drowned(seconds: &[Second], violating_share: f64) -> Option<f64> {
    let offered = |seconds: &[Second]| seconds.iter().map(|it| it.offered).sum::<u64>() as f64;
    let violating = |seconds: &[Second]| {
        let good = seconds.iter().map(|it| it.good).sum::<u64>() as f64;
        1.0 - good / offered(seconds).max(1.0)
    };
    let held = |second: &Second| violating(std::slice::from_ref(second)) <= violating_share;
    // In a last second that the window cuts off nothing may have been offered.
    let whole = seconds.iter().rposition(|it| it.offered > 0)? + 1;
    let (bore, drowned) = seconds[..whole].split_at(seconds[..whole].iter().rposition(held)? + 1);
    (bore.len() >= HELD_S
        && drowned.len() >= DROWNED_S
        && violating(bore) <= violating_share
        && violating(drowned) >= DROWNED)
        .then(|| offered(bore))
}

fn late_or_failed(point: &LoadPoint) -> String {
    format!(
        "{} late or failed, {} failed",
        format_share(point.violating_share()),
        point.outcomes.failed()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_drowned_where_it_held_and_did_not_come_back() {
        // Seconds of 100 requests of which so many are good.
        let check = |good: &[(usize, u64)], expected: Option<f64>| {
            let good = good.iter().flat_map(|(times, good)| vec![*good; *times]);
            let seconds: Vec<Second> = good
                .map(|good| Second {
                    offered: 100,
                    good,
                    ..Second::default()
                })
                .collect();
            assert_eq!(bore_before_it_drowned(&seconds, 0.05), expected);
        };
        check(&[(41, 99), (18, 45)], Some(4100.0));
        check(&[(20, 99), (3, 60), (18, 99), (18, 45)], Some(4100.0));
        // It came back, held all along, held never, drowned at once or only just, or did so a little.
        check(&[(41, 99), (10, 45), (8, 99)], None);
        check(&[(59, 99)], None);
        check(&[(59, 45)], None);
        check(&[(5, 99), (54, 45)], None);
        check(&[(56, 99), (3, 45)], None);
        check(&[(41, 99), (18, 90)], None);
        check(&[], None);
    }
}
