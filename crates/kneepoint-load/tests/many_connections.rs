//! Ten thousand visitors who mostly think: connections that are open and idle, on a real nginx.

mod common;

use common::nginx::Nginx;
use common::{closed, hold_invariants, shown};
use kneepoint_load::{Engine, Progress, fetch};
use kneepoint_model::{ClosedLoop, Request, ThinkTime};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const CONNECTIONS: u32 = 10_000;
const PATIENCE: Duration = Duration::from_secs(60);

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
