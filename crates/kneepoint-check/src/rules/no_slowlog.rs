//! FPM-16: nobody writes down what slow requests do.

use crate::files::is_printed;
use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-16",
    name: "no-slowlog",
    title: "There is no slow log",
    what_it_is: "With request_slowlog_timeout PHP-FPM writes the stack of a request that takes longer: the line of code it \
        hangs in. It stops the worker for a moment, so the limit should be above what is usual; a container needs \
        SYS_PTRACE for it.",
    how_it_shows: "When the site was slow an hour ago, nobody can say which line of code it was.",
    unless: "A profiler or an APM watches requests.",
    what_to_write: "request_slowlog_timeout = 5s and slowlog = /var/log/php-slow.log in the pool.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let value = pool.settings.or("request_slowlog_timeout", "0");
        if value.seconds() == Some(0.0) {
            RULE.at(snapshot, at, Severity::Note)
                .pool(pool)
                .value("request_slowlog_timeout", &value)
                .cost("no time; but the next incident leaves no trace of its cause")
                .fix(Fix::pool(
                    service,
                    pool,
                    &[
                        ("request_slowlog_timeout", "5s".into()),
                        ("slowlog", place(service)),
                    ],
                ))
                .tell(found);
        }
    }
}

/// Where PHP-FPM can write it: it does not start with a file that it may not open. Containers often run it without root.
fn place(service: &Service) -> String {
    if service.place.container.is_some() {
        return "/proc/self/fd/2".into();
    }
    let log = service.settings.text("error_log").unwrap_or_default();
    match log.rsplit_once('/') {
        Some((dir, _)) if dir.starts_with('/') && !is_printed(log) => {
            format!("{dir}/php-fpm-slow.log")
        }
        _ => "/var/log/php-fpm-slow.log".into(),
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
                Case::healthy().pool_with("request_slowlog_timeout = 0", ""),
                Severity::Note,
                "php-fpm.conf:16",
            )],
        );
        let fix = |case: Case| super::super::tests_of(&RULE, &case)[0].fix.in_one_line();
        let none = || Case::healthy().pool_with("request_slowlog_timeout = 0", "");
        let beside = fix(none().set(1, "error_log", "/srv/log/fpm.log"));
        assert!(
            beside.contains("slowlog = /srv/log/php-fpm-slow.log"),
            "{beside}"
        );
        assert!(fix(none()).contains("slowlog = /var/log/php-fpm-slow.log"));
    }
}
