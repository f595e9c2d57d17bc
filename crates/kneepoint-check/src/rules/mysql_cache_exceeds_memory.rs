//! MYS-16: a cache that does not fit.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-16",
    name: "mysql-cache-exceeds-memory",
    title: "MariaDB's cache is larger than its memory allows",
    what_it_is: "innodb_buffer_pool_size is taken bit by bit and never given back. Beside it the database needs \
        memory for connections, and other programs need theirs. Where it is most of the memory, the host begins to \
        swap, or the kernel kills the largest process, which is the database. In a container the container's limit \
        counts, not the host's memory.",
    how_it_shows: "The database is gone, or slow with a busy disk, hours or days after it was started.",
    unless: "The database has the host for itself, few connections, and some gigabytes are left.",
    what_to_write: "innodb_buffer_pool_size = 50 to 70 % of the memory of a host of its own, less beside PHP.",
    check,
};

const SHARE: MemoryShare = MemoryShare {
    kind: ServiceKind::Mysql,
    name: "innodb_buffer_pool_size",
    usual: "128M",
    unit_bytes: 1.0,
    most: 0.8,
    beside: "memory for connections and other programs",
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
                Case::healthy().set(3, "innodb_buffer_pool_size", "15G"),
                Severity::Risk,
                "101 %",
            )],
        );
    }
}
