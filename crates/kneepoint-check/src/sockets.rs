//! Who listens where, and who is connected to whom, by network namespace.

use crate::snapshot::ListenEndpoint;
use kneepoint_linux::network::{parse_address, socket_table};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::net::{IpAddr, Ipv6Addr};

/// How it is known that one asks another, where an open connection says so.
pub(crate) const CONNECTED: &str = "a connection";
/// Most descriptors of a process that are looked at.
const DESCRIPTORS: usize = 20_000;

/// The sockets of a network namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Net {
    /// What takes connections, by inode.
    pub(crate) listeners: HashMap<u64, ListenEndpoint>,
    /// What is connected: own port and peer, by inode.
    pub(crate) connected: HashMap<u64, (u16, ListenEndpoint)>,
    /// Connections in TIME_WAIT, by peer.
    pub(crate) time_wait: BTreeMap<ListenEndpoint, u64>,
    /// Addresses of the namespace.
    pub(crate) addresses: HashSet<IpAddr>,
}

impl Net {
    /// The namespace that a process is in.
    pub(crate) fn of(pid: u32) -> Self {
        let read = |name: &str| socket_table(pid, name);
        let mut net = Self::default();
        for name in ["tcp", "tcp6"] {
            read(name).lines().skip(1).for_each(|line| net.tcp(line));
        }
        read("unix").lines().skip(1).for_each(|line| net.unix(line));
        net.addresses.extend(local_addresses(&read("fib_trie")));
        net.addresses
            .extend(read("if_inet6").lines().filter_map(|line| {
                let bits = u128::from_str_radix(line.get(..32)?, 16).ok()?;
                Some(IpAddr::from(Ipv6Addr::from(bits)))
            }));
        net
    }

    /// A line of `/proc/net/tcp` (proc_pid_net(5)).
    fn tcp(&mut self, line: &str) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (Some(local), Some(peer), Some(state)) = (fields.get(1), fields.get(2), fields.get(3))
        else {
            return;
        };
        let (Some((local_ip, local_port)), Some((peer_ip, peer_port))) =
            (parse_address(local), parse_address(peer))
        else {
            return;
        };
        let inode = fields
            .get(9)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        let peer = ListenEndpoint::Tcp(peer_ip.to_string(), peer_port);
        match *state {
            "01" => drop(self.connected.insert(inode, (local_port, peer))),
            "06" => *self.time_wait.entry(peer).or_default() += 1,
            "0A" => {
                let host = match local_ip.is_unspecified() {
                    true => "*".to_owned(),
                    false => local_ip.to_string(),
                };
                self.listeners
                    .insert(inode, ListenEndpoint::Tcp(host, local_port));
            }
            _ => {}
        }
    }

    /// A line of `/proc/net/unix`: a stream socket with a path that accepts connections.
    fn unix(&mut self, line: &str) {
        let mut fields = line.split_ascii_whitespace();
        let (flags, kind, inode) = (fields.nth(3), fields.next(), fields.nth(1));
        let path = fields.next().filter(|path| path.starts_with('/'));
        // __SO_ACCEPTCON and SOCK_STREAM.
        if let (Some("00010000"), Some("0001"), Some(inode), Some(path)) =
            (flags, kind, inode, path)
            && let Ok(inode) = inode.parse()
        {
            self.listeners
                .insert(inode, ListenEndpoint::Unix(path.to_owned()));
        }
    }
}

/// Addresses of the namespace itself, from the routing table of IPv4.
fn local_addresses(fib_trie: &str) -> Vec<IpAddr> {
    let lines: Vec<&str> = fib_trie.lines().map(str::trim).collect();
    let pairs = lines.windows(2).filter(|pair| pair[1] == "/32 host LOCAL");
    pairs
        .filter_map(|pair| pair[0].strip_prefix("|-- ")?.parse().ok())
        .collect()
}

/// The inodes of the sockets that a process holds. `None` where that may not be seen.
pub(crate) fn inodes(pid: u32) -> Option<HashSet<u64>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let inode = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        let inode = target
            .to_str()?
            .strip_prefix("socket:[")?
            .strip_suffix(']')?;
        inode.parse().ok()
    };
    Some(entries.take(DESCRIPTORS).filter_map(inode).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_by_state() {
        let mut net = Net::default();
        for line in [
            "   0: 0100007F:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000  33  0 4711 1 0 100 0",
            "   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000   0  0 4712 1 0 100 0",
            "   2: 0100007F:D431 0100007F:18EB 01 00000000:00000000 00:00000000 00000000  33  0 4713 1 0 20 4",
            "   3: 0100007F:D432 0100007F:18EB 06 00000000:00000000 03:000013F0 00000000   0  0 0 3 0",
            "   4: odd",
        ] {
            net.tcp(line);
        }
        net.unix("0000: 00000002 00000000 00010000 0001 01 4714 /run/php.sock");
        net.unix("0000: 00000003 00000000 00000000 0001 03 4715 /run/php.sock");
        let listens = |inode: u64| net.listeners.get(&inode).map(ToString::to_string);
        assert_eq!(listens(4711).as_deref(), Some("127.0.0.1:9000"));
        assert_eq!(listens(4712).as_deref(), Some("*:80"));
        assert_eq!(listens(4714).as_deref(), Some("/run/php.sock"));
        assert_eq!(listens(4715), None);
        let (port, peer) = &net.connected[&4713];
        assert_eq!(
            (*port, peer.to_string().as_str()),
            (0xd431, "127.0.0.1:6379")
        );
        assert_eq!(net.time_wait[peer], 1);
    }

    #[test]
    fn a_namespace_has_the_addresses_that_are_its_own() {
        let trie =
            "  |-- 172.18.0.2\n     /32 host LOCAL\n  |-- 172.18.0.255\n     /32 link BROADCAST\n";
        assert_eq!(local_addresses(trie), [IpAddr::from([172, 18, 0, 2])]);
    }
}
