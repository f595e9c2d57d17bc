//! FPM-29: PHP-FPM logs for those who develop it.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-29",
    name: "fpm-logs-debug",
    title: "PHP-FPM logs at the level debug",
    what_it_is: "log_level = debug has the master of PHP-FPM write what it looks at: for every pool, every second. \
        It is for those who look for a fault in PHP-FPM itself.",
    how_it_shows: "Lines with `DEBUG:` in the log, several a second, also while nobody asks for anything.",
    unless: "Somebody looks for a fault right now.",
    what_to_write: "log_level = notice in [global].",
    check,
};

const LEVEL: Directive = Directive {
    home: Home::Program(ServiceKind::Fpm),
    name: "log_level",
    usual: "notice",
    beside: &[],
    severity: Severity::Note,
    costs: |value, around| {
        (value.text.trim() == "debug").then(|| {
            format!(
                "a line a second for each of {} pools; the lines that matter are lost among them",
                around.service.pools.len()
            )
        })
    },
    better: |_| "notice".into(),
    weight: 0.01,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LEVEL.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().set(1, "log_level", "debug"),
                Severity::Note,
                "1 pools",
            )],
        );
    }
}
