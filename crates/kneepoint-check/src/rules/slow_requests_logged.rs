//! FPM-33: the slow log has entries.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-33",
    name: "slow-requests-logged",
    title: "The slow log has entries: requests take longer than its limit",
    what_it_is: "Each entry is one request that took longer than request_slowlog_timeout, with the line of code at \
        which it was at that moment. The same line again and again is the cause of the wait: a query, a call to \
        another site, a lock.",
    how_it_shows: "`executing too slow (N sec), logging` in PHP-FPM's log.",
    unless: "They are jobs that are meant to be long.",
    what_to_write: "Count the first lines of the stacks in the slow log: `grep -A1 script_filename` shows where they \
        wait.",
    check,
};

const LINES: Logged = Logged {
    kinds: &[ServiceKind::Fpm],
    line: LogKind::RequestSlow,
    least: 3,
    severity: Severity::Risk,
    costs: |count| {
        format!(
            "{} that held a worker longer than the limit of the slow log",
            counted(count, "request")
        )
    },
    remedy: "Read the stacks in the file that `slowlog` names: the line that is there most often is what to mend.",
    weight: 0.15,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LINES.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let slow = |count| {
            crate::rule::case::logged(1, LogKind::RequestSlow, 60.0)
                .with(|all| all.services[1].logs[0].count = count)
        };
        verify(&RULE, &[(slow(9), Severity::Risk, "9 requests")]);
        assert!(super::super::tests_of(&RULE, &slow(2)).is_empty());
    }
}
