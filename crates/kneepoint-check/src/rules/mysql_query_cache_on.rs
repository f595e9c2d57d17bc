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
        const COMES_WITH: f64 = 1_048_576.0;
        let size = around.settings.or("query_cache_size", "1M").size();
        let on_demand = ["2", "demand"].contains(&value.text.trim().to_ascii_lowercase().as_str());
        // A size of one's own switches it on where nothing else is said
        // (<https://mariadb.com/kb/en/query-cache/>, since 10.1.7).
        let by_size = value.is_default()
            && size.is_some_and(|size| size != COMES_WITH)
            && around.service.is_older_than(&[10, 1, 7]) == Some(false);
        let on = value.is_on() == Some(true) || on_demand || by_size;
        (on && size != Some(0.0)).then(|| {
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
        let sized = |version: &str| {
            let case = Case::healthy()
                .set(3, "query_cache_size", "64M")
                .with(|all| all.services[3].version = version.into());
            super::super::tests_of(&RULE, &case).len()
        };
        assert_eq!((sized("10.11.6"), sized("8.0.36")), (1, 0));
        let demand = Case::healthy().set(3, "query_cache_type", "DEMAND");
        assert_eq!(super::super::tests_of(&RULE, &demand).len(), 1);
    }
}
