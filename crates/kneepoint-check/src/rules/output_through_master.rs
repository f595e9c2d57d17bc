//! FPM-17: everything that workers print goes through the one master.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-17",
    name: "output-through-master",
    title: "What workers print goes through the master of PHP-FPM",
    what_it_is: "catch_workers_output hands what workers write on standard error through a pipe to the master, which writes \
        it to its log. An application that logs much that way waits for one process; the documentation says several ms.",
    how_it_shows: "The master of PHP-FPM uses CPU time, and workers wait in write to a pipe.",
    unless: "Little is written, or the log must come out of the container and nothing else does it.",
    what_to_write: "catch_workers_output = no, and error_log = a file in php.ini.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let Some(value) = pool.settings.get("catch_workers_output") else {
            continue;
        };
        if value.is_on() != Some(true) || service.place.container.is_some() {
            continue;
        }
        RULE.at(snapshot, at, Severity::Note)
            .pool(pool)
            .value("catch_workers_output", value)
            .cost("some milliseconds for each line that a request writes")
            .fix(Fix::pool(
                service,
                pool,
                &[("catch_workers_output", "no".into())],
            ))
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("catch_workers_output = yes", ""),
                Severity::Note,
                "php-fpm.conf:16",
            )],
        );
    }
}
