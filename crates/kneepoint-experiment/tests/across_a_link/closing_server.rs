//! A server that answers one request a connection, and either closes it or leaves that to the client.

use libtest_mimic::Failed;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello";
/// Connections that are held for the client to close. The client's patience is a second, and there are fewer than
/// this many in it.
const HELD: usize = 6000;

pub(crate) struct ClosingServer {
    pub(crate) address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ClosingServer {
    /// Listens in a network namespace.
    pub(crate) fn start(netns: &Path, address: IpAddr, closes: bool) -> Result<Self, Failed> {
        let netns = File::open(netns)?;
        let over = Arc::new(AtomicBool::new(false));
        let (bound, binding) = mpsc::channel();
        let ended = over.clone();
        let thread = std::thread::spawn(move || {
            let listener =
                move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))
                    .map_err(std::io::Error::from)
                    .and_then(|()| TcpListener::bind((address, 0)));
            let listener = match listener {
                Ok(listener) => listener,
                Err(error) => {
                    let _ = bound.send(Err(error));
                    return;
                }
            };
            let _ = bound.send(listener.local_addr());
            serve(&listener, closes, &ended);
        });
        Ok(Self {
            address: binding.recv()??,
            over,
            thread: Some(thread),
        })
    }
}

fn serve(listener: &TcpListener, closes: bool, over: &AtomicBool) {
    // The end is announced by a flag, and nobody may connect to wake the loop from another namespace.
    let _ = listener.set_nonblocking(true);
    let mut held: VecDeque<TcpStream> = VecDeque::new();
    while !over.load(Ordering::Relaxed) {
        let Ok((mut stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        };
        let _ = stream.set_nonblocking(false);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let mut request = [0; 1024];
        let _ = stream.read(&mut request);
        let _ = stream.write_all(RESPONSE);
        if !closes {
            held.push_back(stream);
        }
        if held.len() > HELD {
            held.pop_front();
        }
    }
}

impl Drop for ClosingServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
