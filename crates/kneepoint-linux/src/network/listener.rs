//! Who listens on a port of this machine.

use super::table::{parse_address, socket_table};
use crate::process;
use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;

/// A process that takes connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListeningProcess {
    /// Its process id.
    pub pid: u32,
    /// The name of its program, cut to 15 bytes.
    pub name: String,
}

/// The processes that take connections to this address in the network of this process. Empty where nobody does, and where
/// this user may not see whose a socket is.
#[must_use]
pub fn listeners(address: SocketAddr) -> Vec<ListeningProcess> {
    let tables = ["tcp", "tcp6"].map(|name| socket_table("self", name));
    let lines = tables.iter().flat_map(|text| text.lines());
    let inodes: HashSet<String> = lines
        .filter_map(|line| listening(line, address))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if inodes.is_empty() {
        return Vec::new();
    }
    let holds = |pid: &u32| {
        let entries = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut links = entries.into_iter().flatten().flatten();
        links.any(|entry| {
            let link = fs::read_link(entry.path());
            link.is_ok_and(|link| link.to_str().is_some_and(|link| inodes.contains(link)))
        })
    };
    let mut found: Vec<ListeningProcess> = process::all()
        .into_iter()
        .filter(holds)
        .filter_map(|pid| {
            Some(ListeningProcess {
                pid,
                name: process::name_of(pid)?,
            })
        })
        .collect();
    found.sort_by_key(|listener| listener.pid);
    found
}

/// The inode of the socket in a line of `/proc/net/tcp` (proc_pid_net(5)), if it takes connections to this address.
fn listening(line: &str, address: SocketAddr) -> Option<u64> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if *fields.get(3)? != "0A" {
        return None;
    }
    let (ip, port) = parse_address(fields.get(1)?)?;
    let meets = port == address.port() && (ip.is_unspecified() || ip == address.ip());
    fields.get(9)?.parse().ok().filter(|_| meets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;

    #[test]
    fn a_listener_is_found_by_its_address_and_port() {
        let line = "   0: 0100007F:2328 00000000:0000 0A 00000000:00000000 00:00000000 00000000  33  0 4711 1 0 100 0";
        let check = |line: &str, address: &str, expected: Option<u64>| {
            let found = listening(line, address.parse().expect("an address"));
            assert_eq!(found, expected, "{line} {address}");
        };
        check(line, "127.0.0.1:9000", Some(4711));
        check(line, "127.0.0.1:9001", None);
        check(line, "127.0.0.2:9000", None);
        check(&line.replace(" 0A ", " 01 "), "127.0.0.1:9000", None);
        check(
            &line.replace("0100007F", "00000000"),
            "127.0.0.2:9000",
            Some(4711),
        );
        let six = line.replace("0100007F", "00000000000000000000000001000000");
        check(&six, "[::1]:9000", Some(4711));
        check(&six, "127.0.0.1:9000", None);
    }

    #[test]
    fn this_process_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let found = listeners(address);
        assert!(
            found.iter().any(|it| it.pid == std::process::id()),
            "{found:?}"
        );
        drop(listener);
        let found = listeners(address);
        assert!(
            found.iter().all(|it| it.pid != std::process::id()),
            "{found:?}"
        );
    }

    proptest! {
        #[test]
        fn no_line_panics(line in "[0-9A-F: ]{0,150}", any in ".{0,100}") {
            let address = SocketAddr::from(([127, 0, 0, 1], 1));
            listening(&line, address);
            listening(&any, address);
        }
    }
}
