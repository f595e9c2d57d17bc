//! The machine's account of CPU time, `/proc/stat`, and what of it is to be had here.

mod allowed;
pub mod clock;

pub use allowed::{Allowed, CpuUse};

use crate::file::{number, read, words};
use std::collections::BTreeSet;

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
        let all = lines(stat).find(|line| line.starts_with(b"cpu "))?;
        let cpus = lines(stat).filter(|line| number_of(line).is_some()).count();
        Self::of_line(all, cpus)
    }

    /// Parses `/proc/stat`, and counts some CPUs of it only. Where one of them is not in it, CPUs have other numbers there, as
    /// where LXCFS shows a container its own, and all count.
    #[must_use]
    pub fn of(stat: &[u8], cpus: &BTreeSet<usize>) -> Option<Self> {
        let each: Vec<Self> = lines(stat)
            .filter(|line| number_of(line).is_some_and(|number| cpus.contains(&number)))
            .filter_map(|line| Self::of_line(line, 1))
            .collect();
        match each.len() == cpus.len() {
            true => each
                .into_iter()
                .reduce(Self::and)
                .or_else(|| Self::parse(stat)),
            false => Self::parse(stat),
        }
    }

    fn of_line(line: &[u8], cpus: usize) -> Option<Self> {
        let mut ticks = words(line).skip(1).map_while(number);
        let mut next = || ticks.next();
        Some(Self {
            user: next()?,
            nice: next()?,
            system: next()?,
            idle: next()?,
            iowait: next()?,
            irq: next()?,
            softirq: next()?,
            steal: next()?,
            cpus,
        })
    }

    /// Those of more CPUs together.
    fn and(self, other: Self) -> Self {
        Self {
            user: self.user.saturating_add(other.user),
            nice: self.nice.saturating_add(other.nice),
            system: self.system.saturating_add(other.system),
            idle: self.idle.saturating_add(other.idle),
            iowait: self.iowait.saturating_add(other.iowait),
            irq: self.irq.saturating_add(other.irq),
            softirq: self.softirq.saturating_add(other.softirq),
            steal: self.steal.saturating_add(other.steal),
            cpus: self.cpus + other.cpus,
        }
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

fn lines(stat: &[u8]) -> impl Iterator<Item = &[u8]> {
    stat.split(|byte| *byte == b'\n')
}

/// The CPU that a line of `/proc/stat` is of: `cpu7 ...`.
fn number_of(line: &[u8]) -> Option<usize> {
    usize::try_from(number(line.strip_prefix(b"cpu")?)?).ok()
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
    fn a_container_with_two_of_four_cpus_counts_those() {
        let stat =
            b"cpu  10 0 0 100 0 0 0 0 0 0\ncpu0 1 0 0 10 0 0 0 0 0 0\ncpu1 2 0 0 20 0 0 0 0 0 0\n\
            cpu2 3 0 0 30 0 0 0 1 0 0\ncpu3 4 0 0 40 0 0 0 0 0 0\nctxt 99\n";
        let check = |cpus: &[usize], expected: (u64, u64, usize)| {
            let ticks = CpuTicks::of(stat, &cpus.iter().copied().collect()).expect("complete");
            assert_eq!((ticks.user, ticks.idle, ticks.cpus), expected, "{cpus:?}");
        };
        check(&[1, 2], (5, 50, 2));
        check(&[0, 1, 2, 3], (10, 100, 4));
        // Unknown, or numbered otherwise.
        check(&[], (10, 100, 4));
        check(&[3, 4], (10, 100, 4));
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
            let _ = CpuTicks::of(text.as_bytes(), &BTreeSet::from([0, 2]));
        }
    }
}
