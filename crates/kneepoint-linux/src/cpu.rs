//! The machine's account of CPU time, `/proc/stat`.

use crate::file::{number, read, words};

/// Time of all CPUs since the machine started, in clock ticks (proc(5): 100 a second on Linux). Time of guests is in
/// `user` already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CpuTicks {
    /// Programs.
    pub user: u64,
    /// Programs of low priority.
    pub nice: u64,
    /// System calls.
    pub system: u64,
    /// Nothing to run.
    pub idle: u64,
    /// Nothing to run while a disk is waited for.
    pub iowait: u64,
    /// Interrupts.
    pub irq: u64,
    /// Deferred work of interrupts.
    pub softirq: u64,
    /// Taken by the host of this machine.
    pub steal: u64,
    /// How many CPUs there are.
    pub cpus: usize,
}

impl CpuTicks {
    /// Reads the account; `None` where there is none.
    #[must_use]
    pub fn read() -> Option<Self> {
        Self::parse(&read("/proc/stat").ok()?)
    }

    /// Parses `/proc/stat`.
    #[must_use]
    pub fn parse(stat: &[u8]) -> Option<Self> {
        let lines = || stat.split(|byte| *byte == b'\n');
        let line = lines().find(|line| line.starts_with(b"cpu "))?;
        let mut ticks = words(line).skip(1).map_while(number);
        let mut next = || ticks.next();
        let is_cpu = |line: &&[u8]| {
            line.strip_prefix(b"cpu")
                .and_then(|rest| rest.first())
                .is_some_and(u8::is_ascii_digit)
        };
        Some(Self {
            user: next()?,
            nice: next()?,
            system: next()?,
            idle: next()?,
            iowait: next()?,
            irq: next()?,
            softirq: next()?,
            steal: next()?,
            cpus: lines().filter(is_cpu).count(),
        })
    }

    /// Ticks in programs and in system calls.
    #[must_use]
    pub fn running(&self) -> u64 {
        self.user
            .saturating_add(self.nice)
            .saturating_add(self.system)
    }

    /// Ticks with nothing to run.
    #[must_use]
    pub fn idling(&self) -> u64 {
        self.idle.saturating_add(self.iowait)
    }

    /// Share of all CPUs' time that was stolen since an earlier reading.
    #[must_use]
    pub fn steal_share_since(self, earlier: Self) -> Option<f64> {
        let all = self.all().checked_sub(earlier.all())?;
        let stolen = self.steal.checked_sub(earlier.steal)?;
        (all > 0).then(|| stolen as f64 / all as f64)
    }

    fn all(&self) -> u64 {
        [
            self.running(),
            self.idling(),
            self.irq,
            self.softirq,
            self.steal,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interrupts_are_nobodys_and_waiting_for_a_disk_is_idling() {
        let stat = b"cpu  100 20 30 4000 50 60 70 80 5 5\ncpu0 1 1 1 1\nctxt 99\n";
        let ticks = CpuTicks::parse(stat).expect("complete");
        assert_eq!((ticks.running(), ticks.idling()), (150, 4050));
        assert_eq!((ticks.steal, ticks.cpus), (80, 1));
        assert_eq!(CpuTicks::parse(b"cpu  100 20"), None);
        assert_eq!(CpuTicks::parse(b"intr 1"), None);
    }

    #[test]
    fn stolen_time_is_a_share_of_all_time() {
        let parse = |text: &str| CpuTicks::parse(text.as_bytes()).expect("complete");
        let before = parse("cpu  100 0 50 800 10 5 5 30 7 7\ncpu0 1 1 1 1 1 1 1 1\n");
        let after = parse("cpu  130 0 60 820 10 5 15 50 9 9\n");
        // 90 ticks passed, 20 of them stolen; those of guests are in the user's already.
        assert_eq!(after.steal_share_since(before), Some(20.0 / 90.0));
        assert_eq!(before.steal_share_since(before), None);
        assert_eq!(before.steal_share_since(after), None);
    }

    #[test]
    fn this_machine_answers() {
        let ticks = CpuTicks::read().expect("/proc/stat");
        assert!(ticks.cpus > 0 && ticks.running() > 0, "{ticks:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(text in "(cpu |cpu[0-9]|[0-9 .=\n]){0,40}") {
            let _ = CpuTicks::parse(text.as_bytes());
        }
    }
}
