//! APP-22: PHP was refused by somebody who is not seen here.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "APP-22",
    name: "php-was-refused",
    title: "A database or cache elsewhere refused connections of PHP",
    what_it_is: "The log of PHP says that a database or a cache had no slot for one more connection. It runs on \
        another host, so its own settings cannot be seen here: max_connections of MariaDB and PostgreSQL, maxclients \
        of Redis.",
    how_it_shows: "`Too many connections`, `too many clients already` or `max number of clients reached` in PHP's \
        log; error pages at the peak.",
    unless: "It was at a restart of the database.",
    what_to_write: "There: more connections than all workers of all hosts; or a pooler between (PgBouncer, \
        ProxySQL); or smaller pools here.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Fpm) {
        for (line, kinds) in [
            (
                LogKind::TooManyDbClients,
                &[ServiceKind::Mysql, ServiceKind::Postgresql][..],
            ),
            (LogKind::TooManyCacheClients, &[ServiceKind::Redis][..]),
        ] {
            let seen = snapshot.links.iter().any(|link| {
                let to = snapshot.services.get(link.to);
                link.from == at && to.is_some_and(|to| kinds.contains(&to.kind))
            });
            let hits = service.logged(line).filter(|hits| is_recent(hits) && !seen);
            let Some(hits) = hits else { continue };
            let workers: u64 = service.pools.iter().filter_map(FpmPool::max_children).sum();
            RULE.at(snapshot, at, Severity::Problem)
                .seen(often(hits), &hits.path)
                .cost(format!("{} that ended in an error; this PHP alone has {}", counted(hits.count, "request"), counted(workers, "worker")))
                .fix(Fix::words("Count the workers of all hosts that ask it, and give it more connections than that; or put a pooler between."))
                .weight(0.4)
                .tell(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let refused = crate::rule::case::logged(1, LogKind::TooManyDbClients, 60.0);
        // The database is seen: its own rule tells.
        assert!(super::super::tests_of(&RULE, &refused).is_empty());
        let elsewhere = refused.with(|all| all.links.truncate(2));
        verify(&RULE, &[(elsewhere, Severity::Problem, "has 20 workers")]);
    }
}
