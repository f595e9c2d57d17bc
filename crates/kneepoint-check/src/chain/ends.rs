//! Who listens at an endpoint, and which pool: looked up, not searched. A host of shared sites has thousands of pools, and
//! as many lines that ask them.

use super::{Seen, resolve};
use crate::snapshot::{ListenEndpoint, Service};
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

/// A file, whatever it is called: device and inode.
type Identity = (u64, u64);

/// Everything that listens.
pub(super) struct Ends<'a> {
    all: &'a [Seen],
    /// By the port: who, and the address it listens at.
    ports: HashMap<u16, Vec<(usize, &'a str)>>,
    /// By the file of the socket.
    sockets: HashMap<Identity, BTreeSet<usize>>,
    /// By the path, and whether its file could be told.
    paths: HashMap<&'a str, Vec<(usize, bool)>>,
}

impl<'a> Ends<'a> {
    pub(super) fn of(all: &'a [Seen]) -> Self {
        let mut ends = Self {
            all,
            ports: HashMap::new(),
            sockets: HashMap::new(),
            paths: HashMap::new(),
        };
        for (to, seen) in all.iter().enumerate() {
            for listener in &seen.service.listens {
                match &listener.endpoint {
                    ListenEndpoint::Tcp(at, port) => {
                        ends.ports.entry(*port).or_default().push((to, at));
                    }
                    ListenEndpoint::Unix(path) => {
                        let file = identity(seen, path);
                        let known = ends.paths.entry(path.as_str()).or_default();
                        known.push((to, file.is_some()));
                        if let Some(file) = file {
                            ends.sockets.entry(file).or_default().insert(to);
                        }
                    }
                }
            }
        }
        ends
    }

    /// Who is reached by an endpoint that a service asks.
    pub(super) fn reached(&self, from: usize, endpoint: &ListenEndpoint) -> BTreeSet<usize> {
        let mut found = match endpoint {
            ListenEndpoint::Unix(path) => self.at_socket(from, path),
            ListenEndpoint::Tcp(host, port) => self.at_port(from, host, *port),
        };
        found.remove(&from);
        found
    }

    /// Those whose socket is the very file; where a file cannot be told, those of the same path and root directory.
    fn at_socket(&self, from: usize, path: &str) -> BTreeSet<usize> {
        let file = identity(&self.all[from], path);
        let mut found = file
            .and_then(|file| self.sockets.get(&file).cloned())
            .unwrap_or_default();
        let other_root = |at: usize| self.all[at].service.place.other_root;
        let named = self.paths.get(path).into_iter().flatten();
        let unsure = named.filter(|(to, is_known)| {
            !(file.is_some() && *is_known) && other_root(*to) == other_root(from)
        });
        found.extend(unsure.map(|(to, _)| *to));
        found
    }

    fn at_port(&self, from: usize, host: &str, port: u16) -> BTreeSet<usize> {
        let asker = &self.all[from];
        let addresses = resolve(asker, host);
        let listens = self.ports.get(&port).into_iter().flatten();
        let takes = listens.filter(|(to, at)| {
            let asked = &self.all[*to];
            addresses.iter().any(|ip| accepts(asker, *ip, asked, at)) || asked.is_called(host)
        });
        takes.map(|(to, _)| *to).collect()
    }

    /// The only service of another network namespace that listens on a port, for a name that nobody here can resolve and
    /// that may be one of a container.
    pub(super) fn by_port(&self, from: usize, endpoint: &ListenEndpoint) -> Option<usize> {
        let ListenEndpoint::Tcp(host, port) = endpoint else {
            return None;
        };
        let asker = &self.all[from];
        if !resolve(asker, host).is_empty() || !may_be_of_container(asker, host) {
            return None;
        }
        let net = |at: usize| self.all[at].service.place.net;
        let listens = self.ports.get(port).into_iter().flatten();
        let others = listens.filter(|(to, _)| net(*to) != net(from));
        let others: BTreeSet<usize> = others.map(|(to, _)| *to).collect();
        others.first().copied().filter(|_| others.len() == 1)
    }
}

/// Whether a name may be one that those who keep containers give. One of a domain is that of another host, but for the
/// services of Kubernetes, which pods ask by long names too (`redis.shop.svc.cluster.local`).
fn may_be_of_container(asker: &Seen, host: &str) -> bool {
    match host.rsplit_once('.') {
        None => true,
        Some((_, "svc" | "local")) => asker.service.place.container.is_some(),
        Some(_) => false,
    }
}

fn identity(seen: &Seen, path: &str) -> Option<Identity> {
    seen.sockets.get(path).copied().flatten()
}

/// Whether a connection to an address is taken by a listener of another service.
fn accepts(asker: &Seen, ip: IpAddr, asked: &Seen, at: &str) -> bool {
    let same_net = asker.service.place.net == asked.service.place.net;
    let is_there = match ip.is_loopback() {
        true => same_net,
        false => asked.net.addresses.contains(&ip),
    };
    is_there && (at == "*" || at.parse::<IpAddr>().ok() == Some(ip))
}

/// The pools of a service by where they listen; `None` where several listen so.
pub(super) struct Pools<'a> {
    ports: HashMap<u16, Option<&'a str>>,
    paths: HashMap<&'a str, Option<&'a str>>,
    /// By the last part of the path.
    names: HashMap<&'a str, Option<&'a str>>,
}

impl<'a> Pools<'a> {
    pub(super) fn of(service: &'a Service) -> Self {
        let mut found = Self {
            ports: HashMap::new(),
            paths: HashMap::new(),
            names: HashMap::new(),
        };
        for pool in &service.pools {
            match &pool.listen {
                Some(ListenEndpoint::Tcp(_, port)) => once(&mut found.ports, *port, &pool.name),
                Some(ListenEndpoint::Unix(path)) => {
                    once(&mut found.paths, path.as_str(), &pool.name);
                    once(&mut found.names, last_part(path), &pool.name);
                }
                None => {}
            }
        }
        found
    }

    /// The pool that listens at an endpoint. Another container may see the directory of a socket elsewhere: where no path
    /// is the same, its name tells. Several pools have sockets of one name, each in a directory of its own: then the name
    /// tells nothing.
    pub(super) fn at(&self, endpoint: &ListenEndpoint) -> Option<&'a str> {
        match endpoint {
            ListenEndpoint::Tcp(_, port) => self.ports.get(port).copied().flatten(),
            ListenEndpoint::Unix(path) => {
                let same = self.paths.get(path.as_str()).copied().flatten();
                same.or_else(|| self.names.get(last_part(path)).copied().flatten())
            }
        }
    }
}

fn once<'a, K: std::hash::Hash + Eq>(
    known: &mut HashMap<K, Option<&'a str>>,
    key: K,
    name: &'a str,
) {
    let first = known.entry(key);
    first.and_modify(|one| *one = None).or_insert(Some(name));
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
