//! FPM-23: monitoring that waits in the queue it is to watch.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-23",
    name: "status-in-the-pool",
    title: "The status page waits in the queue that it is to watch",
    what_it_is: "pm.status_path is answered by a worker of the pool itself: when all are busy, monitoring times out (1.55 s in \
        the lab) in the very moment it is there for. Since PHP 8.0 pm.status_listen gives it a socket of its own.",
    how_it_shows: "Monitoring has gaps exactly when the site is slow.",
    unless: "Nobody monitors the page.",
    what_to_write: "pm.status_listen = 127.0.0.1:9001 in the pool, and ask there.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let Some(value) = pool.settings.get("pm.status_path") else {
            continue;
        };
        if pool.settings.get("pm.status_listen").is_some()
            || service.is_older_than(&[8, 0]) == Some(true)
        {
            continue;
        }
        RULE.at(snapshot, at, Severity::Note)
            .pool(pool)
            .value("pm.status_path", value)
            .seen("pm.status_listen is not set", "")
            .cost("monitoring is blind at saturation")
            .fix(Fix::pool(
                service,
                pool,
                &[("pm.status_listen", "127.0.0.1:9001".into())],
            ))
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let pool = "[b]\npm = static\npm.max_children = 20\npm.status_path = /s";
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with(pool, ""),
                Severity::Note,
                "php-fpm.conf:19",
            )],
        );
    }
}
