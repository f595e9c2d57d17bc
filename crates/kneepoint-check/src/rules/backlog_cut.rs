//! FPM-07: a queue before PHP that is shorter than it says.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-07",
    name: "backlog-cut",
    title: "The queue before PHP is shorter than listen.backlog says",
    what_it_is: "The kernel cuts listen.backlog to net.core.somaxconn. Where a Unix socket's queue is full, nginx answers 502 \
        at once, and no counter of the kernel shows it; over TCP, clients wait one and three seconds.",
    how_it_shows: "502 at once in a burst, with `(11: Resource temporarily unavailable)` in the error log of nginx, although the pool's queue says to be longer.",
    unless: "The queue is never that long.",
    what_to_write: "net.core.somaxconn = 4096 in that network namespace, listen.backlog = 511 in the pool; then restart both.",
    check,
};

/// A queue of fewer connections is full in a moment.
const SHORT: f64 = 128.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let backlog = pool.settings.or("listen.backlog", "511");
        let Some(somaxconn) = service.kernel.get("net.core.somaxconn") else {
            continue;
        };
        let (Some(asked), Some(most)) = (backlog.number(), somaxconn.number()) else {
            continue;
        };
        let asked = if asked < 0.0 { f64::MAX } else { asked };
        let wanted = backlog.is_default() || asked > most;
        let short = asked.min(most) < SHORT;
        if !(wanted && asked > most && most < 511.0 || short) {
            continue;
        }
        let fix = match asked > most {
            true => Fix::sysctl(service, "net.core.somaxconn", "4096"),
            false => Fix::pool(service, pool, &[("listen.backlog", "511".into())]),
        };
        RULE.at(snapshot, at, Severity::Risk)
            .pool(pool)
            .value("listen.backlog", &backlog)
            .value("net.core.somaxconn", somaxconn)
            .cost(format!(
                "in a burst the {:.0}th waiting request is an error, or waits seconds more",
                asked.min(most) + 1.0
            ))
            .fix(fix)
            .weight(0.1)
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
                    Case::healthy().kernel(1, "net.core.somaxconn", "128"),
                    Severity::Risk,
                    "129th",
                ),
                (
                    Case::healthy().pool_with("listen.backlog = 16", ""),
                    Severity::Risk,
                    "17th",
                ),
            ],
        );
    }
}
