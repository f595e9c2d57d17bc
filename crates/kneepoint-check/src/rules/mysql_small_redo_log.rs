//! MYS-18: the redo log is small.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-18",
    name: "mysql-small-redo-log",
    title: "MariaDB's log of changes is small for its cache",
    what_it_is: "InnoDB writes each change into a log of fixed size (innodb_log_file_size, in MySQL 8 \
        innodb_redo_log_capacity) and writes the changed pages themselves later. When the log is full, it must write \
        pages at once, and all writes wait. A small log before a large cache makes that happen all the time.",
    how_it_shows: "Writes pause in waves; Innodb_buffer_pool_wait_free or the age of the checkpoint near the size of \
        the log.",
    unless: "The site hardly writes.",
    what_to_write: "innodb_log_file_size = 512M; a crash then takes longer to recover from, some minutes at most.",
    check,
};

const LOG: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "innodb_log_file_size",
    usual: "96M",
    beside: &[("innodb_buffer_pool_size", "128M")],
    severity: Severity::Risk,
    costs: |value, around| {
        /// A log smaller than this part of the cache is full before the cache is \[ours\].
        const PART: f64 = 1.0 / 64.0;
        let log = value.size().filter(|_| !value.is_default())?;
        let cache = around
            .settings
            .or("innodb_buffer_pool_size", "128M")
            .size()?;
        (log < cache * PART).then(|| {
            format!(
                "all writes wait each time {} of changes have come, before a cache of {}",
                format_bytes(log as u64),
                format_bytes(cache as u64)
            )
        })
    },
    better: |_| "innodb_log_file_size = 512M".into(),
    weight: 0.1,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LOG.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(3, "innodb_log_file_size", "5M"),
                Severity::Risk,
                "5.0 MiB",
            )],
        );
    }
}
