//! Ports of loopback for the servers that tests start. Every crate's tests share this file.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// A port of loopback that nobody has now, and that this process has not named before.
///
/// It lies below the range from which the kernel takes ports by itself: the listener or the connection of another test
/// must not have it before the server does for which it is meant, nor while nobody is meant to listen there.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = std::process::id() as u16 % 400 * 25;
    loop {
        let port = 20_000 + (first + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
