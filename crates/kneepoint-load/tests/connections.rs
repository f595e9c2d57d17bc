//! Connections: the addresses of this host that they come from, and ten thousand that are open and idle while visitors
//! think, on a real nginx.

mod common;

use common::nginx::Nginx;
use common::{Server, closed, even, hold_invariants, run, shown};
use kneepoint_load::{Engine, LoadPlan, Progress, Target, fetch};
use kneepoint_model::{Address, ClosedLoop, Request, ThinkTime};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CONNECTIONS: u32 = 10_000;
const PATIENCE: Duration = Duration::from_secs(20);

fn local(last: u8) -> IpAddr {
    Ipv4Addr::new(127, 0, 0, last).into()
}

#[test]
fn new_connections_come_from_all_addresses_in_turn() {
    let seen: Arc<Mutex<BTreeMap<IpAddr, u32>>> = Arc::default();
    let from = seen.clone();
    let server = Server::start(move |mut peer| {
        let address = peer.stream.peer_addr().expect("connected");
        // Each connection serves once, so that each request has a new one.
        if peer.request().is_some() {
            *from.lock().expect("lock").entry(address.ip()).or_default() += 1;
            peer.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    for threads in [1, 2] {
        seen.lock().expect("lock").clear();
        let mut plan = even(server.target(), "const(60,0.5)");
        plan.threads = threads;
        plan.source_addresses = [2, 3, 4].map(local).into();
        assert_eq!(shown(&run(&plan)), "ok 30 | 200: 30");
        let expected = [2, 3, 4].map(|last| (local(last), 10));
        let seen = seen.lock().expect("lock").clone();
        assert_eq!(seen, BTreeMap::from(expected), "{threads} threads");
    }
}

#[test]
fn without_a_choice_the_system_chooses() {
    let seen: Arc<Mutex<Vec<IpAddr>>> = Arc::default();
    let from = seen.clone();
    let server = Server::start(move |mut peer| {
        let address = peer.stream.peer_addr().expect("connected");
        from.lock().expect("lock").push(address.ip());
        while peer.request().is_some() {
            peer.ok("ok");
        }
    });
    run(&even(server.target(), "const(50,0.1)"));
    assert_eq!(*seen.lock().expect("lock"), [local(1)]);
}

#[test]
fn addresses_that_cannot_be_are_refused_with_what_to_do() {
    let server = Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let check = |change: &dyn Fn(&mut LoadPlan), says: &str| {
        let mut plan = even(server.target(), "const(1,1)");
        change(&mut plan);
        let error = Engine::run(&plan, &|_| {}, &AtomicBool::new(false)).expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
    };
    check(
        &|p| p.source_addresses = vec![local(2), Ipv4Addr::new(203, 0, 113, 7).into()],
        "sending from 203.0.113.7",
    );
    check(
        &|p| p.source_addresses = vec![Ipv6Addr::LOCALHOST.into()],
        "use addresses of the target's family",
    );
    check(
        &|p| {
            p.source_addresses = vec![local(2)];
            let Target::Http { address, .. } = &mut p.target else {
                unreachable!("the target is HTTP")
            };
            *address = Address::Unix("/run/x.sock".into());
        },
        "source addresses for the Unix socket",
    );
    assert_eq!(server.requests(), 0);
}

/// Connections that nginx says are open: of `Active connections: 10001`, the number.
fn active(nginx: &Nginx) -> Option<u32> {
    let request = Request::get("/status");
    let fetched = fetch(&nginx.target(), &request, None, PATIENCE).ok()?;
    let body = String::from_utf8_lossy(&fetched.body).into_owned();
    let line = body.lines().next()?;
    line.rsplit(": ").next()?.trim().parse().ok()
}

#[test]
fn ten_thousand_connections_stay_open_while_their_workers_think() {
    let nginx = Nginx::start(
        "worker_connections 11000;",
        "keepalive_timeout 300s; location = /status { stub_status; }",
    );
    let mut plan = closed(
        nginx.target(),
        ClosedLoop {
            ramp: Duration::from_secs(3),
            think_time: ThinkTime::Fixed(Duration::from_secs(4)),
            loops: Some(2),
            ..ClosedLoop::new(CONNECTIONS, Duration::from_secs(60))
        },
    );
    "/page.html".clone_into(&mut plan.workload.requests[0].path);
    plan.slo.timeout = PATIENCE;
    let seen = Mutex::new(None);
    let look = |progress: &Progress| {
        let mut seen = seen.lock().expect("lock");
        if seen.is_none() && progress.connections_open >= u64::from(CONNECTIONS) {
            *seen = active(&nginx);
        }
    };
    let point = Engine::run(&plan, &look, &AtomicBool::new(false)).expect("the load runs");
    hold_invariants(&plan, &point);
    assert_eq!(
        shown(&point),
        "ok 20000 | 200: 20000",
        "{:?}",
        point.examples
    );
    assert_eq!(
        point.connections_opened,
        u64::from(CONNECTIONS),
        "the second request of a worker goes out on the connection of its first"
    );
    let seen = seen.lock().expect("lock").expect("all were open at once");
    assert!(seen >= CONNECTIONS, "nginx sees {seen}");
}
