//! PG-09: autovacuum is off.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-09",
    name: "postgresql-autovacuum-off",
    title: "PostgreSQL never cleans up after itself",
    what_it_is: "PostgreSQL keeps the old version of each row that is changed or deleted until autovacuum removes \
        it, and counts rows to plan queries. With autovacuum off, or track_counts off, which it depends on, tables \
        and indexes grow with every update, plans rest on numbers of long ago, and in the end the database stops to \
        protect itself.",
    how_it_shows: "Tables that are many times larger than their rows; queries that get slower from week to week; \
        n_dead_tup in pg_stat_user_tables.",
    unless: "Nothing is ever changed or deleted, or VACUUM ANALYZE runs from a timer.",
    what_to_write: "autovacuum = on and track_counts = on",
    check,
};

const VACUUM: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "autovacuum",
    usual: "on",
    beside: &[],
    severity: Severity::Risk,
    costs: grows,
    better: |_| "autovacuum = on".into(),
    weight: 0.3,
};

const COUNTS: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "track_counts",
    usual: "on",
    beside: &[],
    severity: Severity::Risk,
    costs: grows,
    better: |_| "track_counts = on".into(),
    weight: 0.3,
};

fn grows(value: &SettingValue, around: &Around<'_>) -> Option<String> {
    let data = around.service.data_bytes.map_or_else(
        || "tables grow with every update".to_owned(),
        |bytes| {
            format!(
                "its {} of data grow with every update",
                format_bytes(bytes as u64)
            )
        },
    );
    (value.is_on() == Some(false)).then(|| format!("{data}, and queries read what is long deleted"))
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    VACUUM.check(&RULE, snapshot, found);
    COUNTS.check(&RULE, snapshot, found);
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
                    Case::healthy().set(4, "autovacuum", "off"),
                    Severity::Risk,
                    "autovacuum",
                ),
                (
                    Case::healthy().set(4, "track_counts", "off"),
                    Severity::Risk,
                    "track_counts",
                ),
            ],
        );
    }
}
