//! RDS-03: a question to Redis before the first real one.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-03",
    name: "redis-asked-whether-alive",
    title: "Each request asks Redis first whether it is there",
    what_it_is: "phpredis sends an ECHO over a persistent connection before it is used again, to see whether it is still \
        open (redis.pconnect.echo_check_liveness, on as it comes). That is one more round trip for each request, about as \
        long as its first real command takes.",
    how_it_shows: "`INFO commandstats` shows about as many echo as requests.",
    unless: "Redis is on the same host, where a round trip is some 0.05 ms.",
    what_to_write: "redis.pconnect.echo_check_liveness = 0, where the application tries again after a lost \
        connection.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service, pool) in snapshot.pools() {
        let handler = pool.php.or("session.save_handler", "files");
        let path = pool
            .php
            .get("session.save_path")
            .filter(|_| handler.text == "redis");
        let kept = path.filter(|value| value.text.contains("persistent=1"));
        let asks = pool.php.or("redis.pconnect.echo_check_liveness", "1");
        let remote = snapshot.links.iter().any(|link| {
            let to = snapshot.services.get(link.to);
            link.from == at
                && link.by.is_tcp()
                && to.is_some_and(|to| to.kind == ServiceKind::Redis)
        });
        if kept.is_none() || asks.is_on() == Some(false) || !remote {
            continue;
        }
        RULE.at(snapshot, at, Severity::Note)
            .pool(pool)
            .value("redis.pconnect.echo_check_liveness", &asks)
            .seen("sessions are kept in Redis over persistent connections", "session.save_path")
            .cost("one round trip to Redis more for each request that opens a session (0.2 to 1 ms between hosts)")
            .fix(Fix::php(service, pool, &[("redis.pconnect.echo_check_liveness", "0".into())]))
            .weight(0.03)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let kept = Case::healthy()
            .pool_with(
                "",
                "session.save_handler=redis\nsession.save_path=\"tcp://r:6379?persistent=1\"",
            )
            .with(|all| all.links[1].by = crate::snapshot::ListenEndpoint::Tcp("r".into(), 6379));
        verify(&RULE, &[(kept, Severity::Note, "round trip")]);
    }
}
