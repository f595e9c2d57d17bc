//! Who asks whom: endpoints of those who ask, joined with those who listen.

mod ends;
mod sockets;

use crate::files::Root;
use crate::snapshot::{Link, ListenEndpoint, Service, ServiceKind, Snapshot};
use crate::sockets::{CONNECTED, Net};
use ends::{Ends, Pools};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

pub(crate) use sockets::look_up;

/// A service with what is needed to join it to others.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) service: Service,
    /// The files as it sees them.
    pub(crate) root: Option<Root>,
    /// The sockets of its network namespace.
    pub(crate) net: Net,
    /// Names that its own file of hosts knows.
    pub(crate) hosts: Vec<(String, IpAddr)>,
    /// Which files sockets are that it listens at or asks, by their paths: device and inode.
    pub(crate) sockets: HashMap<String, Option<(u64, u64)>>,
    /// Directories that it serves.
    pub(crate) roots: Vec<String>,
    /// Directories whose PHP it hands on, and to whom: those of an Apache.
    pub(crate) hands: Vec<(String, ListenEndpoint)>,
    /// Its pools that ask as a line says which is among `service.asks`, by that line; where it is not known which, it is
    /// not here.
    pub(crate) askers: BTreeMap<String, Vec<String>>,
}

/// Every pair of services of which one asks the other, of those who ask whose kind a test holds for.
pub(crate) fn join(all: &[Seen], asks: impl Fn(ServiceKind) -> bool) -> Vec<Link> {
    let ends = Ends::of(all);
    let pools: Vec<Pools<'_>> = all.iter().map(|seen| Pools::of(&seen.service)).collect();
    let mut links = Links::default();
    let askers = all.iter().enumerate();
    for (from, asker) in askers.filter(|(_, seen)| asks(seen.service.kind)) {
        for (endpoint, how) in &asker.service.asks {
            let sure = ends.reached(from, endpoint).into_iter();
            let mut found: Vec<(usize, String)> = sure.map(|to| (to, how.clone())).collect();
            if found.is_empty() {
                let likely = ends.by_port(from, endpoint);
                found.extend(likely.map(|to| (to, format!("{how}, by its port"))));
            }
            let from_pools = asker.askers.get(how).cloned().unwrap_or_default();
            for (to, how) in found {
                links.add(Link {
                    from,
                    to,
                    pool: pools[to].at(endpoint).map(str::to_owned),
                    from_pools: from_pools.clone(),
                    by: endpoint.clone(),
                    how,
                });
            }
        }
    }
    links.all
}

/// Links, of which each pair of a service and a pool that it asks has one.
#[derive(Default)]
struct Links {
    all: Vec<Link>,
    known: HashMap<(usize, usize, Option<String>), usize>,
    /// The pools that are known to ask by a link, by its position.
    askers: HashMap<usize, HashSet<String>>,
}

impl Links {
    fn add(&mut self, link: Link) {
        let key = (link.from, link.to, link.pool.clone());
        let Some(&at) = self.known.get(&key) else {
            let at = self.all.len();
            self.known.insert(key, at);
            self.askers
                .entry(at)
                .or_default()
                .extend(link.from_pools.iter().cloned());
            self.all.push(link);
            return;
        };
        let own = &mut self.all[at];
        let askers = self.askers.entry(at).or_default();
        // A line of configuration says more than a connection.
        if own.how == CONNECTED {
            askers.extend(link.from_pools.iter().cloned());
            (own.how, own.from_pools) = (link.how, link.from_pools);
        } else if link.how == CONNECTED {
        } else if own.from_pools.is_empty() || link.from_pools.is_empty() {
            // Where it is not known which, it may be any.
            own.from_pools.clear();
        } else {
            let more = link.from_pools.into_iter();
            own.from_pools
                .extend(more.filter(|pool| askers.insert(pool.clone())));
        }
    }
}

/// The addresses of a name, as far as files tell.
fn resolve(asker: &Seen, host: &str) -> Vec<IpAddr> {
    if let Ok(ip) = host.parse() {
        return vec![ip];
    }
    let known = asker.hosts.iter().filter(|(name, _)| name == host);
    let mut found: Vec<IpAddr> = known.map(|(_, ip)| *ip).collect();
    if host == "localhost" || host == "*" {
        found.push(IpAddr::from([127, 0, 0, 1]));
    }
    found
}

impl Seen {
    /// A service of which no more is known yet.
    pub(crate) fn new(service: Service) -> Self {
        Self {
            service,
            root: None,
            net: Net::default(),
            hosts: Vec::new(),
            sockets: HashMap::new(),
            roots: Vec::new(),
            hands: Vec::new(),
            askers: BTreeMap::new(),
        }
    }

    /// Whether a name is that of its container or compose service.
    fn is_called(&self, host: &str) -> bool {
        let container = self.service.place.container.as_ref();
        container.is_some_and(|container| {
            [&container.name, &container.compose_service]
                .into_iter()
                .flatten()
                .any(|name| name == host)
        })
    }
}

/// Gives each service the connections in TIME_WAIT that it itself can have made: to whom it asks.
pub(crate) fn keep_time_wait(all: &mut [Seen]) {
    for seen in all {
        let mut kept: BTreeMap<String, u64> = BTreeMap::new();
        let ports: HashSet<u16> = seen
            .service
            .asks
            .iter()
            .filter_map(|(endpoint, _)| match endpoint {
                ListenEndpoint::Tcp(_, port) => Some(*port),
                ListenEndpoint::Unix(_) => None,
            })
            .collect();
        for (peer, count) in &seen.net.time_wait {
            if matches!(peer, ListenEndpoint::Tcp(_, port) if ports.contains(port)) {
                kept.insert(peer.to_string(), *count);
            }
        }
        seen.service.time_wait = kept;
    }
}

/// Leaves services out; links and applications follow.
pub(crate) fn retain(snapshot: &mut Snapshot, keep: &[bool]) {
    let mut next = 0;
    let moved: Vec<Option<usize>> = keep
        .iter()
        .map(|kept| {
            kept.then(|| {
                next += 1;
                next - 1
            })
        })
        .collect();
    let new = |at: usize| moved.get(at).copied().flatten();
    let mut at = 0;
    snapshot.services.retain(|_| {
        at += 1;
        keep.get(at - 1).copied().unwrap_or(true)
    });
    snapshot
        .links
        .retain_mut(|link| match (new(link.from), new(link.to)) {
            (Some(from), Some(to)) => {
                (link.from, link.to) = (from, to);
                true
            }
            _ => false,
        });
    snapshot
        .apps
        .retain_mut(|app| new(app.service).map(|at| app.service = at).is_some());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Container, FpmPool, Listener, Runtime};

    fn seen(kind: ServiceKind, net: u64, listens: &[&str], asks: &[&str]) -> Seen {
        let mut service = Service::new(kind, 1);
        service.place.net = net;
        let endpoint = |text: &&str| ListenEndpoint::parse(text, 80).expect("an endpoint");
        service.listens = listens
            .iter()
            .map(|text| Listener {
                endpoint: endpoint(text),
                queue: None,
            })
            .collect();
        service.asks = asks
            .iter()
            .map(|text| (endpoint(text), "/c:1".to_owned()))
            .collect();
        Seen::new(service)
    }

    fn shown(all: &[Seen]) -> Vec<String> {
        let links = join(all, |_| true);
        links
            .iter()
            .map(|one| format!("{}>{} {}", one.from, one.to, one.how))
            .collect()
    }

    #[test]
    fn loopback_reaches_its_own_namespace_only() {
        let all = [
            seen(ServiceKind::Nginx, 1, &["*:80"], &["127.0.0.1:9000"]),
            seen(ServiceKind::Fpm, 2, &["127.0.0.1:9000"], &[]),
            seen(
                ServiceKind::Fpm,
                1,
                &["127.0.0.1:9000"],
                &["/run/redis.sock"],
            ),
            seen(ServiceKind::Redis, 1, &["/run/redis.sock"], &[]),
        ];
        assert_eq!(shown(&all), ["0>2 /c:1", "2>3 /c:1"]);
    }

    #[test]
    fn addresses_and_names_reach_other_namespaces() {
        let mut all = vec![
            seen(ServiceKind::Nginx, 1, &["*:80"], &["172.18.0.2:9000"]),
            seen(ServiceKind::Nginx, 1, &["*:81"], &["php:9001"]),
            seen(ServiceKind::Fpm, 2, &["*:9000"], &[]),
            seen(ServiceKind::Fpm, 3, &["*:9001"], &[]),
        ];
        all[2].net.addresses.insert(IpAddr::from([172, 18, 0, 2]));
        assert_eq!(shown(&all), ["0>2 /c:1", "1>3 /c:1, by its port"]);
        all.push(seen(ServiceKind::Fpm, 4, &["*:9001"], &[]));
        assert_eq!(shown(&all), ["0>2 /c:1"]);
    }

    #[test]
    fn a_name_of_a_domain_is_no_container_here() {
        let asking = |host: &str| {
            [
                seen(ServiceKind::Fpm, 1, &[], &[&format!("{host}:6379")]),
                seen(ServiceKind::Redis, 2, &["*:6379"], &[]),
            ]
        };
        let by_port = ["0>1 /c:1, by its port"];
        assert_eq!(shown(&asking("redis")), by_port);
        assert!(shown(&asking("x.cache.amazonaws.com")).is_empty());
        // A pod asks a service of its cluster so; a host does not.
        for name in ["redis.shop.svc", "redis.shop.svc.cluster.local"] {
            let mut all = asking(name);
            assert!(shown(&all).is_empty(), "{name}");
            all[0].service.place.container = Some(Container {
                id: "a".into(),
                runtime: Runtime::Containerd,
                name: None,
                compose_service: None,
                in_pod: true,
            });
            assert_eq!(shown(&all), by_port, "{name}");
        }
    }

    #[test]
    fn a_link_names_the_pools_that_ask() {
        let mut php = seen(ServiceKind::Fpm, 1, &["/run/a"], &["127.0.0.1:6379"]);
        let redis = || seen(ServiceKind::Redis, 1, &["127.0.0.1:6379"], &[]);
        let asked_by = |php: &Seen| {
            let again = Seen {
                askers: php.askers.clone(),
                ..Seen::new(php.service.clone())
            };
            join(&[again, redis()], |_| true)[0].from_pools.clone()
        };
        assert!(asked_by(&php).is_empty());
        for name in ["shop", "blog"] {
            let line = format!("/srv/{name}/.env:2");
            let to = ListenEndpoint::parse("127.0.0.1:6379", 0).expect("an endpoint");
            php.service.asks.push((to, line.clone()));
            php.askers.insert(line, vec![name.to_owned()]);
        }
        // A line of which nobody knows whose it is may be of any pool.
        assert!(asked_by(&php).is_empty());
        php.service.asks.remove(0);
        assert_eq!(asked_by(&php), ["shop", "blog"]);
        let to = php.service.asks[0].0.clone();
        php.service.asks.insert(0, (to, CONNECTED.to_owned()));
        assert_eq!(asked_by(&php), ["shop", "blog"]);
    }

    #[test]
    fn what_is_left_out_takes_its_links_along() {
        let all = [
            seen(ServiceKind::Nginx, 1, &[], &["127.0.0.1:9000", "/b"]),
            seen(ServiceKind::Fpm, 1, &["*:9000"], &[]),
            seen(ServiceKind::Fpm, 1, &["/b"], &[]),
        ];
        let links = join(&all, |_| true);
        let services = all.into_iter().map(|seen| seen.service).collect();
        let mut snapshot = Snapshot {
            services,
            links,
            ..Snapshot::default()
        };
        retain(&mut snapshot, &[true, false, true]);
        assert_eq!((snapshot.services.len(), snapshot.links.len()), (2, 1));
        assert_eq!((snapshot.links[0].from, snapshot.links[0].to), (0, 1));
    }

    #[test]
    fn a_link_names_the_pool() {
        let mut fpm = seen(ServiceKind::Fpm, 1, &["*:9001"], &[]);
        fpm.service.pools = vec![
            FpmPool {
                name: "a".into(),
                listen: ListenEndpoint::parse("9000", 0),
                ..FpmPool::default()
            },
            FpmPool {
                name: "b".into(),
                listen: ListenEndpoint::parse("9001", 0),
                ..FpmPool::default()
            },
        ];
        let all = [seen(ServiceKind::Nginx, 1, &[], &["127.0.0.1:9001"]), fpm];
        assert_eq!(join(&all, |_| true)[0].pool.as_deref(), Some("b"));
    }

    #[test]
    fn sockets_of_one_name_are_told_apart_by_their_directories() {
        let mut fpm = seen(
            ServiceKind::Fpm,
            1,
            &["/v/blog/php.sock", "/v/shop/php.sock"],
            &[],
        );
        fpm.service.pools = ["blog", "shop"]
            .map(|name| FpmPool {
                name: name.into(),
                listen: ListenEndpoint::parse(&format!("/v/{name}/php.sock"), 0),
                ..FpmPool::default()
            })
            .into();
        let of = |path: &str| {
            Pools::of(&fpm.service)
                .at(&ListenEndpoint::Unix(path.into()))
                .map(str::to_owned)
        };
        assert_eq!(of("/v/shop/php.sock").as_deref(), Some("shop"));
        assert_eq!(of("/v/blog/php.sock").as_deref(), Some("blog"));
        // Seen from another container, it may be either.
        assert_eq!(of("/sockets/php.sock"), None);
        assert_eq!(of("/sockets/other.sock"), None);
        fpm.service.pools.truncate(1);
        let of = |path: &str| {
            Pools::of(&fpm.service)
                .at(&ListenEndpoint::Unix(path.into()))
                .map(str::to_owned)
        };
        assert_eq!(of("/sockets/php.sock").as_deref(), Some("blog"));
    }
}
