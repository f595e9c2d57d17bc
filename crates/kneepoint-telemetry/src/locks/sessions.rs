//! Sessions of a database, and which PHP worker is at the other end of each.

use kneepoint_linux::SockDiag;
use kneepoint_linux::sock_diag::ESTABLISHED;
use kneepoint_model::{Address, Layer, LockKind, RunningTier};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A session, as its database tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) id: u64,
    /// The port its connection comes from.
    pub(super) port: Option<u16>,
    pub(super) doing: String,
}

/// One session waits for another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SessionWait {
    pub(super) waiter: Session,
    pub(super) holder: Session,
    pub(super) kind: LockKind,
    pub(super) object: String,
}

/// Finds the workers behind ports.
#[derive(Debug)]
pub(super) struct Sessions {
    netns: Option<PathBuf>,
    database: Vec<SocketAddr>,
    diag: Option<SockDiag>,
}

impl Sessions {
    pub(super) fn of(php: &RunningTier) -> Self {
        let database = php
            .peers
            .iter()
            .filter_map(|(layer, address)| match address {
                Address::Tcp(address) if *layer == Layer::Db => Some(*address),
                _ => None,
            });
        Self {
            netns: php.netns.clone(),
            database: database.collect(),
            diag: None,
        }
    }

    /// The worker that has each port of a connection to the database.
    pub(super) fn workers_by_port(&mut self, workers: &[u32]) -> HashMap<u16, u32> {
        let ports = self.ports();
        if ports.is_empty() {
            return HashMap::new();
        }
        let sockets = workers.iter().flat_map(|pid| {
            let inodes = sockets_of(*pid);
            inodes.into_iter().map(move |inode| (inode, *pid))
        });
        sockets
            .filter_map(|(inode, pid)| Some((*ports.get(&inode)?, pid)))
            .collect()
    }

    /// The local ports of connections to the database, by inode.
    fn ports(&mut self) -> HashMap<u64, u16> {
        let mut ports = HashMap::new();
        if self.database.is_empty() {
            return ports;
        }
        if self.diag.is_none() {
            self.diag = SockDiag::open(self.netns.as_deref()).ok();
        }
        let Some(diag) = &mut self.diag else {
            return ports;
        };
        let v6 = self.database.iter().any(SocketAddr::is_ipv6);
        let asked = diag.tcp(v6, &[ESTABLISHED], &self.database, |socket| {
            ports.insert(u64::from(socket.inode), socket.local.port());
        });
        if asked.is_err() {
            self.diag = None;
        }
        ports
    }
}

/// Inodes of the sockets that a process has open.
fn sockets_of(pid: u32) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else {
        return Vec::new();
    };
    let links = entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    links
        .filter_map(|link| {
            let inode = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
            inode.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_port_of_a_connection_leads_to_its_process() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let address = listener.local_addr().expect("an address");
        let connection = TcpStream::connect(address).expect("a connection");
        let port = connection.local_addr().expect("an address").port();
        let own = std::process::id();
        let mut tier = crate::source::tests::tier_without_doors(own);
        tier.peers = vec![(Layer::Db, Address::Tcp(address))];
        let found = Sessions::of(&tier).workers_by_port(&[own]);
        assert_eq!(found.get(&port), Some(&own));
        tier.peers.clear();
        assert!(Sessions::of(&tier).workers_by_port(&[own]).is_empty());
    }
}
