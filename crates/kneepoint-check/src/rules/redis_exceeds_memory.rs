//! RDS-08: maxmemory that does not fit.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-08",
    name: "redis-exceeds-memory",
    title: "Redis may grow beyond the memory there is",
    what_it_is: "maxmemory is what Redis may keep; buffers of clients and pages that are copied while a snapshot is \
        written come on top. Where it is nearly all the memory of the host or the container, the kernel kills Redis \
        before it begins to throw old entries away, and everything in it is gone: sessions, queues, caches.",
    how_it_shows: "Redis restarts with an empty or older memory, and `oom_kill` of its control group counts up.",
    unless: "It writes no snapshots, and the data that there is stays far below the limit.",
    what_to_write: "maxmemory = three quarters of the limit, half of it where snapshots are written.",
    check,
};

const SHARE: MemoryShare = MemoryShare {
    kind: ServiceKind::Redis,
    name: "maxmemory",
    usual: "0",
    unit_bytes: 1.0,
    most: 0.8,
    beside: "buffers of clients and the copy for a snapshot",
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    SHARE.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(2, "maxmemory", "15gb"),
                Severity::Risk,
                "101 %",
            )],
        );
    }
}
