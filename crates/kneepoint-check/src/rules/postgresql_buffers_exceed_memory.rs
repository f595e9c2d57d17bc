//! PG-14: a cache that does not fit.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-14",
    name: "postgresql-buffers-exceed-memory",
    title: "PostgreSQL takes most of the memory for its own cache",
    what_it_is: "shared_buffers is a cache of PostgreSQL's own, in front of the kernel's cache of files, through \
        which it reads and writes everything. Beyond about 40 % of the memory the same pages are kept twice and \
        nothing is left for sorting, for connections and for the kernel. In a container the container's limit \
        counts.",
    how_it_shows: "The host swaps or the kernel kills a process of PostgreSQL, which ends all connections at once.",
    unless: "Nothing but PostgreSQL runs there, with few connections.",
    what_to_write: "shared_buffers = 25 % of the memory.",
    check,
};

const SHARE: MemoryShare = MemoryShare {
    kind: ServiceKind::Postgresql,
    name: "shared_buffers",
    usual: "128MB",
    unit_bytes: 8192.0,
    most: 0.5,
    beside: "the kernel's own cache, and memory for each query,",
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
                Case::healthy().set(4, "shared_buffers", "12GB"),
                Severity::Risk,
                "81 %",
            )],
        );
    }
}
