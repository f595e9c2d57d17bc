//! MYS-14: few tables may be open.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-14",
    name: "mysql-few-open-tables",
    title: "MariaDB closes and opens its tables all the time",
    what_it_is: "table_open_cache is how many tables may be open at once, each counted once for every connection \
        that uses it: 2000 as it comes. When it is full, each query first closes a table of another and opens its \
        own, under a lock.",
    how_it_shows: "Opened_tables counts up while the site runs as always; threads in the state `Opening tables`.",
    unless: "Few connections use few tables.",
    what_to_write: "table_open_cache = 4000, and open_files_limit twice as much.",
    check,
};

const TABLES: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "table_open_cache",
    usual: "2000",
    beside: &[("max_connections", "151")],
    severity: Severity::Risk,
    costs: |value, around| {
        /// Tables that a page of a usual application joins, for each of its connections \[ours\].
        const EACH: f64 = 10.0;
        let most = value.number()?;
        let allowed = around.settings.or("max_connections", "151").number()?;
        // No more come than there are workers, and no more are let in than the database allows.
        let connections = (around.workers() as f64).min(allowed).max(1.0);
        let each = (most / connections).floor();
        (most < connections * EACH && most < 2000.0).then(|| {
            let when = match each {
                0.0 => {
                    "not one table for each, so that nearly every query closes another's".to_owned()
                }
                1.0 => "one table for each, and a query that joins two closes another's".to_owned(),
                each => format!(
                    "{each:.0} tables for each, and a query that joins more closes another's"
                ),
            };
            format!("{most:.0} open tables for {connections:.0} connections: {when}")
        })
    },
    better: |_| "table_open_cache = 4000".into(),
    weight: 0.1,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    TABLES.check(&RULE, snapshot, found);
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
                    Case::healthy().set(3, "table_open_cache", "64"),
                    Severity::Risk,
                    "64 open tables for 20 connections: 3 tables for each",
                ),
                (
                    Case::healthy().set(3, "table_open_cache", "10"),
                    Severity::Risk,
                    "not one table for each",
                ),
                // Of 20 workers the database lets five in.
                (
                    Case::healthy()
                        .set(3, "table_open_cache", "40")
                        .set(3, "max_connections", "5"),
                    Severity::Risk,
                    "40 open tables for 5 connections: 8 tables for each",
                ),
            ],
        );
        let few = Case::healthy()
            .set(3, "table_open_cache", "64")
            .set(3, "max_connections", "5");
        assert!(super::super::tests_of(&RULE, &few).is_empty());
    }
}
