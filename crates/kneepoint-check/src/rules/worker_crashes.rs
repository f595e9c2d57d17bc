//! FPM-21: workers that end by a signal.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-21",
    name: "worker-crashes",
    title: "Workers are ended by signals",
    what_it_is: "A worker that ends by signal 11 ran into a bug of PHP or an extension; one that ends by signal 9 was killed, \
        mostly by the kernel for want of memory. Its request is an error, and its caches are gone.",
    how_it_shows: "502 at random; `exited on signal 11` or `signal 9` in PHP-FPM's log.",
    unless: "Somebody killed them by hand.",
    what_to_write: "The newest PHP and extensions for signal 11; a smaller pool or more memory for signal 9.",
    check,
};

const LINES: Logged = Logged {
    kinds: &[],
    line: LogKind::WorkerCrashed,
    least: 1,
    severity: Severity::Problem,
    costs: |count| {
        format!(
            "{} that ended with an error of the server",
            counted(count, "request")
        )
    },
    remedy: "Look at the signal in the log. 11: take the newest PHP and extensions, and never call opcache_reset() under load. 9: see \
        who killed it (`dmesg`), and make the pool smaller or the limit larger.",
    weight: 0.4,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    LINES.check(&RULE, snapshot, found);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::case::logged;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                logged(1, LogKind::WorkerCrashed, 60.0),
                Severity::Problem,
                "12 times",
            )],
        );
        assert!(super::super::tests_of(&RULE, &logged(1, LogKind::WorkerCrashed, 1e7)).is_empty());
    }
}
