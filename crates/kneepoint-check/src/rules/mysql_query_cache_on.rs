//! MYS-11: the query cache is one lock for all.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-11",
    name: "mysql-query-cache-on",
    title: "All queries wait for the lock of MariaDB's query cache",
    what_it_is: "The query cache keeps results of queries, and throws those of a table away at each write to it. One \
        lock guards it: every query of every connection takes it, also those that find nothing. With several cores \
        it makes the database slower; MySQL 8 has no such cache any more, MariaDB has it off.",
    how_it_shows: "Threads in the state `Waiting for query cache lock` in SHOW PROCESSLIST; the CPU is not used up.",
    unless: "The data is hardly ever written, and one core does all the work.",
    what_to_write: "query_cache_type = 0 and query_cache_size = 0",
    check,
};

const CACHE: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "query_cache_type",
    usual: "0",
    beside: &[("query_cache_size", "1M")],
    severity: Severity::Risk,
    costs: |value, around| {
        let on = value.is_on() == Some(true) || value.text.trim() == "2";
        let some = around.settings.or("query_cache_size", "1M").size() != Some(0.0);
        (on && some).then(|| {
            format!(
                "one lock for the queries of {}, on {:.0} cores",
                around.who(),
                around.service.cores(&around.snapshot.machine)
            )
        })
    },
    better: |_| "query_cache_type = 0\nquery_cache_size = 0".into(),
    weight: 0.15,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    CACHE.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(3, "query_cache_type", "ON"),
                Severity::Risk,
                "20 workers, on 4 cores",
            )],
        );
    }
}
