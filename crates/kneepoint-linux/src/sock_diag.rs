//! Asks the kernel about sockets over netlink (sock_diag(7)), within one network namespace.
//!
//! Requests and answers are a few fixed fields, written and read here by hand: a namespace may hold 28 000
//! sockets in TIME_WAIT, so answers are filtered in the kernel (by state, and by peer with a small program)
//! and read without an allocation each.

use crate::namespace;
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    sockopt,
};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// TCP states, as `enum` in `include/net/tcp_states.h`.
pub const ESTABLISHED: u8 = 1;
/// Connecting.
pub const SYN_SENT: u8 = 2;
/// Closed first, waiting for late segments.
pub const TIME_WAIT: u8 = 6;
/// Listening.
pub const LISTEN: u8 = 10;

const AF_UNIX: u8 = 1;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST: one socket.
const ONE: u16 = 0x001;
/// NLM_F_REQUEST | NLM_F_DUMP: all that match.
const DUMP: u16 = 0x301;
const HEADER: usize = 16;
/// UDIAG_SHOW_NAME | UDIAG_SHOW_RQLEN.
const SHOW: u32 = 0x11;
const UNIX_DIAG_NAME: u16 = 0;
const UNIX_DIAG_RQLEN: u16 = 4;
const INET_DIAG_REQ_BYTECODE: u16 = 1;
const BC_JMP: u8 = 1;
const BC_D_COND: u8 = 8;
const TIMEOUT: Duration = Duration::from_secs(1);

/// A TCP socket as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSocket {
    /// State, one of the constants above.
    pub state: u8,
    /// Own address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// Of a listener: connections in the accept queue.
    pub queue: u32,
    /// Of a listener: how many fit.
    pub queue_limit: u32,
    /// Inode, as in `/proc/PID/fd`; 0 for TIME_WAIT, which belongs to no process.
    pub inode: u32,
}

/// A listening Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnixListener<'a> {
    /// The path it was bound to.
    pub path: &'a [u8],
    /// Its inode within the kernel's sockets.
    pub inode: u32,
    /// Connections in the accept queue.
    pub queue: u32,
    /// How many fit.
    pub queue_limit: u32,
}

/// A netlink socket that lives in the namespace of a tier.
#[derive(Debug)]
pub struct SockDiag {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl SockDiag {
    /// Opens it in a namespace; `None` is our own.
    ///
    /// # Errors
    /// The namespace cannot be entered, or the kernel has no sock_diag.
    pub fn open(netns: Option<&Path>) -> io::Result<Self> {
        let socket = namespace::inside_path(netns, || {
            Ok(socket_with(
                AddressFamily::NETLINK,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(netlink::SOCK_DIAG),
            )?)
        })?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(TIMEOUT))?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; 32 * 1024],
        })
    }

    /// Every TCP socket of one family in one of the states, whose peer is one of `peers` (all when empty).
    ///
    /// # Errors
    /// The kernel refused, or did not answer within a second.
    pub fn tcp(
        &mut self,
        v6: bool,
        states: &[u8],
        peers: &[SocketAddr],
        mut each: impl FnMut(TcpSocket),
    ) -> io::Result<()> {
        let request = tcp_request(v6, states, peers);
        self.ask(&request, DUMP, |payload| {
            if let Some(socket) = parse_tcp(payload) {
                each(socket);
            }
        })
    }

    /// Queue and limit of the socket that accepts connections to an address: one look-up instead of a walk over a
    /// table of the machine's size. Of several that share the address it is any one.
    ///
    /// # Errors
    /// The kernel refused, or did not answer within a second.
    pub fn tcp_listener(&mut self, address: SocketAddr) -> io::Result<Option<(u32, u32)>> {
        let mut request = tcp_request(address.is_ipv6(), &[LISTEN], &[]);
        request[8..10].copy_from_slice(&address.port().to_be_bytes());
        match address.ip() {
            IpAddr::V4(ip) => request[12..16].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => request[12..28].copy_from_slice(&ip.octets()),
        }
        let mut found = None;
        self.ask(&request, ONE, |payload| found = parse_tcp(payload))?;
        let listener = found.filter(|socket| socket.state == LISTEN);
        Ok(listener.map(|socket| (socket.queue, socket.queue_limit)))
    }

    /// Every listening Unix socket that has a path.
    ///
    /// # Errors
    /// The kernel refused, or did not answer within a second.
    pub fn unix_listeners(&mut self, mut each: impl FnMut(UnixListener<'_>)) -> io::Result<()> {
        self.ask(&unix_request(0), DUMP, |payload| {
            if let Some(listener) = parse_unix(payload) {
                each(listener);
            }
        })
    }

    /// Queue and limit of one listening Unix socket.
    ///
    /// # Errors
    /// The kernel refused, or did not answer within a second.
    pub fn unix_listener(&mut self, inode: u32) -> io::Result<Option<(u32, u32)>> {
        let mut found = None;
        self.ask(&unix_request(inode), ONE, |payload| {
            found = parse_unix(payload).map(|listener| (listener.queue, listener.queue_limit));
        })?;
        Ok(found)
    }

    fn ask(&mut self, request: &[u8], flags: u16, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = message(request, flags, self.sequence);
        send(&self.socket, &message, SendFlags::empty())?;
        loop {
            let (_, length) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            let answer = &self.buffer[..length.min(self.buffer.len())];
            match read_answer(answer, self.sequence, &mut each) {
                // Only a dump has a message that tells its end.
                Answer::One if flags == ONE => return Ok(()),
                Answer::More | Answer::One => {}
                Answer::Done => return Ok(()),
                Answer::Error(errno) => return Err(io::Error::from_raw_os_error(errno)),
            }
        }
    }
}

enum Answer {
    /// Nothing of this request yet.
    More,
    /// At least one socket.
    One,
    Done,
    Error(i32),
}

/// A request with its netlink header (netlink(7)): length, type, flags, sequence, port.
fn message(request: &[u8], flags: u16, sequence: u32) -> Vec<u8> {
    let length = (HEADER + request.len()) as u32;
    let mut message = Vec::with_capacity(length as usize);
    message.extend(length.to_ne_bytes());
    message.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0u32.to_ne_bytes());
    message.extend(request);
    message
}

/// Walks the messages of one datagram; those of an earlier request that was given up are skipped.
fn read_answer(mut bytes: &[u8], sequence: u32, each: &mut impl FnMut(&[u8])) -> Answer {
    let mut answer = Answer::More;
    while bytes.len() >= HEADER {
        let length = u32_at(bytes, 0).map_or(0, |length| length as usize);
        if length < HEADER || length > bytes.len() {
            return Answer::Error(libc::EBADMSG);
        }
        if u32_at(bytes, 8) == Some(sequence) {
            let payload = &bytes[HEADER..length];
            match u16_at(bytes, 4) {
                Some(NLMSG_DONE) => return Answer::Done,
                Some(NLMSG_ERROR) => {
                    let errno = u32_at(payload, 0).map_or(0, |code| (code as i32).saturating_neg());
                    return Answer::Error(errno);
                }
                Some(SOCK_DIAG_BY_FAMILY) => {
                    each(payload);
                    answer = Answer::One;
                }
                _ => {}
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    answer
}

/// `struct unix_diag_req` for listening sockets: the one with an inode, or (0) all.
fn unix_request(inode: u32) -> Vec<u8> {
    let mut request = vec![AF_UNIX, 0, 0, 0];
    request.extend((1u32 << LISTEN).to_ne_bytes());
    request.extend(inode.to_ne_bytes());
    request.extend(SHOW.to_ne_bytes());
    request.extend([0xff; 8]);
    request
}

/// `struct inet_diag_req_v2` and, with peers, the program that selects them.
fn tcp_request(v6: bool, states: &[u8], peers: &[SocketAddr]) -> Vec<u8> {
    let family = if v6 { AF_INET6 } else { AF_INET };
    let mask = states.iter().fold(0u32, |mask, state| mask | 1 << state);
    let mut request = vec![family, IPPROTO_TCP, 0, 0];
    request.extend(mask.to_ne_bytes());
    request.extend([0; 40]);
    request.extend([0xff; 8]);
    if !peers.is_empty() {
        let program = peer_program(peers);
        request.extend((4 + program.len() as u16).to_ne_bytes());
        request.extend(INET_DIAG_REQ_BYTECODE.to_ne_bytes());
        request.extend(program);
    }
    request
}

/// A program for the kernel's filter (`struct inet_diag_bc_op`): accept a socket whose peer is one of these.
///
/// Per peer a condition and a jump: a match falls through to the jump, which goes to the end (accept); a miss
/// skips it. Past the last jump by one instruction is the end that rejects.
fn peer_program(peers: &[SocketAddr]) -> Vec<u8> {
    let sizes: Vec<u16> = peers
        .iter()
        .map(|peer| if peer.is_ipv4() { 16 } else { 28 })
        .collect();
    let mut left: u16 = sizes.iter().map(|size| size + 4).sum();
    let mut program = Vec::with_capacity(usize::from(left));
    for (peer, size) in peers.iter().zip(sizes) {
        let miss = if left == size + 4 { size + 8 } else { size + 4 };
        program.extend([BC_D_COND, size as u8]);
        program.extend(miss.to_ne_bytes());
        let (family, bits) = if peer.is_ipv4() {
            (AF_INET, 32)
        } else {
            (AF_INET6, 128)
        };
        program.extend([family, bits, 0, 0]);
        program.extend(u32::from(peer.port()).to_ne_bytes());
        match peer.ip() {
            IpAddr::V4(ip) => program.extend(ip.octets()),
            IpAddr::V6(ip) => program.extend(ip.octets()),
        }
        left -= size;
        program.extend([BC_JMP, 4]);
        program.extend(left.to_ne_bytes());
        left -= 4;
    }
    program
}

/// Reads bytes as what the kernel says of a socket, for the fuzz targets of `fuzz/`.
///
/// # Panics
/// A parser does.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(payload: &[u8]) {
    let _ = parse_tcp(payload);
    let _ = parse_unix(payload);
}

/// `struct inet_diag_msg`.
fn parse_tcp(payload: &[u8]) -> Option<TcpSocket> {
    let family = *payload.first()?;
    let port = |at: usize| {
        Some(u16::from_be_bytes(
            payload.get(at..at + 2)?.try_into().ok()?,
        ))
    };
    let ip = |at: usize| {
        Some(match family {
            AF_INET => IpAddr::V4(Ipv4Addr::from(
                <[u8; 4]>::try_from(payload.get(at..at + 4)?).ok()?,
            )),
            AF_INET6 => IpAddr::V6(Ipv6Addr::from(
                <[u8; 16]>::try_from(payload.get(at..at + 16)?).ok()?,
            )),
            _ => return None,
        })
    };
    Some(TcpSocket {
        state: *payload.get(1)?,
        local: SocketAddr::new(ip(8)?, port(4)?),
        peer: SocketAddr::new(ip(24)?, port(6)?),
        queue: u32_at(payload, 56)?,
        queue_limit: u32_at(payload, 60)?,
        inode: u32_at(payload, 68)?,
    })
}

/// `struct unix_diag_msg` and its attributes; `None` without a path.
fn parse_unix(payload: &[u8]) -> Option<UnixListener<'_>> {
    let mut attributes = payload.get(16..)?;
    let mut path = None;
    let mut queue = None;
    while let Some(length) = u16_at(attributes, 0) {
        let value = attributes.get(4..usize::from(length))?;
        match u16_at(attributes, 2)? {
            UNIX_DIAG_NAME => path = Some(value),
            UNIX_DIAG_RQLEN => queue = Some((u32_at(value, 0)?, u32_at(value, 4)?)),
            _ => {}
        }
        attributes = attributes
            .get(usize::from(length).next_multiple_of(4)..)
            .unwrap_or_default();
    }
    let path = path?;
    let path = path.strip_suffix(&[0]).unwrap_or(path);
    // A name that begins with a zero byte is abstract: nothing of the file system.
    let (queue, queue_limit) = queue?;
    (path.first()? != &0).then_some(UnixListener {
        path,
        inode: u32_at(payload, 4)?,
        queue,
        queue_limit,
    })
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixListener as StdUnixListener;

    #[test]
    fn the_kernel_tells_of_our_own_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let _waiting: Vec<_> = (0..3)
            .map(|_| TcpStream::connect(address).expect("connects"))
            .collect();
        let mut diag = SockDiag::open(None).expect("netlink");
        let mut found = None;
        diag.tcp(false, &[LISTEN], &[], |socket| {
            if socket.local == address {
                found = Some(socket.queue);
            }
        })
        .expect("dump");
        assert_eq!(found, Some(3));
        let one = diag.tcp_listener(address).expect("look-up");
        assert_eq!(one.map(|(queue, _)| queue), Some(3));
        let nobody = SocketAddr::from(([127, 0, 0, 9], 1));
        assert!(diag.tcp_listener(nobody).is_err(), "no such listener");
    }

    #[test]
    fn the_kernel_filters_by_peer() {
        let first = TcpListener::bind("127.0.0.1:0").expect("a port");
        let second = TcpListener::bind("[::1]:0")
            .or_else(|_| TcpListener::bind("127.0.0.2:0"))
            .expect("a port");
        let third = TcpListener::bind("127.0.0.3:0").expect("a port");
        let addresses = [&first, &second, &third].map(|l| l.local_addr().expect("bound"));
        let _clients = addresses.map(|a| TcpStream::connect(a).expect("connects"));
        let mut diag = SockDiag::open(None).expect("netlink");
        for wanted in [
            &addresses[..1],
            &addresses[..2],
            &addresses[1..],
            &addresses[..],
        ] {
            let mut seen = Vec::new();
            for v6 in [false, true] {
                diag.tcp(v6, &[ESTABLISHED], wanted, |socket| seen.push(socket.peer))
                    .expect("dump");
            }
            seen.sort();
            let mut expected = wanted.to_vec();
            expected.sort();
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn the_kernel_tells_the_queue_of_a_unix_socket() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("x.sock");
        let _listener = StdUnixListener::bind(&path).expect("bound");
        let connect = || std::os::unix::net::UnixStream::connect(&path).expect("connects");
        let _waiting = [connect(), connect()];
        let mut diag = SockDiag::open(None).expect("netlink");
        let mut found = None;
        diag.unix_listeners(|listener| {
            if listener.path == path.as_os_str().as_encoded_bytes() {
                found = Some((listener.queue, listener.inode));
            }
        })
        .expect("dump");
        let (queue, inode) = found.expect("our listener");
        assert_eq!(queue, 2);
        let one = diag
            .unix_listener(inode)
            .expect("look-up")
            .expect("our listener");
        assert!(one.0 == 2 && one.1 > 0, "{one:?}");
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), sequence in 0u32..3) {
            parse_tcp(&bytes);
            parse_unix(&bytes);
            read_answer(&bytes, sequence, &mut |payload| { parse_unix(payload); });
            let mut framed = message(&bytes, DUMP, sequence);
            framed.extend(&bytes);
            read_answer(&framed, sequence, &mut |payload| { parse_tcp(payload); });
        }
    }
}
