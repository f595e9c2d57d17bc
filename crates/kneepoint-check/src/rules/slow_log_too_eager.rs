//! FPM-16: the slow log is too eager.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-16",
    name: "slow-log-too-eager",
    title: "The slow log stops workers for requests that are not slow",
    what_it_is: "When a request passes request_slowlog_timeout, the master of PHP-FPM stops its worker (ptrace), \
        reads the stack and writes it to the log. Once for a slow page that is nothing; with a limit below a second \
        it happens for every second page under load, just when there is no time.",
    how_it_shows: "The slow log grows by megabytes an hour, and the master of PHP-FPM uses CPU time.",
    unless: "Pages take a few milliseconds, so that even this limit is rarely passed.",
    what_to_write: "request_slowlog_timeout = 5s: above the 99th percentile of what is normal.",
    check,
};

const LIMIT: Directive = Directive {
    home: Home::Pool,
    name: "request_slowlog_timeout",
    usual: "0",
    beside: &[("slowlog", "not set")],
    severity: Severity::Note,
    costs: |value, around| {
        let seconds = value
            .seconds()
            .filter(|seconds| *seconds > 0.0 && *seconds < 1.0)?;
        Some(format!(
            "each request over {seconds} s is stopped while its stack is read, of up to {} at once",
            around.workers()
        ))
    },
    better: |_| "5s".into(),
    weight: 0.02,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LIMIT.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("request_slowlog_timeout = 200ms", ""),
                Severity::Note,
                "over 0.2 s",
            )],
        );
    }
}
