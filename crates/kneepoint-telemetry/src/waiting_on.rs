//! Names what a blocked worker waits for: the call, and the tier at the other end of its descriptor.
//!
//! The peer of a socket is asked of the kernel through a duplicate of the worker's own descriptor
//! (pidfd_getfd(2)), which works across namespaces and costs three calls once a connection; searching the socket
//! tables instead would walk 28 000 sockets in TIME_WAIT.

pub(crate) mod wait;

use kneepoint_linux::Kept;
use kneepoint_linux::SockDiag;
use kneepoint_linux::sock_diag::SYN_SENT;
use kneepoint_model::{Address, Layer, RunningTier};
use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::PathBuf;
use wait::{
    Syscall, Verb, Wait, parse_fd_set, parse_pollfds, parse_syscall, wait_channel, wait_of,
};

/// Connections whose peer is remembered; when full, all are asked again.
const REMEMBERED: usize = 4096;
/// Descriptors of one poll that are looked at.
const POLLED: u64 = 4;
/// Waits for an event that another thread, or the kernel, makes: libcurl has an eventfd, or a pipe (8.5 to 8.8).
const EVENTS: [&str; 2] = ["recv descriptor", "recv pipe"];

/// What a worker is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doing {
    /// On a CPU or ready to run.
    Running,
    /// Asleep in a call on a peer, as a label.
    Waiting(String),
    /// It is gone.
    Gone,
}

/// What a worker waits for whose client keeps its connection and asks for nothing.
pub(crate) const KEPT: &str = "recv web";

/// Whether a label says that the worker has no request: it waits for a connection, or for a request on one.
pub(crate) fn is_idle(label: &str) -> bool {
    matches!(label, "accept" | KEPT)
}

/// The other end of a descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
enum End {
    /// A connected socket, by the name of its peer.
    Connected(String),
    /// A socket that is being connected.
    Connecting(String),
    /// Not a socket.
    Thing(&'static str),
}

/// Names ends of descriptors for one tier.
#[derive(Debug)]
pub(crate) struct Peers {
    peers: Vec<(Layer, Address)>,
    doubles: Vec<(String, Address)>,
    listen: Vec<Address>,
    netns: Option<PathBuf>,
    diag: Option<SockDiag>,
    remembered: HashMap<u64, String>,
    syscalls: Kept,
}

impl Peers {
    pub(crate) fn of(tier: &RunningTier) -> Self {
        Self {
            peers: tier.peers.clone(),
            doubles: tier.doubles.clone(),
            listen: tier.listen.clone(),
            netns: tier.netns.clone(),
            diag: None,
            remembered: HashMap::new(),
            syscalls: Kept::new("syscall"),
        }
    }

    /// What a worker is doing now.
    pub(crate) fn look(&mut self, pid: u32) -> Doing {
        let mut buffer = [0; 256];
        match self.syscalls.read(pid, &mut buffer).map(parse_syscall) {
            Ok(Some(Syscall::Running)) => Doing::Running,
            Ok(Some(Syscall::In(number, args))) => {
                Doing::Waiting(self.label(pid, wait_of(number, &args)))
            }
            Ok(Some(Syscall::Outside)) => Doing::Waiting(channel(pid)),
            // Without the right to look into it, the state letter is all there is.
            Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => by_state(pid),
            Ok(None) | Err(_) => Doing::Gone,
        }
    }

    /// Forgets workers that are not among these.
    pub(crate) fn retain(&mut self, pids: &[u32]) {
        self.syscalls.retain(pids);
    }

    fn label(&mut self, pid: u32, wait: Wait) -> String {
        match wait {
            Wait::Named(name) => name.to_owned(),
            Wait::On(verb, fd) => self.on(pid, verb, fd).unwrap_or_else(|| unknown(verb)),
            Wait::Connect(fd, address, length) => {
                let peer = memory(pid, address, length.min(128))
                    .and_then(|bytes| Address::of_sockaddr(&bytes));
                match peer {
                    Some(peer) => format!("connect {}", self.name(&peer)),
                    None => self
                        .on(pid, Verb::Send, fd)
                        .unwrap_or_else(|| "connect".to_owned()),
                }
            }
            Wait::Poll(address, count) => {
                let known = self.polled(pid, address, count);
                let is_for_nobody = known.as_deref().is_none_or(|label| EVENTS.contains(&label));
                let asked = is_for_nobody.then(|| self.asked_by_thread(pid)).flatten();
                asked.or(known).unwrap_or_else(|| "poll".to_owned())
            }
            Wait::Select(count, read, write) => {
                let bytes = count.div_ceil(8).min(128);
                let set = |at: u64| {
                    if at == 0 {
                        None
                    } else {
                        parse_fd_set(&memory(pid, at, bytes)?)
                    }
                };
                let fds = [(Verb::Recv, set(read)), (Verb::Send, set(write))];
                let fds = fds.into_iter().filter_map(|(verb, fd)| Some((verb, fd?)));
                self.first(pid, fds).unwrap_or_else(|| "select".to_owned())
            }
            Wait::Other => channel(pid),
        }
    }

    fn polled(&mut self, pid: u32, address: u64, count: u64) -> Option<String> {
        let bytes = memory(pid, address, count.min(POLLED) * 8)?;
        self.first(pid, parse_pollfds(&bytes))
    }

    /// The nameserver that another thread of a worker waits for: curl starts one for each name, and waits until it is done.
    fn asked_by_thread(&mut self, pid: u32) -> Option<String> {
        // Beside a worker that is a thread itself are others, with requests of their own.
        if kneepoint_linux::process::process_of(pid) != Some(pid) {
            return None;
        }
        let threads = kneepoint_linux::process::threads(pid).ok()?;
        let mut others = threads.into_iter().filter(|thread| *thread != pid);
        others.find_map(|thread| {
            let mut buffer = [0; 256];
            let path = format!("/proc/{pid}/task/{thread}/syscall");
            let call = kneepoint_linux::file::read_once(&path, &mut buffer).ok()?;
            let Some(Syscall::In(number, args)) = parse_syscall(call) else {
                return None;
            };
            // Memory and descriptors are those of the process.
            let label = match wait_of(number, &args) {
                Wait::On(verb, fd) => self.on(pid, verb, fd),
                Wait::Poll(address, count) => self.polled(pid, address, count),
                _ => None,
            };
            label.filter(|label| is_for_nameserver(label))
        })
    }

    fn first(&mut self, pid: u32, mut fds: impl Iterator<Item = (Verb, i32)>) -> Option<String> {
        fds.find_map(|(verb, fd)| self.on(pid, verb, fd))
    }

    fn on(&mut self, pid: u32, verb: Verb, fd: i32) -> Option<String> {
        let word = match verb {
            Verb::Recv => "recv",
            Verb::Send => "send",
        };
        Some(match self.end(pid, fd)? {
            End::Connected(peer) => format!("{word} {peer}"),
            End::Connecting(peer) => format!("connect {peer}"),
            End::Thing(thing) => format!("{word} {thing}"),
        })
    }

    fn end(&mut self, pid: u32, fd: i32) -> Option<End> {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
        let link = link.as_os_str().as_bytes();
        let Some(inode) = link
            .strip_prefix(b"socket:[")
            .and_then(kneepoint_linux::file::number)
        else {
            return Some(End::Thing(match link {
                [b'p', b'i', b'p', b'e', b':', ..] => printed(pid, link).unwrap_or("pipe"),
                [b'/', ..] if is_pipe(pid, fd) => "pipe",
                [b'/', ..] => "file",
                _ => "descriptor",
            }));
        };
        if let Some(peer) = self.remembered.get(&inode) {
            return Some(End::Connected(peer.clone()));
        }
        let end = self.ask(pid, fd, inode)?;
        if let End::Connected(peer) = &end {
            if self.remembered.len() >= REMEMBERED {
                self.remembered.clear();
            }
            self.remembered.insert(inode, peer.clone());
        }
        Some(end)
    }

    fn ask(&mut self, pid: u32, fd: i32, inode: u64) -> Option<End> {
        // A thread has its process' descriptors, and only the process can be opened.
        let process =
            process(pid).or_else(|| process(kneepoint_linux::process::process_of(pid)?))?;
        let socket = pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()).ok()?;
        let own = getsockname(&socket).ok().and_then(address_of);
        if own.is_some_and(|own| self.listen.iter().any(|listen| same(listen, &own))) {
            return Some(End::Connected("web".to_owned()));
        }
        match getpeername(&socket) {
            Ok(Some(peer)) => Some(End::Connected(self.name(&address_of(peer)?))),
            Ok(None) => None,
            // Not connected yet: only the socket tables know where to.
            Err(_) => Some(End::Connecting(self.connecting_to(inode)?)),
        }
    }

    fn connecting_to(&mut self, inode: u64) -> Option<String> {
        if self.diag.is_none() {
            self.diag = SockDiag::open(self.netns.as_deref()).ok();
        }
        let diag = self.diag.as_mut()?;
        let mut found = None;
        for v6 in [false, true] {
            let asked = diag.tcp(v6, &[SYN_SENT], &[], |socket| {
                if u64::from(socket.inode) == inode {
                    found = Some(Address::Tcp(socket.peer));
                }
            });
            if asked.is_err() {
                self.diag = None;
                return None;
            }
            if found.is_some() {
                break;
            }
        }
        found.map(|peer| self.name(&peer))
    }

    /// The layer at an address, the name of the double there, or the address. A tier that asks the one before it asks its own
    /// site.
    fn name(&self, address: &Address) -> String {
        let mut doubles = self.doubles.iter();
        if let Some((name, _)) = doubles.find(|(_, double)| same(double, address)) {
            return name.clone();
        }
        match self.peers.iter().find(|(_, peer)| same(peer, address)) {
            Some((Layer::Web | Layer::Proxy, _)) => RunningTier::OWN_SITE.to_owned(),
            Some((layer, _)) => layer.name().to_owned(),
            None => address.to_string(),
        }
    }
}

/// Which of what a process prints goes into this pipe. PHP opens `php://stderr` by a descriptor of its own (dup(2)), so the number of
/// the descriptor says nothing.
fn printed(pid: u32, pipe: &[u8]) -> Option<&'static str> {
    let mut streams = [(2, "stderr"), (1, "stdout")].into_iter();
    let found = streams.find(|(number, _)| {
        let link = std::fs::read_link(format!("/proc/{pid}/fd/{number}"));
        link.is_ok_and(|link| link.as_os_str().as_bytes() == pipe)
    });
    found.map(|(_, name)| name)
}

/// Whether a descriptor that leads to a path is a pipe with a name (fifo(7)).
fn is_pipe(pid: u32, fd: i32) -> bool {
    let file = std::fs::metadata(format!("/proc/{pid}/fd/{fd}"));
    file.is_ok_and(|file| file.file_type().is_fifo())
}

fn process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Names what processes wait for, in the words of `workers.waiting`.
#[derive(Debug)]
pub struct Waits(Peers);

impl Waits {
    /// For processes in the network namespace of this one, whose peers are named by their addresses.
    #[must_use]
    pub fn beside(pid: u32) -> Self {
        Self(Peers {
            peers: Vec::new(),
            doubles: Vec::new(),
            listen: Vec::new(),
            netns: Some(format!("/proc/{pid}/ns/net").into()),
            diag: None,
            remembered: HashMap::new(),
            syscalls: Kept::new("syscall"),
        })
    }

    /// For the workers of a tier whose peers are known: they are named by their layer.
    #[must_use]
    pub fn of(tier: &RunningTier) -> Self {
        Self(Peers::of(tier))
    }

    /// What a peer is called: its layer where that is known, or its address.
    #[must_use]
    pub fn name(&self, peer: &Address) -> String {
        self.0.name(peer)
    }

    /// Whether a label says that a worker has no request.
    #[must_use]
    pub fn is_idle(label: &str) -> bool {
        is_idle(label)
    }

    /// Forgets processes that are not among these.
    pub fn retain(&mut self, pids: &[u32]) {
        self.0.retain(pids);
    }

    /// What a process waits for now; `None` when it runs or is gone.
    pub fn look(&mut self, pid: u32) -> Option<String> {
        match self.0.look(pid) {
            Doing::Waiting(label) => Some(label),
            Doing::Running | Doing::Gone => None,
        }
    }
}

/// Whether a label leads to a nameserver.
fn is_for_nameserver(label: &str) -> bool {
    let peer = label.split_once(' ').map_or(label, |(_, peer)| peer);
    peer.parse().is_ok_and(|peer: Address| peer.is_nameserver())
}

fn unknown(verb: Verb) -> String {
    match verb {
        Verb::Recv => "recv unknown".to_owned(),
        Verb::Send => "send unknown".to_owned(),
    }
}

/// Whether a configured address is the one a socket has: a wildcard listener has any address, and PostgreSQL's
/// socket is known by its directory.
fn same(configured: &Address, seen: &Address) -> bool {
    match (configured, seen) {
        (Address::Tcp(configured), Address::Tcp(seen)) => {
            configured.port() == seen.port()
                && (configured.ip().is_unspecified() || configured.ip() == seen.ip().to_canonical())
        }
        (Address::Unix(configured), Address::Unix(seen)) => {
            configured == seen || seen.parent() == Some(configured)
        }
        _ => false,
    }
}

fn address_of(any: SocketAddrAny) -> Option<Address> {
    if let Ok(address) = SocketAddr::try_from(any.clone()) {
        return Some(Address::Tcp(SocketAddr::new(
            address.ip().to_canonical(),
            address.port(),
        )));
    }
    let unix = SocketAddrUnix::try_from(any).ok()?;
    let path = unix.path_bytes()?;
    let path = path.strip_suffix(&[0]).unwrap_or(path);
    (!path.is_empty()).then(|| Address::Unix(OsStr::from_bytes(path).into()))
}

/// Some bytes of a process's memory.
pub(crate) fn memory(pid: u32, address: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let read = File::open(format!("/proc/{pid}/mem"))
        .ok()?
        .read_at(&mut bytes, address)
        .ok()?;
    bytes.truncate(read);
    Some(bytes)
}

fn channel(pid: u32) -> String {
    let mut buffer = [0; 128];
    let name = kneepoint_linux::file::read_once(&format!("/proc/{pid}/wchan"), &mut buffer)
        .unwrap_or_default();
    let name = String::from_utf8_lossy(name);
    match wait_channel(&name) {
        Some(meaning) => meaning.to_owned(),
        None if name.is_empty() || name == "0" => "other:unknown".to_owned(),
        None => format!("other:{name}"),
    }
}

fn by_state(pid: u32) -> Doing {
    let mut buffer = [0; 512];
    let stat = kneepoint_linux::file::read_once(&format!("/proc/{pid}/stat"), &mut buffer)
        .ok()
        .and_then(kneepoint_linux::process::parse_stat);
    match stat.map(|stat| stat.state) {
        Some(b'R') => Doing::Running,
        Some(_) => Doing::Waiting(channel(pid)),
        None => Doing::Gone,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    fn check(configured: &str, seen: &str, expected: bool) {
        let parse = |text: &str| text.parse::<Address>().expect(text);
        assert_eq!(
            same(&parse(configured), &parse(seen)),
            expected,
            "{configured} and {seen}"
        );
    }

    #[test]
    fn addresses_meet_as_sockets_do() {
        check("10.0.0.2:6379", "10.0.0.2:6379", true);
        check("10.0.0.2:6379", "10.0.0.3:6379", false);
        check("0.0.0.0:9000", "10.0.0.2:9000", true);
        check("/run/pg", "/run/pg/.s.PGSQL.5432", true);
        check("/run/php.sock", "/run/php.sock", true);
        check("/run/php.sock", "10.0.0.2:9000", false);
    }

    #[test]
    fn a_double_is_called_by_its_name() {
        let double: Address = "198.18.0.7:80".parse().expect("an address");
        let mut tier = crate::source::tests::tier_without_doors(1);
        tier.doubles = vec![("api.example.test:80".to_owned(), double.clone())];
        let waits = Waits::of(&tier);
        assert_eq!(waits.name(&double), "api.example.test:80");
        let other: Address = "198.18.0.7:81".parse().expect("an address");
        assert_eq!(waits.name(&other), "198.18.0.7:81");
    }

    #[test]
    fn a_nameserver_that_a_thread_asks_is_seen() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.connect("127.0.0.1:53").expect("an address");
        // Nobody is sent anything, so that nobody answers: it waits until this process ends.
        std::thread::spawn(move || socket.recv(&mut [0; 16]));
        let own = std::process::id();
        let mut peers = Peers::of(&crate::source::tests::tier_without_doors(own));
        let asked = (0..200).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            peers.asked_by_thread(own)
        });
        assert_eq!(asked.as_deref(), Some("recv 127.0.0.1:53"));
        assert!(is_for_nameserver("recv [fd00::a]:53"));
        for other in ["recv 10.0.0.2:5353", "recv unix:/run/x", "poll"] {
            assert!(!is_for_nameserver(other), "{other}");
        }
    }

    /// Starts a shell's command, whose output nobody reads, and waits until it sleeps as expected.
    #[expect(
        clippy::disallowed_methods,
        reason = "this crate knows no lab that starts processes"
    )]
    fn check_asleep(command: &str, expected: &str) {
        let mut child = std::process::Command::new("sh")
            .args(["-c", command])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("sh starts");
        let tier = crate::source::tests::tier_without_doors(child.id());
        let mut peers = Peers::of(&tier);
        let mut seen = None;
        let asleep = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            seen = Some(peers.look(child.id()));
            seen == Some(Doing::Waiting(expected.into()))
        });
        let named = Waits::beside(child.id()).look(child.id());
        child.kill().expect("our own child");
        child.wait().expect("our own child");
        assert!(asleep, "{command}: {seen:?}");
        assert_eq!(named.as_deref(), Some(expected), "{command}");
        assert_eq!(peers.look(child.id()), Doing::Gone);
    }

    #[test]
    fn a_sleeping_child_is_seen_asleep() {
        check_asleep("exec sleep 20", "sleep");
    }

    #[test]
    fn who_waits_until_its_output_is_read_is_told_by_the_stream() {
        check_asleep("exec yes", "send stdout");
        // The same pipe by another number, as PHP has php://stderr.
        check_asleep("exec yes >&2", "send stderr");
    }

    #[test]
    fn a_pipe_with_a_name_is_no_file() {
        let named = "d=$(mktemp -d) && mkfifo $d/log && exec 3<>$d/log && rm -r $d && exec yes >&3";
        check_asleep(named, "send pipe");
    }
}
