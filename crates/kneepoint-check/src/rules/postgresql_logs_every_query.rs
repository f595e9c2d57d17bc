//! PG-13: every query is written to a log.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "PG-13",
    name: "postgresql-logs-every-query",
    title: "PostgreSQL writes a line for every query",
    what_it_is: "log_statement = all, or log_min_duration_statement near 0, writes the text of each query to the \
        log. It is switched on to look for something and stays on. A page with fifty queries is fifty lines; the \
        process of each query formats and sends its line before it goes on.",
    how_it_shows: "A log that grows by gigabytes a day, and the logging process of PostgreSQL near the top of `top`.",
    unless: "Few queries come, or the law asks for it.",
    what_to_write: "log_statement = none and log_min_duration_statement = 1000",
    check,
};

const STATEMENT: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "log_statement",
    usual: "none",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        (value.text.trim() == "all").then(|| format!("a line for each query of {}", around.who()))
    },
    better: |_| "log_statement = none".into(),
    weight: 0.12,
};

const DURATION: Directive = Directive {
    home: Home::Program(ServiceKind::Postgresql),
    name: "log_min_duration_statement",
    usual: "-1",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        /// Milliseconds below which nearly every query is logged \[ours\].
        const LEAST_MS: f64 = 10.0;
        let least = value
            .text
            .trim()
            .trim_end_matches("ms")
            .trim()
            .parse::<f64>()
            .ok()?;
        (0.0..LEAST_MS)
            .contains(&least)
            .then(|| format!("a line for each query over {least} ms of {}", around.who()))
    },
    better: |_| "log_min_duration_statement = 1000".into(),
    weight: 0.12,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    STATEMENT.check(&RULE, snapshot, found);
    DURATION.check(&RULE, snapshot, found);
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
                    Case::healthy().set(4, "log_statement", "all"),
                    Severity::Risk,
                    "20 workers",
                ),
                (
                    Case::healthy().set(4, "log_min_duration_statement", "0"),
                    Severity::Risk,
                    "over 0 ms",
                ),
            ],
        );
    }
}
