//! A server outside the stack that takes its time, for applications that ask somebody else within a request.

use anyhow::Context as _;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Stack of a thread that answers one request: many wait at once.
const STACK_BYTES: usize = 64 * 1024;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers every request after a while until it is dropped.
pub(super) struct Helper {
    /// Where it listens.
    pub(super) address: SocketAddr,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts it on a free port of loopback.
    ///
    /// # Errors
    /// There is no port, or no thread.
    pub(super) fn start(delay: Duration) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port for the helper")?;
        let address = listener.local_addr()?;
        let ended = Arc::new(AtomicBool::new(false));
        let end = Arc::clone(&ended);
        let thread = thread::Builder::new().spawn(move || {
            for stream in listener.incoming().flatten() {
                if end.load(Ordering::Relaxed) {
                    break;
                }
                let answer = move || {
                    // A client that went away has nobody to be told.
                    let _ = answer(stream, delay);
                };
                // Without a thread the connection is closed, as an overloaded server would.
                let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn(answer);
            }
        })?;
        Ok(Self {
            address,
            ended,
            thread: Some(thread),
        })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread, which waits for the next connection. When it cannot be woken it is left to end with the bench.
        if TcpStream::connect(self.address).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, delay: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut part)? {
            0 => return Ok(()),
            read => request.extend_from_slice(&part[..read]),
        }
    }
    thread::sleep(delay);
    stream.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\nConnection: close\r\n\r\n{\"version\":\"1.0\"}",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn it_answers_many_at_once_and_each_after_a_while() {
        let delay = Duration::from_millis(300);
        let helper = Helper::start(delay).expect("starts");
        let address = helper.address;
        let ask = move || {
            let began = Instant::now();
            let mut stream = TcpStream::connect(address).expect("connects");
            stream
                .write_all(b"GET / HTTP/1.0\r\n\r\n")
                .expect("is sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("is answered");
            assert!(answer.ends_with("{\"version\":\"1.0\"}"), "{answer}");
            began.elapsed()
        };
        let began = Instant::now();
        let clients: Vec<_> = (0..16).map(|_| thread::spawn(ask)).collect();
        for client in clients {
            assert!(client.join().expect("answered") >= delay);
        }
        // One after the other would take 16 times the delay.
        assert!(began.elapsed() < delay * 8);
    }
}
