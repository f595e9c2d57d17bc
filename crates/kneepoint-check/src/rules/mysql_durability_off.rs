//! MYS-20: a crash loses what was stored.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-20",
    name: "mysql-durability-off",
    title: "MariaDB may lose what it said it had stored",
    what_it_is: "innodb_flush_log_at_trx_commit = 0 writes changes to disk once a second instead of at each commit, \
        and innodb_doublewrite = 0 leaves a second copy of pages out. Both make writes faster, since nobody waits \
        for the disk. A crash then loses up to a second of orders, or the whole table.",
    how_it_shows: "Nothing, until the host crashes; then rows are missing that the application had confirmed.",
    unless: "The data can be made anew, as on a host for tests.",
    what_to_write: "innodb_flush_log_at_trx_commit = 2 (a crash of the database alone loses nothing), or 1; \
        innodb_doublewrite = 1",
    check,
};

const FLUSH: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "innodb_flush_log_at_trx_commit",
    usual: "1",
    beside: &[],
    severity: Severity::Note,
    costs: |value, _| {
        (value.text.trim() == "0")
            .then(|| "no speed: up to 1 s of confirmed writes are lost in a crash, also of the database alone".to_owned())
    },
    better: |_| "innodb_flush_log_at_trx_commit = 2".into(),
    weight: 0.02,
};

const DOUBLE: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "innodb_doublewrite",
    usual: "1",
    beside: &[],
    severity: Severity::Note,
    costs: |value, _| {
        (value.is_on() == Some(false)).then(|| {
            "no speed: a crash in the middle of writing a page of 16 kB destroys it".to_owned()
        })
    },
    better: |_| "innodb_doublewrite = 1".into(),
    weight: 0.02,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    FLUSH.check(&RULE, snapshot, found);
    DOUBLE.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[
                (
                    Case::healthy().set(3, "innodb_flush_log_at_trx_commit", "0"),
                    Severity::Note,
                    "up to 1 s",
                ),
                (
                    Case::healthy().set(3, "innodb_doublewrite", "OFF"),
                    Severity::Note,
                    "16 kB",
                ),
            ],
        );
    }
}
