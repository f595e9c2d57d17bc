//! SES-05: every request opens a session.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "SES-05",
    name: "session-auto-start",
    title: "Every request opens and locks a session",
    what_it_is: "session.auto_start = 1 opens the visitor's session before the first line of the application runs, \
        also for a page or an image that needs none. A session is locked from then to the end of the request: all \
        other requests of the same visitor wait. In the lab ten requests of one visitor took 2.08 s instead of 0.27.",
    how_it_shows: "Requests of one browser are answered one after the other; workers wait in flock or in a sleep.",
    unless: "Each visitor sends one request at a time, and each needs the session.",
    what_to_write: "session.auto_start = 0; the application opens the session where it needs it, and closes it early.",
    check,
};

const AUTO: Directive = Directive {
    home: Home::Ini,
    name: "session.auto_start",
    usual: "0",
    beside: &[("session.save_handler", "files")],
    severity: Severity::Risk,
    costs: |value, around| {
        (value.is_on() == Some(true)).then(|| {
            format!(
                "requests of one visitor wait for another, each of them in one of {} (2.08 instead of 0.27 s for ten in the lab)",
                around.who()
            )
        })
    },
    better: |_| "0".into(),
    weight: 0.15,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    AUTO.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "session.auto_start=1"),
                Severity::Risk,
                "2.08",
            )],
        );
    }
}
