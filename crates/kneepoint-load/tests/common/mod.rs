//! A scripted server on a real socket, and one way to show a load point.

#![allow(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod nginx;
#[path = "../../../../tests/ports.rs"]
mod ports;
pub(crate) mod secure_site;

use kneepoint_load::{Engine, LoadPlan, Mode, Target};
use kneepoint_model::{Address, Arrivals, ClosedLoop, LoadPoint, Outcome, Workload};
use rustix::net::sockopt::set_socket_linger;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// An address of loopback that nobody listens on.
pub(crate) fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], ports::free_port()))
}

/// One connection as the script sees it.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    /// Which connection of the server this is, from 1.
    pub(crate) number: usize,
    seen: Arc<AtomicUsize>,
    buffered: Vec<u8>,
}

impl Peer {
    /// The next request's head as text; `None` at the end of the connection.
    pub(crate) fn request(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffered.windows(4).position(|w| w == b"\r\n\r\n") {
                let head: Vec<u8> = self.buffered.drain(..end + 4).collect();
                self.seen.fetch_add(1, Ordering::SeqCst);
                return Some(String::from_utf8_lossy(&head).into_owned());
            }
            let mut piece = [0; 4096];
            match self.stream.read(&mut piece) {
                Ok(count) if count > 0 => self.buffered.extend_from_slice(&piece[..count]),
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Reads this many bytes of a body, slowly at first; how many there were.
    pub(crate) fn skip_body(&mut self, length: usize) -> usize {
        thread::sleep(Duration::from_millis(5));
        let mut have = self.buffered.len().min(length);
        self.buffered.drain(..have);
        let mut piece = vec![0; 64 << 10];
        while have < length {
            match self.stream.read(&mut piece) {
                Ok(count) if count > 0 => have += count,
                Ok(_) | Err(_) => break,
            }
        }
        have
    }

    pub(crate) fn say(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes());
    }

    /// Answers 200 with a body.
    pub(crate) fn ok(&mut self, body: &str) {
        self.say(&format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
    }

    /// Ends the connection with a reset instead of a FIN.
    pub(crate) fn reset(self) {
        let _ = set_socket_linger(&self.stream, Some(Duration::ZERO));
    }
}

/// A server that runs a script for each connection, each on its own thread, until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    ended: Arc<AtomicBool>,
    seen: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    /// Scripts that still run, and those that panicked.
    running: Arc<AtomicUsize>,
    failed: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) fn start(script: impl Fn(Peer) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let server = Self {
            address,
            ended: Arc::default(),
            seen: Arc::default(),
            connections: Arc::default(),
            running: Arc::default(),
            failed: Arc::default(),
        };
        let (ended, seen) = (server.ended.clone(), server.seen.clone());
        let connections = server.connections.clone();
        let (running, failed) = (server.running.clone(), server.failed.clone());
        let script = Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let peer = Peer {
                    stream,
                    number: connections.fetch_add(1, Ordering::SeqCst) + 1,
                    seen: seen.clone(),
                    buffered: Vec::new(),
                };
                let script = script.clone();
                let (running, failed) = (running.clone(), failed.clone());
                running.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    let run = AssertUnwindSafe(|| script(peer));
                    let panicked = usize::from(catch_unwind(run).is_err());
                    failed.fetch_add(panicked, Ordering::SeqCst);
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        server
    }

    /// Answers every request alike, for as long as the connection lasts.
    pub(crate) fn answering(response: &'static str) -> Self {
        Self::start(move |mut peer| {
            while peer.request().is_some() {
                peer.say(response);
            }
        })
    }

    pub(crate) fn target(&self) -> Target {
        http(self.address)
    }

    /// Requests read so far.
    pub(crate) fn requests(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }

    /// Connections accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.address);
        // What a script asserts about the generator counts. The generator has closed, so scripts end by themselves.
        for _ in 0..200 {
            if self.running.load(Ordering::SeqCst) == 0 {
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        if !thread::panicking() {
            assert_eq!(
                self.failed.load(Ordering::SeqCst),
                0,
                "a script's assertion failed"
            );
            assert_eq!(
                self.running.load(Ordering::SeqCst),
                0,
                "a script still waits"
            );
        }
    }
}

pub(crate) fn http(address: SocketAddr) -> Target {
    Target::http(Address::Tcp(address), "test")
}

/// An open loop with even arrivals.
pub(crate) fn even(target: Target, schedule: &str) -> LoadPlan {
    let mode = Mode::Open {
        schedule: schedule.parse().expect("a valid schedule"),
        arrivals: Arrivals::Even,
    };
    LoadPlan::new(target, Workload::single("/"), mode)
}

/// Runs a plan and checks what must hold for every load: each arrival has one outcome, here and in the seconds.
pub(crate) fn run(plan: &LoadPlan) -> LoadPoint {
    let point = Engine::run(plan, &|_| {}, &AtomicBool::new(false)).expect("the load runs");
    hold_invariants(plan, &point);
    point
}

pub(crate) fn hold_invariants(plan: &LoadPlan, point: &LoadPoint) {
    assert_eq!(
        point.outcomes.total(),
        point.arrivals,
        "every arrival ends once"
    );
    assert_eq!(point.response.count(), point.outcomes.of(Outcome::Ok));
    assert_eq!(point.service.count(), point.outcomes.of(Outcome::Ok));
    assert_eq!(point.failed_response.count(), point.outcomes.failed());
    for second in &point.seconds {
        assert_eq!(
            second.outcomes.total(),
            second.offered,
            "second {}",
            second.at_s
        );
    }
    if let Some(sessions) = &point.sessions {
        let over = sessions.completed + sessions.broken_off;
        assert!(over <= sessions.started, "{sessions:?}");
    }
    if plan.skip.is_zero() {
        let offered: u64 = point.seconds.iter().map(|s| s.offered).sum();
        assert_eq!(offered, point.arrivals);
    }
}

/// A closed loop.
pub(crate) fn closed(target: Target, closed: ClosedLoop) -> LoadPlan {
    LoadPlan::new(target, Workload::single("/"), Mode::Closed(closed))
}

/// `ok 9, reset 1 | 200: 9`.
pub(crate) fn shown(point: &LoadPoint) -> String {
    let outcomes = point.outcomes.by_outcome.iter();
    let outcomes: Vec<String> = outcomes.map(|(o, n)| format!("{} {n}", o.name())).collect();
    let statuses = point.outcomes.by_status.iter();
    let statuses: Vec<String> = statuses.map(|(s, n)| format!("{s}: {n}")).collect();
    format!("{} | {}", outcomes.join(", "), statuses.join(", "))
}
