//! FPM-28: PHP-FPM writes an access log of its own.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-28",
    name: "requests-logged-twice",
    title: "Every request is written to a second access log",
    what_it_is: "access.log of a pool has every worker write a line for each request when it ends. The web server in front \
        writes one already. The second line costs a write in the worker, which serves nobody meanwhile; where it goes to the \
        pipe of a container, the worker waits for the program that reads the pipe.",
    how_it_shows: "Two lines for each request, one in nginx's format and one in PHP-FPM's.",
    unless: "The line tells CPU time or memory (%C, %M) that nobody else tells, and the rate is low.",
    what_to_write: "Remove access.log from the pool, or point it at a file while something is looked for.",
    check,
};

const LOG: Directive = Directive {
    home: Home::Pool,
    name: "access.log",
    usual: "",
    beside: &[],
    severity: Severity::Note,
    costs: |value, around| {
        (!matches!(value.text.trim(), "" | "/dev/null")).then(|| {
            format!(
                "a write for each request, by each of {}, of what the web server has written already",
                around.who()
            )
        })
    },
    better: |_| "/dev/null".into(),
    weight: 0.03,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LOG.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("access.log = /proc/self/fd/2", ""),
                Severity::Note,
                "20 workers",
            )],
        );
    }

    #[test]
    fn what_is_thrown_away_costs_nothing() {
        let thrown = Case::healthy().pool_with("access.log = /dev/null", "");
        assert!(super::super::tests_of(&RULE, &thrown).is_empty());
    }
}
