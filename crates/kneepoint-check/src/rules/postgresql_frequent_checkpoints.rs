//! PG-11: checkpoints come too often.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-11",
    name: "postgresql-frequent-checkpoints",
    title: "PostgreSQL writes all changed pages again and again",
    what_it_is: "PostgreSQL writes changes to a log, and at a checkpoint all changed pages to their tables. max_wal_size, 1 \
        GB as it comes, is how much of the log may lie between two checkpoints. With less, they come every few seconds under \
        writes, and after each the first change of a page writes the whole page to the log.",
    how_it_shows: "`checkpoints are occurring too frequently` in the log, and a disk that is busy in waves.",
    unless: "The site hardly writes.",
    what_to_write: "max_wal_size = 2GB and checkpoint_timeout = 15min",
    check,
};

const WAL: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "max_wal_size",
    usual: "1GB",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, _| {
        /// Half of what PostgreSQL comes with.
        const LITTLE: f64 = 512.0 * 1_048_576.0;
        // A bare number counts megabytes.
        let bare = value
            .text
            .trim()
            .parse::<f64>()
            .ok()
            .map(|count| count * 1_048_576.0);
        let bytes = bare
            .or_else(|| value.bytes())
            .filter(|bytes| *bytes < LITTLE)?;
        Some(format!(
            "a checkpoint each time {} of changes have come",
            format_bytes(bytes as u64)
        ))
    },
    better: |_| "max_wal_size = 2GB".into(),
    weight: 0.1,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    WAL.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(4, "max_wal_size", "80MB"),
                Severity::Risk,
                "80.0 MiB",
            )],
        );
    }
}
