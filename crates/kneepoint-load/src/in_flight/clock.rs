//! The clock of a load.

use std::thread;
use std::time::{Duration, Instant};

/// Nanoseconds since the load began, on the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) began: Instant,
}

impl Clock {
    pub(crate) fn now(self) -> u64 {
        // Zero stands for "not yet" in a request's stamps.
        (self.began.elapsed().as_nanos() as u64).max(1)
    }

    /// Waits for the common start: before it, every time would read as 0.
    pub(crate) fn wait_for_start(self) {
        thread::sleep(self.began.saturating_duration_since(Instant::now()));
    }
}

/// A duration in nanoseconds; what does not fit is as long as can be said, 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_beyond_all_clocks_is_the_longest_there_is() {
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }
}
