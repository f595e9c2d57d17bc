//! MYS-12: skip-name-resolve is off.

use crate::rule::prelude::*;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "MYS-12",
    name: "mysql-resolves-names",
    title: "MariaDB asks the DNS for the name of each client",
    what_it_is: "For each connection from another host the database looks up the client's name, to compare it with \
        the hosts in its grants. Names are kept in a cache; when the name server is slow or silent, new connections \
        wait for seconds, and none is let in that is not known yet.",
    how_it_shows: "Threads in the state `login` or `unauthenticated user` in SHOW PROCESSLIST; connecting takes \
        seconds now and then.",
    unless: "Clients come over the Unix socket, or connections are kept for long.",
    what_to_write: "skip_name_resolve = 1, with grants for addresses instead of names.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    for (at, service) in snapshot.of(ServiceKind::Mysql) {
        let skips = service.settings.or("skip_name_resolve", "0");
        let far = snapshot.links.iter().find(|link| {
            let apart = snapshot
                .services
                .get(link.from)
                .is_some_and(|from| from.place.net != service.place.net);
            link.to == at && link.by.is_tcp() && apart
        });
        let Some(link) = far.filter(|_| skips.is_on() == Some(false)) else {
            continue;
        };
        if service.settings.is_empty() {
            continue;
        }
        RULE.at(snapshot, at, Severity::Note)
            .value("skip_name_resolve", &skips)
            .seen(format!("it is asked over TCP, at {}", link.by), link.how.clone())
            .cost(format!(
                "new connections of {} workers wait while the name server is slow or gone (5 s a try, by resolv.conf's default)",
                snapshot.workers_behind(at).unwrap_or(1)
            ))
            .fix(Fix::line(service, &skips, "skip_name_resolve = 1").after(
                "First see in mysql.user that every account that PHP uses has an address or % as its host: names match nobody \
                 then, and 127.0.0.1 is not localhost any more.",
            ))
            .weight(0.03)
            .tell(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let far = Case::healthy().with(|all| {
            all.services[3].place.net = 9;
            all.links[2].by = crate::snapshot::ListenEndpoint::Tcp("db".into(), 3306);
        });
        verify(
            &RULE,
            &[
                (far.clone(), Severity::Note, "db:3306"),
                (far.clone(), Severity::Note, "names match nobody"),
            ],
        );
        let skips = far.set(3, "skip_name_resolve", "1");
        assert!(super::super::tests_of(&RULE, &skips).is_empty());
    }
}
