//! What each worker of PHP-FPM does now.

use super::moment::{PoolMoment, RUNNING};
use crate::find::queues::{address, tier};
use crate::snapshot::{ListenEndpoint, Service, ServiceKind, ServiceProcess, Snapshot};
use kneepoint_linux::process::{children, title_of};
use kneepoint_model::Address;
use kneepoint_telemetry::Waits;
use std::collections::{BTreeMap, HashMap};

/// Labels whose names are remembered; when full, all are looked up again.
const REMEMBERED: usize = 1000;

/// The workers of every PHP-FPM.
#[derive(Debug)]
pub(super) struct Workers(Vec<Master>);

/// A first process and what its workers were.
#[derive(Debug)]
struct Master {
    /// Position of its service.
    service: usize,
    pid: u32,
    waits: Waits,
    /// The pool of each worker that was seen before; `None` where it is of no pool that is watched.
    pools: HashMap<u32, Option<usize>>,
    /// Whom it asks: endpoints with the name of who listens there.
    peers: Vec<(ListenEndpoint, &'static str)>,
    /// Labels as they are told, by those of telemetry.
    names: HashMap<String, String>,
}

impl Workers {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let masters = snapshot.of(ServiceKind::Fpm).map(|(at, service)| {
            let listens = service.listens.iter();
            let listen: Vec<Address> = listens.filter_map(|one| address(&one.endpoint)).collect();
            Master {
                service: at,
                pid: service.pid,
                waits: Waits::of(&tier(service, &listen)),
                pools: HashMap::new(),
                peers: peers(snapshot, at),
                names: HashMap::new(),
            }
        });
        Self(masters.collect())
    }

    /// Looks at all of them; the snapshot's pools are told what was seen.
    pub(super) fn look(&mut self, snapshot: &mut Snapshot) -> Vec<PoolMoment> {
        let mut pools = Vec::new();
        for master in &mut self.0 {
            if let Some(service) = snapshot.services.get_mut(master.service) {
                pools.extend(master.look(service));
            }
        }
        pools
    }
}

impl Master {
    fn look(&mut self, service: &mut Service) -> Vec<PoolMoment> {
        // A master that has ended has no workers; the next full look leaves it out.
        let pids = children(self.pid).unwrap_or_default();
        let mut states: Vec<Vec<(u32, String)>> = vec![Vec::new(); service.pools.len()];
        for pid in &pids {
            if let Some(pool) = self.pool_of(*pid, service) {
                let label = self.waits.look(*pid);
                let label = label.map_or_else(|| RUNNING.to_owned(), |label| self.named(label));
                states[pool].push((*pid, label));
            }
        }
        if self.pools.len() > 2 * pids.len() {
            self.pools.retain(|pid, _| pids.contains(pid));
        }
        self.waits.retain(&pids);
        let name = service.name();
        let (pid, pools) = (self.pid, service.pools.iter_mut());
        let pools = pools.zip(states).map(|(pool, states)| {
            keep(&mut pool.workers, &states);
            let (busy, idle, waits) = counted(&states);
            PoolMoment {
                service: name.clone(),
                pid,
                pool: pool.name.clone(),
                limit: pool.max_children(),
                busy,
                idle,
                queue: None,
                waits,
            }
        });
        pools.collect()
    }

    /// The pool of a worker, by its title. One that has just been started still has its master's.
    fn pool_of(&mut self, pid: u32, service: &Service) -> Option<usize> {
        if let Some(known) = self.pools.get(&pid) {
            return *known;
        }
        let title = title_of(pid)?;
        let name = title.trim().strip_prefix("php-fpm: pool ")?;
        let pool = service.pools.iter().position(|pool| pool.name == name);
        self.pools.insert(pid, pool);
        pool
    }

    /// A label with its peer's name instead of the address.
    fn named(&mut self, label: String) -> String {
        if let Some(name) = self.names.get(&label) {
            return name.clone();
        }
        let name = named(&label, &self.peers);
        if self.names.len() >= REMEMBERED {
            self.names.clear();
        }
        self.names.insert(label, name.clone());
        name
    }
}

/// Whom a service asks, as it says and as they listen.
fn peers(snapshot: &Snapshot, from: usize) -> Vec<(ListenEndpoint, &'static str)> {
    let links = snapshot.links.iter().filter(|link| link.from == from);
    let known = links.filter_map(|link| Some((link, snapshot.services.get(link.to)?)));
    known
        .flat_map(|(link, to)| {
            let listens = to.listens.iter().map(|one| one.endpoint.clone());
            let all = std::iter::once(link.by.clone()).chain(listens);
            all.map(|endpoint| (endpoint, to.kind.name()))
        })
        .collect()
}

/// `recv 10.0.0.4:6379` as `recv redis`, where PHP is known to ask a Redis at that port.
fn named(label: &str, peers: &[(ListenEndpoint, &'static str)]) -> String {
    let Some((verb, peer)) = label.split_once(' ') else {
        return label.to_owned();
    };
    let Some(peer) = ListenEndpoint::parse(peer, 0) else {
        return label.to_owned();
    };
    let is = |known: &ListenEndpoint| match (known, &peer) {
        // Names and wildcards: the port tells.
        (ListenEndpoint::Tcp(_, a), ListenEndpoint::Tcp(_, b)) => a == b,
        // PostgreSQL is asked by the directory of its socket.
        (ListenEndpoint::Unix(a), ListenEndpoint::Unix(b)) => {
            a == b || b.starts_with(&format!("{a}/"))
        }
        _ => false,
    };
    match peers.iter().find(|(known, _)| is(known)) {
        Some((_, name)) => format!("{verb} {name}"),
        None => label.to_owned(),
    }
}

/// Busy and idle workers, and what the busy ones do.
fn counted(states: &[(u32, String)]) -> (u64, u64, Vec<(String, u64)>) {
    let mut waits: BTreeMap<&str, u64> = BTreeMap::new();
    let mut idle = 0;
    for (_, label) in states {
        match Waits::is_idle(label) {
            true => idle += 1,
            false => *waits.entry(label).or_default() += 1,
        }
    }
    let mut waits: Vec<(String, u64)> = waits
        .into_iter()
        .map(|(label, count)| (label.to_owned(), count))
        .collect();
    waits.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    (states.len() as u64 - idle, idle, waits)
}

/// Tells the snapshot who is there and busy; what is known of a worker's memory stays.
fn keep(workers: &mut Vec<ServiceProcess>, states: &[(u32, String)]) {
    let known: HashMap<u32, ServiceProcess> = workers
        .drain(..)
        .map(|worker| (worker.pid, worker))
        .collect();
    workers.extend(states.iter().map(|(pid, label)| {
        let old = known.get(pid);
        ServiceProcess {
            pid: *pid,
            title: old.map_or_else(String::new, |old| old.title.clone()),
            pss: old.and_then(|old| old.pss),
            private: old.and_then(|old| old.private),
            busy: Some(!Waits::is_idle(label)),
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_named_by_who_listens() {
        let peers = [
            (ListenEndpoint::Tcp("*".into(), 6379), "redis"),
            (
                ListenEndpoint::Unix("/run/mysqld/mysqld.sock".into()),
                "mysql",
            ),
            (ListenEndpoint::Unix("/run/postgresql".into()), "postgresql"),
        ];
        let check = |label: &str, expected: &str| assert_eq!(named(label, &peers), expected);
        check("recv 10.0.0.4:6379", "recv redis");
        check("connect 10.0.0.4:6380", "connect 10.0.0.4:6380");
        check("recv unix:/run/mysqld/mysqld.sock", "recv mysql");
        check("send unix:/run/postgresql/.s.PGSQL.5432", "send postgresql");
        check("flock", "flock");
        check("recv file", "recv file");
    }

    #[test]
    fn idle_workers_wait_for_a_request() {
        let states: Vec<(u32, String)> =
            ["accept", "recv web", "running", "recv redis", "recv redis"]
                .iter()
                .zip(10..)
                .map(|(label, pid)| (pid, (*label).to_owned()))
                .collect();
        let (busy, idle, waits) = counted(&states);
        assert_eq!((busy, idle), (3, 2));
        assert_eq!(
            waits,
            [("recv redis".to_owned(), 2), ("running".to_owned(), 1)]
        );
        let mut workers = vec![ServiceProcess {
            pid: 10,
            pss: Some(5.0),
            ..ServiceProcess::default()
        }];
        keep(&mut workers, &states);
        assert_eq!(
            (workers.len(), workers[0].pss, workers[0].busy),
            (5, Some(5.0), Some(false))
        );
        assert_eq!(workers[2].busy, Some(true));
    }
}
