//! APP-14: the log has fatal errors of PHP.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-14",
    name: "fatal-errors-logged",
    title: "Pages end with a fatal error of PHP",
    what_it_is: "A fatal error ends the request where it happens: memory_limit was reached, a class is missing, an \
        exception was caught by nobody. The visitor gets status 500 or half a page. Some happen only under load: a \
        cache that two requests write at once, a connection that was refused.",
    how_it_shows: "`PHP Fatal error:` in PHP's log or in the error log of nginx; status 500 in the access log.",
    unless: "The lines are of an attack that asks for pages which are not there, or of work on the site.",
    what_to_write: "Group the lines by their text: the one that comes with load is the one to mend first.",
    check,
};

const LINES: Logged = Logged {
    kinds: &[],
    line: LogKind::PhpFatal,
    least: 1,
    severity: Severity::Problem,
    costs: |count| {
        format!(
            "{} that ended in an error, as the log counts them",
            counted(count, "request")
        )
    },
    remedy: "Read the lines: memory_limit, a missing class, a refused connection each have their own cure. Keep log_errors on.",
    weight: 0.35,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LINES.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let now = crate::rule::case::logged(1, LogKind::PhpFatal, 60.0);
        let few = now.clone().with(|all| all.services[1].logs[0].count = 1);
        verify(
            &RULE,
            &[
                (now, Severity::Problem, "12 requests"),
                (few, Severity::Note, "1 request "),
            ],
        );
        let old = crate::rule::case::logged(1, LogKind::PhpFatal, 1e7);
        assert!(super::super::tests_of(&RULE, &old).is_empty());
    }
}
