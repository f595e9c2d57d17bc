//! The time that a search has: what its load took, what passed beside it, and what is left of a bound on both.

use super::{LimitSearch, Stage, width};
use std::time::Duration;

/// What passes beside a step as long as none was made: the queue runs empty, the machine's speed is looked at twice.
pub(super) const REST: Duration = Duration::from_millis(1000);
/// Shortest confirming stretch: below it, a step says as much.
pub(super) const SOAK_LEAST: Duration = Duration::from_secs(4);

/// Time from which on room is kept for a second confirming stretch.
const ROOM_FOR_TWO: Duration = Duration::from_secs(60);

/// The time of a search.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    whole: Option<Duration>,
    /// Since the search began.
    pub(super) passed: Duration,
    driven: Duration,
    steps: u32,
}

impl Clock {
    pub(super) fn new(whole: Option<Duration>) -> Self {
        Self {
            whole,
            passed: Duration::ZERO,
            driven: Duration::ZERO,
            steps: 0,
        }
    }

    /// A step loaded the stack for so long.
    pub(super) fn drove(&mut self, load: Duration) {
        self.driven += load;
        self.steps += 1;
    }

    /// What passes beside the load of a step: as so far, on average.
    fn rest(&self) -> Duration {
        match self.steps {
            0 => REST,
            steps => self.passed.saturating_sub(self.driven) / steps,
        }
    }

    /// The longest load of one step that ends in time; `None` without a bound.
    pub(super) fn room(&self) -> Option<Duration> {
        let left = self.whole?.saturating_sub(self.passed);
        Some(left.saturating_sub(self.rest()))
    }

    /// Whether a step of this load ends in time when so many others of so long may follow it.
    fn fits(&self, load: Duration, (then, times): (Duration, u32)) -> bool {
        let after = (then + self.rest()) * times;
        self.room().is_none_or(|room| load + after <= room)
    }

    /// The load of the next step: what was planned, or all there is room for where that leaves too little for one more step of
    /// at least `least`.
    fn filled(&self, planned: Duration, least: Duration) -> Duration {
        let room = self.room().unwrap_or(planned);
        if (planned..planned + least + self.rest()).contains(&room) {
            room
        } else {
            planned
        }
    }

    /// Share of the time that has passed; `None` without a bound.
    pub(super) fn progress(&self) -> Option<f64> {
        let whole = self.whole?.as_secs_f64();
        Some((self.passed.as_secs_f64() / whole.max(f64::MIN_POSITIVE)).min(1.0))
    }
}

impl LimitSearch {
    /// Whether no further step is taken: its time is over, or it would leave none for the confirming stretch. Where the whole
    /// has a bound, a load time that is spent ends a search only if R* is known well enough.
    pub(super) fn is_out_of_time(&self) -> bool {
        let spent = self.spent >= self.options.load_time;
        let known = || !width::too_wide(&self.estimate().rate_hz);
        let over = spent && (self.options.wall.is_none() || known());
        over || !self.has_time_for_a_step()
    }

    /// Whether another step ends in time, and with it the confirming stretches that are kept room for.
    fn has_time_for_a_step(&self) -> bool {
        let build_up = self.options.build_up();
        let next = self.step_length(self.next_rate()) + build_up;
        let soak = self.options.soak + build_up;
        self.clock.fits(next, (soak, self.soaks_to_come()))
    }

    /// Confirming stretches that are kept room for: the first may fail by chance, where there is time for two.
    fn soaks_to_come(&self) -> u32 {
        let two = self.options.wall.is_some_and(|wall| wall >= ROOM_FOR_TWO);
        match self.soak.held || self.options.soak.is_zero() {
            true => 0,
            false => 1 + u32::from(two),
        }
    }

    /// How long the step at a rate is. The last one takes what is left.
    pub(super) fn length_of_step(&self, rate_hz: f64) -> Duration {
        let planned = self.step_length(rate_hz);
        if self.soaks_to_come() > 0 || self.stage != Stage::Stepping {
            return planned;
        }
        let build_up = self.options.build_up();
        self.clock
            .filled(planned + build_up, self.options.step_min + build_up)
            - build_up
    }

    /// Visitors who pause for longer than a step waits are fewer on the site than its rate brings.
    pub(super) fn warn_of_the_build_up(&mut self) {
        let (pauses, waits) = (self.options.pauses(), self.options.build_up());
        if waits < pauses {
            self.warnings.push(format!(
                "visitors pause for {:.0} s in a visit, and a step waits for {:.0} s of it only: fewer of them are on the site \
                 than its rate brings, so the limit comes out too high",
                pauses.as_secs_f64(),
                waits.as_secs_f64()
            ));
        }
    }

    /// How long the next confirming stretch is: as planned, or as long as ends in time; `None` where that says nothing.
    pub(super) fn soak_length(&self) -> Option<Duration> {
        let (planned, build_up) = (self.options.soak, self.options.build_up());
        let Some(room) = self.clock.room() else {
            return Some(planned);
        };
        let filled = self
            .clock
            .filled(planned + build_up, self.options.step_min + build_up);
        let length = filled.min(room).saturating_sub(build_up);
        (length >= SOAK_LEAST.min(planned)).then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn what_passes_beside_steps_is_learnt_from_them() {
        let mut clock = Clock::new(Some(S(60)));
        assert_eq!(clock.room(), Some(S(60) - REST));
        clock.drove(S(4));
        clock.drove(S(6));
        clock.passed = S(16);
        // Three seconds beside each, so 41 s of load in one more step.
        assert_eq!(clock.room(), Some(S(41)));
        assert!(clock.fits(S(41), (S(20), 0)) && !clock.fits(S(42), (S(20), 0)));
        assert!(clock.fits(S(18), (S(20), 1)) && !clock.fits(S(19), (S(20), 1)));
        assert!(clock.fits(S(5), (S(15), 2)) && !clock.fits(S(6), (S(15), 2)));
        // A last step takes what is too little for another one.
        assert_eq!(clock.filled(S(36), S(5)), S(41));
        assert_eq!(clock.filled(S(33), S(5)), S(33));
        assert_eq!(clock.filled(S(45), S(5)), S(45));
        assert!((clock.progress().expect("it has a bound") - 16.0 / 60.0).abs() < 1e-9);
        clock.passed = S(70);
        assert_eq!(clock.room(), Some(Duration::ZERO));
    }

    #[test]
    fn without_a_bound_everything_fits() {
        let clock = Clock::new(None);
        assert!(clock.fits(S(86_400), (S(86_400), 2)) && clock.room().is_none());
        assert_eq!(clock.filled(S(5), S(4)), S(5));
    }
}
