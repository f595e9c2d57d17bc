//! FPM-23: monitoring that waits in the queue it is to watch.

use crate::rule::prelude::*;
use crate::snapshot::ListenEndpoint;
use std::collections::{HashMap, HashSet};

pub(crate) static RULE: CheckRule = CheckRule {
    code: "FPM-23",
    name: "status-in-the-pool",
    title: "The status page waits in the queue that it is to watch",
    what_it_is: "pm.status_path is answered by a worker of the pool itself: when all are busy, monitoring times out (1.55 s in \
        the lab) in the very moment it is there for. Since PHP 8.0 pm.status_listen gives it a socket of its own.",
    how_it_shows: "Monitoring has gaps exactly when the site is slow.",
    unless: "Nobody monitors the page.",
    what_to_write: "pm.status_listen = a socket or a port of its own for each pool, such as /run/php/www-status.sock, and ask there.",
    check,
};

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut taken = taken(snapshot);
    for (at, service, pool) in snapshot.pools() {
        let Some(value) = pool.settings.get("pm.status_path") else {
            continue;
        };
        if pool.settings.get("pm.status_listen").is_some()
            || service.is_older_than(&[8, 0]) == Some(true)
        {
            continue;
        }
        let Some(own) = own_place(pool, taken.entry(service.place.net).or_default()) else {
            continue;
        };
        RULE.at(snapshot, at, Severity::Note)
            .pool(pool)
            .value("pm.status_path", value)
            .seen("pm.status_listen is not set", "")
            .cost("monitoring is blind at saturation")
            .fix(Fix::pool(service, pool, &[("pm.status_listen", own)]))
            .tell(found);
    }
}

/// Where the status page may listen by itself: a socket beside that of the pool, or the next port at which nobody listens and
/// no pool is to listen. PHP-FPM does not start when two pools have one place.
fn own_place(pool: &FpmPool, taken: &mut HashSet<u16>) -> Option<String> {
    match pool.listen.as_ref()? {
        ListenEndpoint::Unix(path) => {
            let stem = path.strip_suffix(".sock").unwrap_or(path);
            Some(format!("{stem}-status.sock"))
        }
        ListenEndpoint::Tcp(_, port) => {
            let own = (port.checked_add(1)?..=u16::MAX).find(|port| !taken.contains(port))?;
            taken.insert(own);
            let listen = pool.settings.text("listen")?.trim();
            let host = listen.strip_suffix(&port.to_string())?;
            Some(format!("{host}{own}"))
        }
    }
}

/// The ports at which somebody listens or a pool is to listen, by network namespace.
fn taken(snapshot: &Snapshot) -> HashMap<u64, HashSet<u16>> {
    let mut taken: HashMap<u64, HashSet<u16>> = HashMap::new();
    for (_, service) in snapshot.of(ServiceKind::Fpm) {
        let ports_of_all = service.pools.iter().flat_map(ports);
        let ports_of_all = ports_of_all.chain(service.ports_taken.iter().copied());
        taken
            .entry(service.place.net)
            .or_default()
            .extend(ports_of_all);
    }
    taken
}

/// The ports at which a pool is to listen.
fn ports(pool: &FpmPool) -> impl Iterator<Item = u16> {
    let status = pool.settings.text("pm.status_listen");
    let status = status.and_then(|text| ListenEndpoint::parse(text, 9000));
    let all = [pool.listen.clone(), status].into_iter().flatten();
    all.filter_map(|one| match one {
        ListenEndpoint::Tcp(_, port) => Some(port),
        ListenEndpoint::Unix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sick_and_healthy() {
        let pool =
            "[b]\nlisten = /run/b.sock\npm = static\npm.max_children = 20\npm.status_path = /s";
        verify(
            &RULE,
            &[(
                Case::healthy().pool_with(pool, ""),
                Severity::Note,
                "php-fpm.conf:20",
            )],
        );
    }

    #[test]
    fn each_pool_has_a_place_of_its_own() {
        let pool = |name: &str, listen: &str| {
            format!("[{name}]\nlisten = {listen}\npm.status_path = /s\n")
        };
        let pools = [
            pool("a", "/run/php/a.sock"),
            pool("b", "127.0.0.1:9000"),
            pool("c", "9003"),
            pool("d", "[::1]:9006"),
        ];
        let case = Case::healthy()
            .pool_with(&pools.concat(), "")
            .with(|all| all.services[1].ports_taken = [9002, 9003, 9007].into());
        let told = super::super::tests_of(&RULE, &case);
        let own = told.iter().map(|one| one.fix.in_one_line());
        let own: Vec<String> = own
            .filter_map(|text| Some(text.split_once("pm.status_listen = ")?.1.to_owned()))
            .collect();
        // 9001 is that of the healthy pool's status page, 9002 somebody else's, 9003 a pool's.
        assert_eq!(
            own,
            [
                "/run/php/a-status.sock",
                "127.0.0.1:9004",
                "9005",
                "[::1]:9008"
            ]
        );
    }
}
