//! PG-10: fsync or full_page_writes is off.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-10",
    name: "postgresql-durability-off",
    title: "A crash may destroy the database",
    what_it_is: "With fsync off PostgreSQL does not wait until the disk has what was written, and with \
        full_page_writes off half a page may be left after a crash. Writes are faster. After a crash of the host the \
        whole database may be beyond repair, not only the last rows. Waiting less has a safe setting of its own: \
        synchronous_commit = off.",
    how_it_shows: "Nothing, until the host crashes; then errors such as `invalid page in block`.",
    unless: "The data can be made anew, as on a host for tests.",
    what_to_write: "fsync = on and full_page_writes = on; synchronous_commit = off where losing the last half second \
        is fine.",
    check,
};

const FSYNC: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "fsync",
    usual: "on",
    beside: &[],
    severity: Severity::Risk,
    costs: lost,
    better: |_| "fsync = on".into(),
    weight: 0.05,
};

const PAGES: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "full_page_writes",
    usual: "on",
    beside: &[],
    severity: Severity::Risk,
    costs: lost,
    better: |_| "full_page_writes = on".into(),
    weight: 0.05,
};

fn lost(value: &SettingValue, around: &Around<'_>) -> Option<String> {
    let bytes = around.service.data_bytes.unwrap_or(0.0);
    (value.is_on() == Some(false)).then(|| {
        format!(
            "no speed: a crash of the host may cost all {} of data",
            format_bytes(bytes as u64)
        )
    })
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    FSYNC.check(&RULE, snapshot, found);
    PAGES.check(&RULE, snapshot, found);
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
                    Case::healthy().set(4, "fsync", "off"),
                    Severity::Risk,
                    "crash",
                ),
                (
                    Case::healthy().set(4, "full_page_writes", "off"),
                    Severity::Risk,
                    "full_page_writes",
                ),
            ],
        );
    }
}
