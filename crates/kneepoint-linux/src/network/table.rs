//! The socket tables of `/proc/PID/net`.

use std::fmt::Display;
use std::fs::File;
use std::io::Read as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most bytes of a table that are read: some 400 000 sockets.
const TABLE_BYTES: u64 = 64 << 20;

/// The table `name` (such as `tcp6`) in the network of a process, by its id or `self`. Empty where it cannot be read.
#[must_use]
pub fn socket_table(process: impl Display, name: &str) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{process}/net/{name}")) {
        // Half a table is better than none.
        let _ = file.take(TABLE_BYTES).read_to_end(&mut bytes);
    }
    // A socket's name is any bytes, and hides no other socket.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An address of the tables (proc_pid_net(5)): its words in the order of the machine, and the port.
#[must_use]
pub fn parse_address(text: &str) -> Option<(IpAddr, u16)> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(ip.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip = match ip.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (at, four) in bytes.chunks_exact_mut(4).enumerate() {
                four.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    Some((ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_text_hides_no_socket() {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;
        use std::os::unix::net::UnixListener;
        let dir = tempfile::tempdir().expect("a directory");
        let own = dir.path().join("own.sock");
        let odd = dir.path().join(OsStr::from_bytes(b"\xff.sock"));
        let _listening = [&own, &odd].map(|path| UnixListener::bind(path).expect("bound"));
        let table = socket_table("self", "unix");
        assert!(table.contains(own.to_str().expect("text")));
    }

    #[test]
    fn addresses_of_ipv6_are_read_in_words() {
        let loopback = "00000000000000000000000001000000:0050";
        assert_eq!(
            parse_address(loopback).expect("read").0,
            IpAddr::from(Ipv6Addr::LOCALHOST)
        );
        let mapped = "0000000000000000FFFF00000100007F:0050";
        assert_eq!(
            parse_address(mapped).expect("read").0,
            IpAddr::from(Ipv4Addr::LOCALHOST)
        );
        assert_eq!(parse_address("0:50"), None);
    }
}
