//! Accept queues, by one question for all listeners of a network namespace.

use crate::find::queues::of_pools;
use crate::snapshot::{ListenEndpoint, ServiceKind, Snapshot};
use kneepoint_linux::SockDiag;
use kneepoint_linux::sock_diag::{LISTEN, TcpSocket};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The listeners of all services.
#[derive(Debug)]
pub(super) struct Queues(Vec<Network>);

/// Those of one network namespace.
#[derive(Debug)]
struct Network {
    /// `None` where it is our own, which may be asked without being root.
    path: Option<PathBuf>,
    diag: Option<SockDiag>,
    /// Position of the service, position of its listener, and where that is.
    listeners: Vec<(usize, usize, ListenEndpoint)>,
}

/// Length and limit of a queue; several sockets may share an address.
type Queue = Option<(u64, u64)>;

impl Queues {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let mut networks: BTreeMap<u64, Network> = BTreeMap::new();
        for (at, service) in snapshot.services.iter().enumerate() {
            use ServiceKind::{Apache, Fpm, Haproxy, Nginx};
            if !matches!(service.kind, Fpm | Nginx | Apache | Haproxy) {
                continue;
            }
            let network = networks
                .entry(service.place.net)
                .or_insert_with(|| Network {
                    path: service
                        .place
                        .other_net
                        .then(|| format!("/proc/{}/ns/net", service.pid).into()),
                    diag: None,
                    listeners: Vec::new(),
                });
            let listens = service.listens.iter().enumerate();
            let listeners = listens.map(|(nth, one)| (at, nth, one.endpoint.clone()));
            network.listeners.extend(listeners);
        }
        Self(networks.into_values().collect())
    }

    /// Tells the snapshot's listeners and pools how long their queues are. Where the kernel does not say, nothing is.
    pub(super) fn look(&mut self, snapshot: &mut Snapshot) {
        for network in &mut self.0 {
            let queues = network.ask().unwrap_or_else(|_| {
                network.diag = None;
                vec![None; network.listeners.len()]
            });
            for ((at, nth, _), queue) in network.listeners.iter().zip(queues) {
                if let Some(listener) = snapshot
                    .services
                    .get_mut(*at)
                    .and_then(|service| service.listens.get_mut(*nth))
                {
                    listener.queue = queue;
                }
            }
        }
        snapshot.services.iter_mut().for_each(of_pools);
    }
}

impl Network {
    fn ask(&mut self) -> std::io::Result<Vec<Queue>> {
        let diag = match &mut self.diag {
            Some(diag) => diag,
            closed => closed.insert(SockDiag::open(self.path.as_deref())?),
        };
        let listeners = &self.listeners;
        let mut queues: Vec<Queue> = vec![None; listeners.len()];
        if listeners.iter().any(|(_, _, endpoint)| endpoint.is_tcp()) {
            for v6 in [false, true] {
                diag.tcp(v6, &[LISTEN], &[], |socket| {
                    let meant = |(_, _, endpoint): &(usize, usize, ListenEndpoint)| {
                        listens_at(&socket, endpoint)
                    };
                    add(
                        &mut queues,
                        listeners.iter().position(meant),
                        (socket.queue, socket.queue_limit),
                    );
                })?;
            }
        }
        if listeners.iter().any(|(_, _, endpoint)| !endpoint.is_tcp()) {
            diag.unix_listeners(|socket| {
                let meant = |(_, _, endpoint): &(usize, usize, ListenEndpoint)| {
                    matches!(endpoint, ListenEndpoint::Unix(path) if path.as_bytes() == socket.path)
                };
                add(&mut queues, listeners.iter().position(meant), (socket.queue, socket.queue_limit));
            })?;
        }
        Ok(queues)
    }
}

fn listens_at(socket: &TcpSocket, endpoint: &ListenEndpoint) -> bool {
    let ListenEndpoint::Tcp(host, port) = endpoint else {
        return false;
    };
    let own = socket.local.ip().to_canonical();
    let same = match host.as_str() {
        "*" => own.is_unspecified(),
        host => host.parse().is_ok_and(|ip: std::net::IpAddr| ip == own),
    };
    socket.local.port() == *port && same
}

fn add(queues: &mut [Queue], at: Option<usize>, (length, limit): (u32, u32)) {
    if let Some(queue) = at.and_then(|at| queues.get_mut(at)) {
        let (known, fits) = queue.unwrap_or((0, 0));
        *queue = Some((known + u64::from(length), fits + u64::from(limit)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{FpmPool, Listener, Service};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn connections_that_nobody_took_are_counted() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("php.sock").display().to_string();
        let unix = UnixListener::bind(&path).expect("bound");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = tcp.local_addr().expect("bound").port();
        let endpoints = [
            ListenEndpoint::Unix(path.clone()),
            ListenEndpoint::Tcp("127.0.0.1".into(), port),
        ];
        let mut service = Service::new(ServiceKind::Fpm, std::process::id());
        service.listens = endpoints
            .iter()
            .map(|endpoint| Listener {
                endpoint: endpoint.clone(),
                queue: None,
            })
            .collect();
        service.pools = endpoints
            .map(|endpoint| FpmPool {
                listen: Some(endpoint),
                ..FpmPool::default()
            })
            .into();
        let mut snapshot = Snapshot {
            services: vec![service],
            ..Snapshot::default()
        };
        let mut queues = Queues::of(&snapshot);
        let mut lengths = || {
            queues.look(&mut snapshot);
            let pools = snapshot.services[0].pools.iter();
            pools
                .map(|pool| pool.queue.map(|(length, _)| length))
                .collect::<Vec<_>>()
        };
        assert_eq!(lengths(), [Some(0), Some(0)]);
        let _waiting = (
            UnixStream::connect(&path).expect("connected"),
            TcpStream::connect(("127.0.0.1", port)).expect("connected"),
            TcpStream::connect(("127.0.0.1", port)).expect("connected"),
        );
        assert_eq!(lengths(), [Some(1), Some(2)]);
        drop((unix, tcp));
        assert_eq!(lengths(), [None, None]);
    }
}
