//! Sockets that never block.

use crate::connection::line::{Line, PACKET_BYTES};
use crate::plan::LoadError;
use kneepoint_model::{Address, Outcome};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, ipproto, socket_with,
    sockopt,
};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// An address the system can connect to.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Unix(SocketAddrUnix),
}

impl Endpoint {
    pub(crate) fn new(address: &Address) -> Result<Self, LoadError> {
        match address {
            Address::Tcp(address) => Ok(Self::Tcp(*address)),
            Address::Unix(path) => match SocketAddrUnix::new(path.as_path()) {
                Ok(address) => Ok(Self::Unix(address)),
                Err(source) => Err(LoadError::System {
                    what: format!("Unix socket `{}`", path.display()),
                    source,
                    instead: "use a path of at most 107 bytes",
                }),
            },
        }
    }

    /// Whether closing first leaves a port in TIME_WAIT.
    pub(crate) fn has_time_wait(&self) -> bool {
        matches!(self, Self::Tcp(_))
    }
}

/// A connection being made.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) fd: OwnedFd,
    /// False while the handshake is under way.
    pub(crate) connected: bool,
}

/// The addresses that new connections come from, in turn.
#[derive(Debug)]
pub(crate) struct Sources<'p> {
    addresses: &'p [IpAddr],
    turn: usize,
}

impl<'p> Sources<'p> {
    /// Threads begin at different addresses.
    pub(crate) fn new(addresses: &'p [IpAddr], thread: usize) -> Self {
        Self {
            addresses,
            turn: thread,
        }
    }

    /// The next address; `None` leaves the choice to the system.
    pub(crate) fn next(&mut self) -> Option<IpAddr> {
        if self.addresses.is_empty() {
            return None;
        }
        let address = self.addresses[self.turn % self.addresses.len()];
        self.turn = self.turn.wrapping_add(1);
        Some(address)
    }
}

/// Refuses a source address that no connection could come from.
pub(crate) fn check_source(source: IpAddr) -> Result<(), LoadError> {
    let bound = tcp_socket(source.is_ipv4()).and_then(|fd| bind_source(&fd, source));
    bound.map_err(|errno| LoadError::System {
        what: format!("sending from {source}"),
        source: errno,
        instead: "use addresses that this host has where the load comes from: `ip address`",
    })
}

/// Binds to an address and leaves the port open until the connection is made. Bound at once, a port would be taken
/// for every destination, and a busy source would run out of ports long before its connections need that many
/// (load-engine.md, section 3, pitfalls).
fn bind_source(fd: &OwnedFd, source: IpAddr) -> Result<(), Errno> {
    set_option(fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
    bind(fd, &SocketAddr::new(source, 0))
}

/// Sets an option of a socket that is a number, or on (1).
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix knows IP_BIND_ADDRESS_NO_PORT, SO_TIMESTAMPNS and TCP_MAXSEG"
)]
pub(crate) fn set_option(
    fd: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> Result<(), Errno> {
    // SAFETY: the descriptor is open, and the value is a live integer of the length that is passed.
    let refused = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if refused == 0 {
        return Ok(());
    }
    Err(last_error())
}

/// Why the system call before failed.
pub(crate) fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::INVAL)
}

fn tcp_socket(v4: bool) -> Result<OwnedFd, Errno> {
    let family = if v4 {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let protocol = Some(ipproto::TCP);
    let fd = socket_with(family, SocketType::STREAM, FLAGS, protocol)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    Ok(fd)
}

/// Lets a socket hold no more than a slow line has on its way. The server learns it with the handshake, so it is said before.
fn narrow(fd: &OwnedFd, line: &Line) -> Result<(), Errno> {
    sockopt::set_socket_recv_buffer_size(fd, line.buffer_bytes())?;
    // On loopback one segment is larger than such a buffer, and the server would wait for room for a whole one.
    set_option(
        fd,
        libc::IPPROTO_TCP,
        libc::TCP_MAXSEG,
        PACKET_BYTES as libc::c_int,
    )
}

/// Begins to connect.
pub(crate) fn open(endpoint: &Endpoint) -> Result<Opening, Errno> {
    open_from(endpoint, None, None)
}

/// Begins to connect from an address of this host, and over a slow line, where the endpoint is one of TCP.
pub(crate) fn open_from(
    endpoint: &Endpoint,
    source: Option<IpAddr>,
    line: Option<&Line>,
) -> Result<Opening, Errno> {
    let (fd, connected) = match endpoint {
        Endpoint::Tcp(address) => {
            let fd = tcp_socket(address.is_ipv4())?;
            if let Some(source) = source {
                bind_source(&fd, source)?;
            }
            if let Some(line) = line {
                narrow(&fd, line)?;
            }
            let connected = connect(&fd, address);
            (fd, connected)
        }
        Endpoint::Unix(address) => {
            let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
            let connected = connect(&fd, address);
            (fd, connected)
        }
    };
    match connected {
        Ok(()) => Ok(Opening {
            fd,
            connected: true,
        }),
        Err(Errno::INPROGRESS) => Ok(Opening {
            fd,
            connected: false,
        }),
        Err(errno) => Err(errno),
    }
}

/// How a request ends whose connection could not be made. EAGAIN is a Unix socket's full backlog, which the
/// server lets happen; ports and descriptors that ran out are the generator's own limit.
pub(crate) fn refusal(errno: Errno) -> Outcome {
    match errno {
        Errno::ADDRNOTAVAIL | Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
            Outcome::NoLocalPort
        }
        _ => Outcome::Refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::getsockname;
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

    fn local_address(fd: &OwnedFd) -> SocketAddr {
        let name = getsockname(fd).expect("an open socket");
        SocketAddr::try_from(name).expect("of TCP")
    }

    #[test]
    fn a_source_has_its_port_only_when_the_connection_is_made() {
        for address in [
            IpAddr::from(Ipv4Addr::new(127, 0, 0, 2)),
            Ipv6Addr::LOCALHOST.into(),
        ] {
            let Ok(listener) = TcpListener::bind((address, 0)) else {
                // A host without IPv6.
                assert!(address.is_ipv6());
                continue;
            };
            let fd = tcp_socket(address.is_ipv4()).expect("a socket");
            bind_source(&fd, address).expect("an address of this host");
            assert_eq!(local_address(&fd), SocketAddr::new(address, 0));
            let endpoint = Endpoint::Tcp(listener.local_addr().expect("bound"));
            let opening = open_from(&endpoint, Some(address), None).expect("it listens");
            let local = local_address(&opening.fd);
            assert_eq!(local.ip(), address);
            assert_ne!(local.port(), 0);
        }
    }

    #[test]
    fn threads_begin_at_different_sources() {
        let addresses = [2, 3, 4].map(|last| IpAddr::from([127, 0, 0, last]));
        let turns = |thread| {
            let mut sources = Sources::new(&addresses, thread);
            [0; 4].map(|_| sources.next().expect("there are some"))
        };
        let [a, b, c] = addresses;
        assert_eq!(turns(0), [a, b, c, a]);
        assert_eq!(turns(2), [c, a, b, c]);
        assert_eq!(Sources::new(&[], 0).next(), None);
    }
}
