//! FPM-25: an endless loop holds a core for ever.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-25",
    name: "no-execution-limit",
    title: "Nothing ends a script that computes for ever",
    what_it_is: "max_execution_time ends a script that has computed for that long, 30 s as it comes. 0 is no limit. \
        A loop that never ends, or one over a table that has grown, then holds a core and a worker until somebody \
        ends it by hand.",
    how_it_shows: "A worker at 100 % of a core for hours, with no visitor who waits for it.",
    unless: "request_terminate_timeout is set, which ends also those that wait.",
    what_to_write: "max_execution_time = 30 in php.ini, and request_terminate_timeout = 60s in the pool.",
    check,
};

const TIME: Directive = Directive {
    home: Home::Ini,
    name: "max_execution_time",
    usual: "30",
    beside: &[],
    severity: Severity::Risk,
    costs: |value, around| {
        let ends = around
            .pool
            .map(|pool| pool.number("request_terminate_timeout", 0.0));
        let never = value.number() == Some(0.0) && ends == Some(0.0);
        never.then(|| {
            let cores = around.service.cores(&around.snapshot.machine);
            format!(
                "each such script takes one of {cores:.0} cores and one of {} until PHP is restarted",
                around.who()
            )
        })
    },
    better: |_| "30".into(),
    weight: 0.1,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    TIME.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("request_terminate_timeout = 0", "max_execution_time=0"),
                Severity::Risk,
                "one of 4 cores",
            )],
        );
    }
}
