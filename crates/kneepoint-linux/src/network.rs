//! What the kernel counts and allows in a network namespace.

mod listener;
mod table;

use crate::file::{number, read, words};

pub use listener::{ListeningProcess, listeners};
pub use table::{parse_address, socket_table};

/// A table of `/proc/PID/net/snmp` or `netstat`: the number below a column.
#[must_use]
pub fn parse_counter(bytes: &[u8], table: &str, column: &str) -> Option<u64> {
    let prefix = format!("{table}:");
    let mut lines = bytes
        .split(|b| *b == b'\n')
        .filter_map(|line| line.strip_prefix(prefix.as_bytes()));
    let at = words(lines.next()?).position(|word| word == column.as_bytes())?;
    number(words(lines.next()?).nth(at)?)
}

/// Connections in TIME_WAIT in the network of a process; `None` when it is gone.
#[must_use]
pub fn closed_connections(pid: u32) -> Option<u64> {
    time_wait_of(&read(&format!("/proc/{pid}/net/sockstat")).ok()?)
}

/// Bytes that the interfaces of a network namespace received and sent, by `/proc/PID/net/dev`; its own loopback is no link.
#[must_use]
pub fn parse_traffic(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut total = None;
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            continue;
        };
        if line[..colon].trim_ascii() == b"lo" {
            continue;
        }
        let mut columns = words(&line[colon + 1..]);
        let received = number(columns.next()?)?;
        let sent = number(columns.nth(7)?)?;
        let (all_received, all_sent) = total.unwrap_or((0_u64, 0_u64));
        total = Some((
            all_received.saturating_add(received),
            all_sent.saturating_add(sent),
        ));
    }
    total
}

/// The number behind `tw` in the line `TCP:` of `/proc/PID/net/sockstat`.
fn time_wait_of(sockstat: &[u8]) -> Option<u64> {
    let mut lines = sockstat.split(|byte| *byte == b'\n');
    let tcp = lines.find_map(|line| line.strip_prefix(b"TCP:"))?;
    let mut words = words(tcp).skip_while(|word| *word != b"tw");
    words.nth(1).and_then(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counters_are_found_by_column() {
        let text =
            b"Ip: A B\nIp: 1 2\nTcp: RtoMin MaxConn ActiveOpens RetransSegs\nTcp: 200 -1 17 4\n";
        assert_eq!(parse_counter(text, "Tcp", "ActiveOpens"), Some(17));
        assert_eq!(parse_counter(text, "Tcp", "RetransSegs"), Some(4));
        assert_eq!(parse_counter(text, "TcpExt", "ListenDrops"), None);
    }

    #[test]
    fn traffic_is_that_of_all_links() {
        let text = b"Inter-|   Receive                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n    \
             lo:  900 9 0 0 0 0 0 0 900 9 0 0 0 0 0 0\n  \
             eth0: 1500 2 0 0 0 0 0 0 70 1 0 0 0 0 0 0\n  \
             eth1:5 2 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n";
        assert_eq!(parse_traffic(text), Some((1505, 77)));
        assert_eq!(parse_traffic(b"a\nb\n    lo: 1 1 0 0 0 0 0 0 1 1\n"), None);
    }

    #[test]
    fn closed_connections_are_counted_as_the_kernel_prints_them() {
        let text =
            b"sockets: used 9\nTCP: inuse 4 orphan 0 tw 186 alloc 5 mem 0\nUDP: inuse 0 mem 0\n";
        assert_eq!(time_wait_of(text), Some(186));
        assert_eq!(time_wait_of(b"sockets: used 9\n"), None);
        assert!(closed_connections(std::process::id()).is_some());
        assert_eq!(closed_connections(u32::MAX), None);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in "[A-Za-z0-9: \n]{0,300}") {
            for bytes in [&bytes[..], text.as_bytes()] {
                let _ = parse_counter(bytes, "Tcp", "ActiveOpens");
                time_wait_of(bytes);
            }
        }
    }
}
