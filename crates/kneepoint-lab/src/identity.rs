//! Whether a number still means the same process.

pub(crate) mod users;

use kneepoint_linux::ProcessEntry;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Its number.
    pub(crate) pid: u32,
    /// Start time in clock ticks since boot, field 22 of `/proc/PID/stat`.
    pub(crate) start_ticks: u64,
}

impl Identity {
    /// The identity of a running process.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        ProcessEntry::of(pid).map(|entry| Self::from(&entry))
    }

    /// The identity of this process.
    pub(crate) fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// True while the process runs; one that only waits for its parent to collect it does not.
    pub(crate) fn is_alive(self) -> bool {
        ProcessEntry::of(self.pid)
            .is_some_and(|entry| entry.start_ticks == self.start_ticks && !entry.is_dead())
    }

    /// Kills the process if it is still the same one. True when the signal was sent.
    pub(crate) fn kill(self) -> bool {
        let Some(pid) = i32::try_from(self.pid)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
        else {
            return false;
        };
        // The descriptor pins the process, so the identity that is checked next is the one that is killed.
        pidfd_open(pid, PidfdFlags::empty()).is_ok_and(|descriptor| {
            self.is_alive() && pidfd_send_signal(descriptor, Signal::KILL).is_ok()
        })
    }
}

impl From<&ProcessEntry> for Identity {
    fn from(entry: &ProcessEntry) -> Self {
        Self {
            pid: entry.pid,
            start_ticks: entry.start_ticks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_dies_with_its_process() {
        let own = Identity::own().expect("this process exists");
        assert!(own.is_alive());
        let later = Identity {
            start_ticks: own.start_ticks + 1,
            ..own
        };
        assert!(!later.is_alive(), "same number, other process");
        assert!(!later.kill(), "a stranger is never hit");
    }
}
