//! FPM-19: a worker may open few files.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-19",
    name: "pool-few-descriptors",
    title: "A worker of PHP may open few files",
    what_it_is: "rlimit_files is how many files and connections one worker may have open. A request needs a few \
        dozen; one that writes many files, or keeps connections to several databases, needs some hundred. Beyond the \
        limit every open and every connection fails in the middle of a request.",
    how_it_shows: "`Too many open files` in PHP's log, for some pages only.",
    unless: "The application opens few files at once, and no connection is kept open between requests.",
    what_to_write: "rlimit_files = 4096 in the pool, and LimitNOFILE= of the unit at least as much.",
    check,
};

const POOL: Directive = Directive {
    home: Home::Pool,
    name: "rlimit_files",
    usual: "1024",
    beside: &[],
    severity: Severity::Risk,
    costs: few,
    better: |_| "4096".into(),
    weight: 0.08,
};

const GLOBAL: Directive = Directive {
    home: Home::Program(ServiceKind::Fpm),
    name: "rlimit_files",
    usual: "1024",
    beside: &[],
    severity: Severity::Risk,
    costs: few,
    better: |_| "4096".into(),
    weight: 0.08,
};

/// What a process of Linux has where nobody says anything.
const LEAST: f64 = 1024.0;

fn few(value: &SettingValue, around: &Around<'_>) -> Option<String> {
    let most = value.number().filter(|most| *most < LEAST)?;
    Some(format!(
        "a request of {} that needs more than {most:.0} files at once ends in an error",
        around.who()
    ))
}

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    POOL.check(&RULE, snapshot, found);
    GLOBAL.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("rlimit_files = 256", ""),
                Severity::Risk,
                "more than 256 files",
            )],
        );
    }
}
