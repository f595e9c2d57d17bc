//! A first process, and those that are found through it.

use crate::identity::Identity;
use kneepoint_linux::ProcessEntry;

/// The first process of a server or of a host, from which the others are found.
#[derive(Clone, Copy)]
pub(super) struct Root(pub(super) Identity);

impl Root {
    /// Its processes: itself, what descends from it, and orphans of its process group (which
    /// its workers become when it dies first). Only below this keeper, so never a stranger.
    pub(super) fn tree(self, all: &[ProcessEntry]) -> Vec<u32> {
        let Identity { pid, start_ticks } = self.0;
        let number_is_anothers = all
            .iter()
            .any(|stat| stat.pid == pid && stat.start_ticks != start_ticks);
        if number_is_anothers {
            return Vec::new();
        }
        let below = ProcessEntry::descendants(pid, all);
        ProcessEntry::descendants(std::process::id(), all)
            .into_iter()
            .filter(|stat| stat.pid == pid || stat.group == pid || below.contains(stat))
            .map(|stat| stat.pid)
            .collect()
    }
}
