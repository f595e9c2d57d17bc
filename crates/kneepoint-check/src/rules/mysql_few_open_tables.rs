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
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        /// Tables that a page of a usual application joins, for each of its connections \[ours\].
        const EACH: f64 = 10.0;
        let most = value.number()?;
        let workers = around.workers() as f64;
        (most < workers * EACH && most < 2000.0).then(|| {
            format!(
                "{most:.0} open tables for {workers:.0} connections: from {:.0} tables a connection on, queries close one another's",
                most / workers
            )
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
            &[(
                Case::healthy().set(3, "table_open_cache", "64"),
                Severity::Risk,
                "64 open tables",
            )],
        );
    }
}
