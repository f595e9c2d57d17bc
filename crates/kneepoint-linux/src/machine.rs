//! What the machine is, or in a container the part of it that is to be had.

use crate::cgroup::{self, Hierarchies};
use crate::file;
use procfs::{CpuInfo, Current, Meminfo, MemoryPressure};

/// Memory in bytes: the machine's, or what the topmost control group in sight may use, where that is less. `None` where it
/// cannot be read.
#[must_use]
pub fn memory_bytes() -> Option<u64> {
    let machine = Meminfo::current().ok()?.mem_total;
    let group = group_memory().map(|group| group.limit_bytes);
    Some(group.map_or(machine, |limit| limit.min(machine)))
}

/// Memory of the topmost group in sight, below which labs have theirs: a container's, where this is one. A limit that no machine
/// has is none.
fn group_memory() -> Option<cgroup::Memory> {
    let root = Hierarchies::detect().memory?.root;
    cgroup::Memory::of(&root)
}

/// Share of its memory that a machine must have left \[ours\].
const LEFT_LEAST: f64 = 0.02;
/// Share of the last ten seconds in which all programs waited for memory, from which on it suffers \[ours\].
const STALLED: f64 = 0.3;

/// How much memory the machine has left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryLeft {
    /// What could be given out now, as a share of all: of the machine's or of the container's, whichever is less.
    pub available: f64,
    /// Share of the last ten seconds in which all programs waited for memory; 0 where the kernel does not say.
    pub stalled: f64,
}

impl MemoryLeft {
    /// What is left now; `None` where it cannot be read.
    #[must_use]
    pub fn now() -> Option<Self> {
        let memory = Meminfo::current().ok()?;
        let pressure = MemoryPressure::current().ok();
        let of_machine = memory.mem_available? as f64 / memory.mem_total.max(1) as f64;
        let of_group = group_memory().map_or(1.0, |group| group.available());
        Some(Self {
            available: of_machine.min(of_group),
            stalled: pressure.map_or(0.0, |it| f64::from(it.full.avg10) / 100.0),
        })
    }

    /// That the machine runs out of memory, in words: its kernel ends programs next, and not only those that took it.
    #[must_use]
    pub fn shortage(&self) -> Option<String> {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        if self.available < LEFT_LEAST {
            let left = percent(self.available);
            return Some(format!(
                "this machine or container has {left} of its memory left"
            ));
        }
        (self.stalled >= STALLED).then(|| {
            let stalled = percent(self.stalled);
            format!("all programs of this machine waited for memory in {stalled} of the last ten seconds")
        })
    }
}

/// What the first CPU calls itself; `None` where it does not, as on ARM.
#[must_use]
pub fn cpu_model() -> Option<String> {
    CpuInfo::current().ok()?.model_name(0).map(str::to_owned)
}

/// The release of the kernel; empty where it cannot be read.
#[must_use]
pub fn kernel_release() -> String {
    setting("kernel/osrelease")
}

/// What names the time since the last start of the machine; empty where it cannot be read.
#[must_use]
pub fn boot_id() -> String {
    setting("kernel/random/boot_id")
}

/// A setting below `/proc/sys`, in the network namespace of the calling thread; empty where there is none.
#[must_use]
pub fn setting(path: &str) -> String {
    let bytes = file::read(&format!("/proc/sys/{path}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_memory_says_so() {
        let says = |available, stalled| MemoryLeft { available, stalled }.shortage();
        assert_eq!(says(0.2, 0.1), None);
        let left = says(0.011, 0.0).expect("a shortage");
        assert_eq!(
            left,
            "this machine or container has 1.1 % of its memory left"
        );
        assert!(says(0.2, 0.4).is_some_and(|it| it.contains("40.0 %")));
        let now = MemoryLeft::now().expect("/proc/meminfo");
        assert!((0.0..=1.0).contains(&now.available) && (0.0..=1.0).contains(&now.stalled));
    }

    #[test]
    fn this_machine_is_known() {
        assert!(memory_bytes().is_some_and(|bytes| bytes > 64 << 20));
        assert!(cpu_model().is_none_or(|model| !model.is_empty()));
        assert_eq!(kernel_release(), setting("kernel/osrelease"));
        assert_eq!(
            boot_id().len(),
            "01234567-89ab-cdef-0123-456789abcdef".len()
        );
        assert_eq!(setting("kernel/no_such_setting"), "");
    }
}
