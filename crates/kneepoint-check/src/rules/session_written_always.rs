//! SES-06: sessions are written although nothing changed.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "SES-06",
    name: "session-written-always",
    title: "Sessions are written although nothing in them changed",
    what_it_is: "session.lazy_write, on as PHP comes, leaves the write at the end of a request out when the session \
        is as it was. Off, every request that opens a session writes it: a file, or a command to Redis, and with a \
        disk behind it a wait.",
    how_it_shows: "As many writes of sessions as requests, most of which only read.",
    unless: "A handler of the application's own counts on being called for each request.",
    what_to_write: "session.lazy_write = 1",
    check,
};

const LAZY: Directive = Directive {
    home: Home::Ini,
    name: "session.lazy_write",
    usual: "1",
    beside: &[("session.save_handler", "files")],
    severity: Severity::Note,
    costs: |value, around| {
        (value.is_on() == Some(false)).then(|| {
            let handler = around.settings.or("session.save_handler", "files");
            format!(
                "a write to `{}` for each request that opens a session",
                handler.text
            )
        })
    },
    better: |_| "1".into(),
    weight: 0.03,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LAZY.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", "session.lazy_write=0"),
                Severity::Note,
                "`files`",
            )],
        );
    }
}
