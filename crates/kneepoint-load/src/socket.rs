//! Sockets that never block.

use crate::plan::LoadError;
use kneepoint_model::{Address, Outcome};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, ipproto, socket_with, sockopt,
};
use std::net::SocketAddr;

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

/// Begins to connect.
pub(crate) fn open(endpoint: &Endpoint) -> Result<Opening, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let stream = |family, protocol| socket_with(family, SocketType::STREAM, flags, protocol);
    let (fd, connected) = match endpoint {
        Endpoint::Tcp(address) => {
            let family = match address {
                SocketAddr::V4(_) => AddressFamily::INET,
                SocketAddr::V6(_) => AddressFamily::INET6,
            };
            let fd = stream(family, Some(ipproto::TCP))?;
            sockopt::set_tcp_nodelay(&fd, true)?;
            let connected = connect(&fd, address);
            (fd, connected)
        }
        Endpoint::Unix(address) => {
            let fd = stream(AddressFamily::UNIX, None)?;
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
