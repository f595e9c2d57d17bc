//! RDS-01: connections to Redis are closed faster than workers could keep them.

use crate::rule::prelude::*;
use crate::snapshot::ListenEndpoint;

pub(crate) static RULE: CheckRule = CheckRule {
    code: "RDS-01",
    name: "redis-connections-per-request",
    title: "PHP closes its connections to Redis instead of keeping them",
    what_it_is: "A client of Redis opens a connection for each request unless it is told to keep it (phpredis pconnect, \
        Predis and Laravel `persistent`). Each costs a handshake, a wake-up of Redis and a local port for a minute. A worker \
        that keeps its connections needs one or two, and has them open also while it is idle. So PHP keeps none where it has \
        none open, or closes more in a minute than its workers could keep.",
    how_it_shows: "Connections in TIME_WAIT to Redis in the network namespace of PHP, while PHP has none open; or more of them than \
        PHP has workers.",
    unless: "Workers are replaced all the time (pm.max_requests of a few, ondemand), or something else in the same network \
        namespace, such as a queue worker or a cron job, opened them.",
    what_to_write: "Laravel: 'persistent' => true, with a persistent_id for each connection, in config/database.php. \
        phpredis: pconnect() instead of connect(). Predis: 'persistent' => true. WordPress (Redis Object Cache): \
        define('WP_REDIS_CLIENT', 'phpredis'), which keeps them.",
    check,
};

/// Seconds that a closed connection stays in TIME_WAIT (TCP_TIMEWAIT_LEN of Linux).
const TIME_WAIT_S: f64 = 60.0;
/// Fewer are nothing: a look at Redis by hand, a deployment, a monitor that comes every ten seconds.
const LEAST: u64 = 10;
/// Connections that each worker may have closed and opened anew in that minute: as many as it can keep, session and cache.
const KEPT_BY_A_WORKER: u64 = 2;
/// Connections a second from which on this is a problem of now: half of Linux's own range of ports in a minute is 235.
const MANY_HZ: f64 = 100.0;

fn check(snapshot: &Snapshot, found: &mut Vec<CheckFinding>) {
    let mut told: Vec<u64> = Vec::new();
    for link in &snapshot.links {
        let (Some(php), Some(redis)) = (
            snapshot.services.get(link.from),
            snapshot.services.get(link.to),
        ) else {
            continue;
        };
        let net = php.place.net;
        if redis.kind != ServiceKind::Redis || !link.by.is_tcp() || told.contains(&net) {
            continue;
        }
        let Some(workers) = workers_in(snapshot, net) else {
            continue;
        };
        let closed = closed_towards(php, redis);
        let open = has_open(php, redis);
        if closed < LEAST || open && closed <= workers * KEPT_BY_A_WORKER {
            continue;
        }
        told.push(net);
        let rate_hz = closed as f64 / TIME_WAIT_S;
        let severity = if rate_hz >= MANY_HZ {
            Severity::Problem
        } else {
            Severity::Risk
        };
        RULE.at(snapshot, link.from, severity)
            .seen(
                format!("{closed} connections in TIME_WAIT to Redis, where PHP has at most {workers} workers and {} open", if open { "some connections" } else { "no connection" }),
                format!("/proc/{}/net/tcp", php.pid),
            )
            .seen(format!("PHP asks {}", redis.name()), link.how.clone())
            .cost(format!("{rate_hz:.1} connections a second over the last minute, each a handshake and a local port; at some hundred a second to one Redis, ports run short"))
            .fix(Fix::words("Tell the application's client of Redis to keep its connections (Laravel: 'persistent' => true in config/database.php; phpredis: pconnect; Predis: 'persistent' => true); or use Redis' Unix socket where it is on the same host."))
            .weight(0.35)
            .tell(found);
    }
}

/// Most workers of all PHP in a network namespace. `None` where there is none.
fn workers_in(snapshot: &Snapshot, net: u64) -> Option<u64> {
    let there = snapshot.services.iter().filter(|one| one.place.net == net);
    let counts: Vec<u64> = there.filter_map(Service::php_workers).collect();
    (!counts.is_empty()).then(|| counts.iter().sum())
}

/// Connections in TIME_WAIT of a service's namespace to a port at which a Redis listens.
fn closed_towards(php: &Service, redis: &Service) -> u64 {
    let ports: Vec<String> = ports(redis).map(|port| format!(":{port}")).collect();
    let to_redis = |peer: &str| ports.iter().any(|port| peer.ends_with(port));
    let counts = php.time_wait.iter();
    counts
        .filter(|(peer, _)| to_redis(peer))
        .map(|(_, count)| count)
        .sum()
}

/// Whether a process of a service holds an open connection to a Redis.
fn has_open(php: &Service, redis: &Service) -> bool {
    let mut open = php
        .asks
        .iter()
        .filter(|(_, how)| how == crate::sockets::CONNECTED);
    open.any(|(peer, _)| {
        matches!(peer, ListenEndpoint::Tcp(_, port) if ports(redis).any(|own| own == *port))
    })
}

fn ports(redis: &Service) -> impl Iterator<Item = u16> {
    let listens = redis.listens.iter();
    listens.filter_map(|one| match &one.endpoint {
        ListenEndpoint::Tcp(_, port) => Some(*port),
        ListenEndpoint::Unix(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Listener;

    /// The healthy stack with this many connections closed towards a Redis of another host.
    fn closed(count: u64, tcp: bool, open: bool) -> Case {
        Case::healthy().with(|all| {
            all.services[2].listens = vec![Listener {
                endpoint: ListenEndpoint::Tcp("*".into(), 6379),
                queue: None,
            }];
            if tcp {
                all.links[1].by = ListenEndpoint::Tcp("redis".into(), 6379);
            }
            let peer = ListenEndpoint::Tcp("10.0.0.4".into(), 6379);
            let kept = (peer, crate::sockets::CONNECTED.to_owned());
            all.services[1].asks.extend(open.then_some(kept));
            let peers = [("10.0.0.4:6379", count), ("10.0.0.5:3306", 9000)];
            all.services[1].time_wait = peers.map(|(peer, count)| (peer.to_owned(), count)).into();
        })
    }

    #[test]
    fn sick_and_healthy() {
        // 20 workers keep 40 connections at most.
        let sick = [
            (
                closed(41, true, true),
                Severity::Risk,
                "some connections open",
            ),
            (
                closed(16, true, false),
                Severity::Risk,
                "no connection open",
            ),
            (
                closed(9000, true, false),
                Severity::Problem,
                "150.0 connections a second",
            ),
        ];
        verify(&RULE, &sick);
        for healthy in [
            closed(40, true, true),
            closed(9, true, false),
            closed(9000, false, false),
        ] {
            assert!(super::super::tests_of(&RULE, &healthy).is_empty());
        }
    }
}
