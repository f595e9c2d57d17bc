//! The accept queues of a tier's listeners, TCP and Unix.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_linux::SockDiag;
use kneepoint_linux::sock_diag::LISTEN;
use kneepoint_model::metric::{QUEUE, QUEUE_LIMIT};
use kneepoint_model::{Address, RunningTier};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "accept-queue",
    about: "length and limit of the accept queues, of Unix sockets too (FPM's own status page says 0 for those)",
    requirements: "sock_diag (CONFIG_INET_DIAG, CONFIG_UNIX_DIAG); root to look into another network namespace",
    overhead: "one netlink question a listener, about 10 us, twenty times a second; a dump of 40 us once a second",
    cadence: Duration::from_millis(50),
    metrics: &[QUEUE, QUEUE_LIMIT],
    lane: Lane::Fast,
    open: Open::Tier(|tier| {
        (!tier.listen.is_empty()).then(|| Box::new(AcceptQueue::new(tier)) as Box<dyn Probe>)
    }),
};

/// Samples between two dumps that find the sockets anew; those between ask for the sockets found.
const REFRESH: u32 = 20;

struct AcceptQueue {
    netns: Option<PathBuf>,
    listen: Vec<Address>,
    diag: Option<SockDiag>,
    ticks: u32,
    /// The socket behind each address, when the last dump found exactly one for each.
    sockets: Option<Vec<Listener>>,
}

/// One listening socket.
#[derive(Debug, Clone, Copy)]
enum Listener {
    Tcp(SocketAddr),
    Unix(u32),
}

/// What is known of one listener in one sample; several sockets may share an address (SO_REUSEPORT).
#[derive(Debug, Clone, Copy, Default)]
struct Queue {
    length: u64,
    limit: u64,
    found: u32,
    last: Option<Listener>,
}

impl Queue {
    fn add(&mut self, (length, limit): (u32, u32), socket: Listener) {
        self.length += u64::from(length);
        self.limit += u64::from(limit);
        self.found += 1;
        self.last = Some(socket);
    }
}

impl AcceptQueue {
    fn new(tier: &RunningTier) -> Self {
        Self {
            netns: tier.netns.clone(),
            listen: tier.listen.clone(),
            diag: None,
            ticks: 0,
            sockets: None,
        }
    }

    fn queues(&mut self) -> std::io::Result<Vec<Queue>> {
        let tick = self.ticks;
        self.ticks = tick.wrapping_add(1);
        let sockets = self.sockets.take();
        if let (Some(sockets), Some(diag), false) =
            (sockets, &mut self.diag, tick.is_multiple_of(REFRESH))
        {
            let asked: std::io::Result<Vec<_>> =
                sockets.iter().map(|socket| ask(diag, *socket)).collect();
            // A socket that is gone may have a successor: the dump finds it.
            if let Ok(queues) = asked {
                self.sockets = Some(sockets);
                return Ok(queues);
            }
        }
        let queues = self.dump()?;
        let single = |queue: &Queue| queue.last.filter(|_| queue.found == 1);
        self.sockets = queues.iter().map(single).collect();
        Ok(queues)
    }

    fn dump(&mut self) -> std::io::Result<Vec<Queue>> {
        let diag = match &mut self.diag {
            Some(diag) => diag,
            closed => closed.insert(SockDiag::open(self.netns.as_deref())?),
        };
        let mut queues = vec![Queue::default(); self.listen.len()];
        // IPv4 first: a dump walks a table of the machine's size, and IPv6 sockets seldom serve what is missing.
        for v6 in [false, true] {
            let missing = |(listen, queue): (&Address, &Queue)| {
                matches!(listen, Address::Tcp(_)) && queue.found == 0
            };
            if self.listen.iter().zip(&queues).any(missing) {
                diag.tcp(v6, &[LISTEN], &[], |socket| {
                    for (listen, queue) in self.listen.iter().zip(&mut queues) {
                        if matches!(listen, Address::Tcp(wanted) if serves(socket.local, *wanted)) {
                            queue.add(
                                (socket.queue, socket.queue_limit),
                                Listener::Tcp(socket.local),
                            );
                        }
                    }
                })?;
            }
        }
        let is_unix = |address: &Address| matches!(address, Address::Unix(_));
        if self.listen.iter().any(is_unix) {
            diag.unix_listeners(|listener| {
                for (listen, queue) in self.listen.iter().zip(&mut queues) {
                    if matches!(listen, Address::Unix(path) if path.as_os_str().as_encoded_bytes() == listener.path) {
                        queue.add((listener.queue, listener.queue_limit), Listener::Unix(listener.inode));
                    }
                }
            })?;
        }
        Ok(queues)
    }
}

fn ask(diag: &mut SockDiag, socket: Listener) -> std::io::Result<Queue> {
    let found = match socket {
        Listener::Tcp(address) => diag.tcp_listener(address)?,
        Listener::Unix(inode) => diag.unix_listener(inode)?,
    };
    let mut queue = Queue::default();
    queue.add(found.ok_or(std::io::ErrorKind::NotFound)?, socket);
    Ok(queue)
}

/// Whether a socket that listens on `bound` gets connections to `wanted`.
fn serves(bound: SocketAddr, wanted: SocketAddr) -> bool {
    let any_family = bound.is_ipv6() || wanted.is_ipv4();
    bound.port() == wanted.port()
        && (bound.ip() == wanted.ip()
            || wanted.ip().is_unspecified()
            || bound.ip().is_unspecified() && any_family)
}

impl Probe for AcceptQueue {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let queues = self.queues().map_err(|why| {
            self.diag = None;
            Failure(format!("sock_diag in the tier's network namespace: {why}"))
        })?;
        let mut missing = None;
        for (address, queue) in self.listen.iter().zip(queues) {
            let label = if self.listen.len() == 1 {
                String::new()
            } else {
                address.to_string()
            };
            if queue.found > 0 {
                sink.labelled(QUEUE, &label, queue.length as f64);
                sink.labelled(QUEUE_LIMIT, &label, queue.limit as f64);
            } else {
                missing = Some(Failure::on(
                    "nobody listens on",
                    address,
                    "is the server up, in this namespace?",
                ));
            }
        }
        missing.map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bound: &str, wanted: &str, expected: bool) {
        let parse = |text: &str| text.parse::<SocketAddr>().expect(text);
        assert_eq!(
            serves(parse(bound), parse(wanted)),
            expected,
            "{bound} for {wanted}"
        );
    }

    #[test]
    fn a_wildcard_listener_serves_every_address() {
        check("0.0.0.0:80", "10.0.0.2:80", true);
        check("[::]:80", "10.0.0.2:80", true);
        check("10.0.0.2:80", "10.0.0.2:80", true);
        check("10.0.0.3:80", "10.0.0.2:80", false);
        check("0.0.0.0:81", "10.0.0.2:80", false);
        check("0.0.0.0:80", "[::1]:80", false);
    }
}
