//! MYS-09: there is no log of slow queries.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-09",
    name: "mysql-slow-log-off",
    title: "MariaDB writes no log of slow queries",
    what_it_is: "With slow_query_log the database writes each query that takes longer than long_query_time, with the \
        rows it looked at. Off, as it comes, nobody can say afterwards which query was slow; the application's log \
        shows a page that took long, and no reason.",
    how_it_shows: "The site was slow an hour ago, SHOW PROCESSLIST is empty by now, and there is no file to look \
        into.",
    unless: "The application or an agent of monitoring logs its queries.",
    what_to_write: "slow_query_log = 1 and long_query_time = 1",
    check,
};

const SLOW: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "slow_query_log",
    usual: "0",
    beside: &[],
    severity: Severity::Note,
    costs: |value, around| {
        // MariaDB 10.11 has a second name for it.
        let second = around.settings.or("log_slow_query", "0");
        let off = value.is_on() == Some(false) && second.is_on() == Some(false);
        off.then(|| {
            format!(
                "no speed; but when a query of {} was slow nobody finds it again",
                around.who()
            )
        })
    },
    better: |_| "slow_query_log = 1\nlong_query_time = 1".into(),
    weight: 0.01,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    SLOW.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(3, "slow_query_log", "0"),
                Severity::Note,
                "20 workers",
            )],
        );
    }
}
