//! How often something may be done that must not take more than a share of a core.

use std::time::{Duration, Instant};

/// What is done again and again, never sooner than its cost allows.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    /// The share of one core it may take.
    share: f64,
    /// Least time between two.
    least: Duration,
    between: Duration,
    due: Instant,
}

impl Pace {
    /// Due at once.
    pub(super) fn new(share: f64, least: Duration) -> Self {
        Self {
            share,
            least,
            between: least,
            due: Instant::now(),
        }
    }

    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Time to the next one after the last.
    pub(super) fn between(&self) -> Duration {
        self.between
    }

    /// It was done, and took this much CPU time.
    pub(super) fn took(&mut self, cpu: Duration) {
        self.between = between(self.share, self.least, cpu);
        self.due = Instant::now() + self.between;
    }

    /// Makes it due at once.
    pub(super) fn now(&mut self) {
        self.due = Instant::now();
    }
}

fn between(share: f64, least: Duration, cpu: Duration) -> Duration {
    cpu.div_f64(share).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_cheap_comes_as_often_as_asked() {
        let second = Duration::from_secs(1);
        assert_eq!(between(0.004, second, Duration::from_micros(500)), second);
        assert_eq!(
            between(0.004, second, Duration::from_millis(20)),
            Duration::from_secs(5)
        );
        let mut pace = Pace::new(0.01, Duration::from_secs(600));
        assert!(pace.is_due());
        pace.took(Duration::ZERO);
        assert!(!pace.is_due());
        pace.now();
        assert!(pace.is_due() && pace.between() == Duration::from_secs(600));
    }

    proptest! {
        #[test]
        fn no_look_takes_more_than_its_share(cpu_us in 0_u64..60_000_000, share in 0.0001_f64..0.1, least_ms in 1_u64..60_000) {
            let cpu = Duration::from_micros(cpu_us);
            let pause = between(share, Duration::from_millis(least_ms), cpu);
            prop_assert!(cpu.as_secs_f64() <= pause.as_secs_f64() * share * 1.000_001 + 1e-9);
        }
    }
}
