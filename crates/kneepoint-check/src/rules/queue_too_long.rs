//! FPM-09: the queue holds more than can be served in time.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-09",
    name: "queue-too-long",
    title: "The queue before PHP is longer than anybody waits",
    what_it_is: "listen.backlog is how many connections may wait for a worker. The longer the queue, the later the \
        last one is served: beyond what the web server waits, workers only serve requests that were given up long \
        ago, and the site stays slow after a burst. A shorter queue answers the surplus at once with an error, and \
        recovers.",
    how_it_shows: "After a burst all workers are busy for a minute more, and nginx logs 504 for what they answer.",
    unless: "Requests take a few milliseconds, so that even a full queue is served in time.",
    what_to_write: "listen.backlog = about the workers times the seconds a visitor waits, divided by the mean time \
        of a request.",
    check,
};

/// Time of a request that is assumed where nobody measured it, in seconds \[ours\].
const EACH_S: f64 = 0.1;
/// Workers that packages and images come with.
const SHIPPED: u64 = 5;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let askers = Askers::of(snapshot);
    for (at, service, pool) in snapshot.pools() {
        let Some(workers) = pool.max_children().filter(|count| *count > 0) else {
            continue;
        };
        let backlog = pool.settings.or("listen.backlog", "511");
        let somaxconn = service.kernel.or("net.core.somaxconn", "4096");
        let (Some(asked), Some(most)) = (backlog.number(), somaxconn.number()) else {
            continue;
        };
        let written = if asked < 0.0 { most } else { asked.min(most) };
        // The socket keeps the length it was opened with, whatever is written now.
        let real = pool.queue.map(|(_, limit)| limit as f64);
        let length = real.unwrap_or(written);
        let waits = length * EACH_S / workers as f64;
        // Of a pool as small as it came with another rule tells: its size is what to mend first.
        if backlog.is_default() && workers <= SHIPPED {
            continue;
        }
        let given_up = askers.patience(at, pool);
        let given_up = given_up.and_then(|value| value.seconds()).unwrap_or(60.0);
        if waits <= given_up {
            continue;
        }
        let right = (given_up / 4.0 * workers as f64 / EACH_S).clamp(128.0, 4096.0);
        RULE.at(snapshot, at, Severity::Note)
            .pool(pool)
            .value("listen.backlog", &pool.settings.or("listen.backlog", "not set"))
            .value("net.core.somaxconn", &somaxconn)
            .value("pm.max_children", &pool.settings.or("pm.max_children", "not set"))
            .cost(format!(
                "at 0.1 s a request the last of {length:.0} waits {waits:.0} s for {}; nginx gives up after {given_up:.0} s",
                super::one_of(workers, "worker")
            ))
            .fix(
                Fix::pool(service, pool, &[("listen.backlog", format!("{right:.0}"))])
                    .after_restart(service),
            )
            .weight(0.05)
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
            &[
                (
                    Case::healthy().pool_with("listen.backlog = -1\npm.max_children = 5", ""),
                    Severity::Note,
                    "waits 82 s",
                ),
                (
                    Case::healthy()
                        .pool_with("listen.backlog = 4096", "")
                        .nginx_with(
                            "fastcgi_pass unix",
                            "fastcgi_read_timeout 5s;\n   fastcgi_pass unix",
                        ),
                    Severity::Note,
                    "after 5 s",
                ),
            ],
        );
    }
}
