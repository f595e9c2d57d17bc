//! PG-06: shared_buffers is as it comes.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-06",
    name: "postgresql-small-buffers",
    title: "PostgreSQL's cache is as small as it comes",
    what_it_is: "shared_buffers is PostgreSQL's own cache of pages, 128 MB as it comes, whatever the memory of the \
        host. What does not fit is fetched from the kernel's cache, page by page by a system call, or from disk. \
        With a database of gigabytes that is most pages.",
    how_it_shows: "blks_read in pg_stat_database grows nearly as fast as blks_hit.",
    unless: "The part of the data that is used fits anyhow, or memory is needed by others.",
    what_to_write: "shared_buffers = 25 % of the memory; a restart is needed.",
    check,
};

const BUFFERS: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "shared_buffers",
    usual: "128MB",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        /// Part of the data that a cache should hold at the least, where there is memory for it \[ours\].
        const PART: f64 = 0.1;
        // A bare number counts pages of 8 kB.
        let bare = value
            .text
            .trim()
            .parse::<f64>()
            .ok()
            .map(|count| count * 8192.0);
        let bytes = bare.or_else(|| value.bytes())?;
        let data = around.service.data_bytes?;
        let room = around.memory_bytes();
        (bytes < data * PART && bytes < room / 16.0).then(|| {
            format!(
                "a cache of {} for {} of data, with {} of memory ({})",
                format_bytes(bytes as u64),
                format_bytes(data as u64),
                format_bytes(room as u64),
                around.memory_source()
            )
        })
    },
    better: |around| {
        format!(
            "shared_buffers = {:.0}MB",
            around.memory_bytes() / 4.0 / 1_048_576.0
        )
    },
    weight: 0.2,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    BUFFERS.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy()
                    .set(4, "shared_buffers", "128MB")
                    .with(|all| all.services[4].data_bytes = Some(2e10)),
                Severity::Risk,
                "18.6 GiB of data",
            )],
        );
    }
}
