//! FPM-32: PHP-FPM ended requests.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-32",
    name: "requests-terminated",
    title: "Requests were ended because they ran too long",
    what_it_is: "request_terminate_timeout ends a request that runs longer, and its worker with it. That protects \
        the pool. Each line is a visitor with an error, and the end of something that hung: a database, another \
        site, a lock. An empty script name is an idle connection that nginx kept, no request.",
    how_it_shows: "`execution timed out (N sec), terminating` in PHP-FPM's log, and 502 in the access log at that \
        moment.",
    unless: "They are long exports that nobody waits for: then give them a pool of their own.",
    what_to_write: "Look into the slow log at the same minute: it names the line of code that waited.",
    check,
};

const LINES: Logged = Logged {
    kinds: &[ServiceKind::Fpm],
    line: LogKind::RequestTerminated,
    least: 1,
    severity: Severity::Problem,
    costs: |count| {
        format!(
            "{} ended with an error, having held a worker for the whole limit",
            counted(count, "request")
        )
    },
    remedy: "Set request_slowlog_timeout and look which line waits; then give that call a time limit of its own.",
    weight: 0.3,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LINES.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let now = crate::rule::case::logged(1, LogKind::RequestTerminated, 60.0);
        verify(&RULE, &[(now, Severity::Problem, "12 requests")]);
        let old = crate::rule::case::logged(1, LogKind::RequestTerminated, 1e7);
        assert!(super::super::tests_of(&RULE, &old).is_empty());
    }
}
