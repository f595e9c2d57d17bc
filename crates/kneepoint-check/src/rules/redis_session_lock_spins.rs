//! SES-02: locks of sessions in Redis.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "SES-02",
    name: "redis-session-lock-spins",
    title: "Requests sleep while they wait for a session lock in Redis",
    what_it_is: "With redis.session.locking_enabled a request that finds its session locked asks again every \
        redis.session.lock_wait_time. Requests of one visitor run one after the other, each holding a worker.",
    how_it_shows: "Workers sleep (nanosleep) while one visitor's requests come at once, and Redis gets many SET ... NX.",
    unless: "Visitors ask for one page at a time.",
    what_to_write: "Close the session early (session_write_close), and a larger redis.session.lock_wait_time only where few wait.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, _, pool) in snapshot.pools() {
        let on = pool
            .php
            .get("redis.session.locking_enabled")
            .filter(|value| value.is_on() == Some(true));
        let Some(on) = on.filter(|_| pool.php.text("session.save_handler") == Some("redis")) else {
            continue;
        };
        let wait = pool.php.or("redis.session.lock_wait_time", "20000");
        RULE.at(snapshot, at, Severity::Note)
            .pool(pool)
            .value("redis.session.locking_enabled", on)
            .value("redis.session.lock_wait_time", &wait)
            .cost("workers that sleep while another request of the same visitor runs")
            .fix(Fix::words("In the application, close the session as soon as it is read: session_write_close(), or session_start(['read_and_close' => true])."))
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let ini = "session.save_handler=redis\nredis.session.locking_enabled=1";
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with("", ini),
                Severity::Note,
                "a.ini:10",
            )],
        );
    }
}
