//! A server that answers everything, for unit tests and real-stack tests alike.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::thread;

/// Where a server listens on loopback that answers every request with `ok`, for as long as the test runs.
pub(crate) fn answering() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for peer in listener.incoming() {
            let Ok(mut peer) = peer else { return };
            thread::spawn(move || {
                let mut request = [0; 4096];
                while peer.read(&mut request).is_ok_and(|length| length > 0) {
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    if peer.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}
