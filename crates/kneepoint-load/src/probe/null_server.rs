//! A server that does nothing, to find out how fast the generator itself is.

use crate::connection::namespace;
use crate::engine::Engine;
use crate::plan::{LoadError, LoadPlan, Mode, Target};
use kneepoint_model::{Address, ClosedLoop, Request, Slo, Workload};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, getsockname,
    ipproto, listen, recv, send, socket_with,
};
use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const LISTENER: u64 = u64::MAX;
/// How soon the server notices that it shall end.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};
const MOST_CONNECTIONS: usize = 4096;
/// Enough to keep a thread busy; more would only queue.
const WORKERS_PER_THREAD: u32 = 16;

/// How many requests per second this generator reaches with so many threads against a server that does
/// nothing, in the same network namespace. A load at more than a third of it measures the generator
/// (method.md, section 6).
///
/// Runs a closed loop for `duration`; a second is enough. On a machine with few cores the server takes its share
/// of them, as the system under test will.
///
/// # Errors
/// The namespace cannot be entered, or its loopback is down.
pub fn ceiling(threads: usize, netns: Option<&Path>, duration: Duration) -> Result<f64, LoadError> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (ready, address) = mpsc::channel();
        let stop_server = &stop;
        let server = scope.spawn(move || serve(netns, &ready, stop_server));
        let measured = match address.recv() {
            Ok(address) => measure(address, threads, netns, duration),
            // The server could not start and says why.
            Err(_) => Ok(0.0),
        };
        stop.store(true, Ordering::Relaxed);
        match server.join() {
            Ok(served) => served.and(measured),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn measure(
    address: SocketAddr,
    threads: usize,
    netns: Option<&Path>,
    duration: Duration,
) -> Result<f64, LoadError> {
    let target = Target::http(Address::Tcp(address), "localhost");
    let workload = Workload {
        requests: vec![Request::get("/")],
        users: 1,
        sessions: None,
        feeders: Vec::new(),
    };
    let workers = WORKERS_PER_THREAD * threads as u32;
    let mode = Mode::Closed(ClosedLoop::new(workers, duration));
    let plan = LoadPlan {
        threads,
        netns: netns.map(Path::to_owned),
        slo: Slo::default(),
        ..LoadPlan::new(target, workload, mode)
    };
    Engine::run(&plan, &|_| {}, &AtomicBool::new(false)).map(|point| point.throughput_hz())
}

/// Answers every request until told to stop.
fn serve(
    netns: Option<&Path>,
    ready: &mpsc::Sender<SocketAddr>,
    stop: &AtomicBool,
) -> Result<(), LoadError> {
    let error = |source: Errno| LoadError::System {
        what: "the null server on the loopback".into(),
        source,
        instead: "check that the namespace's loopback is up: `ip link set lo up`",
    };
    namespace::enter(netns)?;
    let (listener, address) = open_listener().map_err(error)?;
    let watcher = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(error)?;
    let listening = epoll::EventData::new_u64(LISTENER);
    epoll::add(&watcher, &listener, listening, epoll::EventFlags::IN).map_err(error)?;
    let _ = ready.send(address);
    let mut connections: HashMap<u64, OwnedFd> = HashMap::new();
    let mut admitted = 0;
    let mut events = Vec::with_capacity(256);
    let mut buffer = vec![0; 64 << 10];
    while !stop.load(Ordering::Relaxed) {
        match epoll::wait(&watcher, spare_capacity(&mut events), Some(&LOOK_EVERY)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(source) => return Err(error(source)),
        }
        for event in events.drain(..) {
            let token = event.data.u64();
            if token == LISTENER {
                admit(&listener, &watcher, &mut connections, &mut admitted);
            } else if let Some(fd) = connections.get(&token)
                && !answer(fd, &mut buffer)
            {
                connections.remove(&token);
            }
        }
    }
    Ok(())
}

fn open_listener() -> Result<(OwnedFd, SocketAddr), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let protocol = Some(ipproto::TCP);
    let listener = socket_with(AddressFamily::INET, SocketType::STREAM, flags, protocol)?;
    bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    listen(&listener, 1024)?;
    let address = SocketAddr::try_from(getsockname(&listener)?)?;
    Ok((listener, address))
}

fn admit(
    listener: &OwnedFd,
    watcher: &OwnedFd,
    connections: &mut HashMap<u64, OwnedFd>,
    admitted: &mut u64,
) {
    while let Ok(fd) = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        if connections.len() >= MOST_CONNECTIONS {
            continue;
        }
        *admitted += 1;
        let data = epoll::EventData::new_u64(*admitted);
        if epoll::add(watcher, &fd, data, epoll::EventFlags::IN).is_ok() {
            connections.insert(*admitted, fd);
        }
    }
}

/// Answers what has come; false when the connection is over. The generator sends one request at a time and each
/// fits the buffer, so a read is a request.
fn answer(fd: impl AsFd, buffer: &mut [u8]) -> bool {
    match recv(&fd, buffer, RecvFlags::empty()) {
        Ok((count, _)) if count > 0 => send(&fd, RESPONSE, SendFlags::NOSIGNAL).is_ok(),
        Err(Errno::AGAIN | Errno::INTR) => true,
        Ok(_) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_is_what_the_loop_reached() {
        let ceiling = ceiling(1, None, Duration::from_millis(200)).expect("loopback works");
        // Far below what any machine reaches: that requests were answered at all, at more than a trickle.
        assert!(ceiling > 100.0, "{ceiling}");
    }

    #[test]
    fn a_namespace_that_is_not_there_is_named() {
        let missing = Path::new("/run/netns/no-such-namespace");
        let error = ceiling(1, Some(missing), Duration::from_millis(50)).expect_err("missing");
        assert!(error.to_string().contains("no-such-namespace"), "{error}");
    }
}
