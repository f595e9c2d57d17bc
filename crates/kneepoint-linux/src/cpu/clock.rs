//! CPU time that was used here.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time of this process, all its threads together.
#[must_use]
pub fn process_cpu() -> Duration {
    of(ClockId::ProcessCPUTime)
}

/// CPU time of the calling thread.
#[must_use]
pub fn thread_cpu() -> Duration {
    of(ClockId::ThreadCPUTime)
}

fn of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_and_sleep_takes_none() {
        let (thread, process) = (thread_cpu(), process_cpu());
        while thread_cpu() - thread < Duration::from_millis(30) {}
        assert!(process_cpu() - process >= Duration::from_millis(30));
        let before = thread_cpu();
        std::thread::sleep(Duration::from_millis(60));
        assert!(thread_cpu() - before < Duration::from_millis(30));
    }
}
