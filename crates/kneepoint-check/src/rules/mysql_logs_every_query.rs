//! MYS-10: every query is written to a log.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-10",
    name: "mysql-logs-every-query",
    title: "MariaDB writes a line for every query",
    what_it_is: "general_log writes each query of everybody into a file; so does the slow log with long_query_time \
        near 0. It is switched on to look for something, and stays on. Each line is written while the query's \
        connection waits, and the file fills the disk.",
    how_it_shows: "A log that grows by gigabytes a day, and writes to the disk of which no query is the reason.",
    unless: "Few queries come, or the law asks for it.",
    what_to_write: "general_log = 0 and long_query_time = 1",
    check,
};

const GENERAL: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "general_log",
    usual: "0",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        (value.is_on() == Some(true))
            .then(|| format!("a line in a file for each query of {}", around.who()))
    },
    better: |_| "general_log = 0".into(),
    weight: 0.15,
};

const SLOW: Directive = Directive {
    home: Home::Program(ServiceKind::Mysql),
    name: "long_query_time",
    usual: "10",
    beside: &[("slow_query_log", "0")],
    severity: Severity::Risk,
    costs: |value, around| {
        /// Below this nearly every query counts as slow \[ours\].
        const LEAST_S: f64 = 0.02;
        let seconds = value.number().filter(|seconds| *seconds < LEAST_S)?;
        let on = around.settings.or("slow_query_log", "0").is_on() == Some(true);
        on.then(|| {
            format!(
                "a line in a file for each query over {seconds} s of {}",
                around.who()
            )
        })
    },
    better: |_| "long_query_time = 1".into(),
    weight: 0.15,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    GENERAL.check(&RULE, snapshot, found);
    SLOW.check(&RULE, snapshot, found);
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
                    Case::healthy().set(3, "general_log", "1"),
                    Severity::Risk,
                    "general_log",
                ),
                (
                    Case::healthy().set(3, "long_query_time", "0"),
                    Severity::Risk,
                    "over 0 s",
                ),
            ],
        );
    }
}
