//! Ten thousand visitors who mostly think: connections that are open and idle, on a real nginx.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts its own server and ends it by its process id"
)]

mod common;

use common::{closed, hold_invariants, http, shown};
use kneepoint_load::{Engine, Progress, fetch};
use kneepoint_model::{ClosedLoop, Request, ThinkTime};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const CONNECTIONS: u32 = 10_000;
const PATIENCE: Duration = Duration::from_secs(20);

/// An nginx of this test that can hold all connections, ended with it.
struct Nginx {
    address: SocketAddr,
    master: Child,
    _dir: TempDir,
}

impl Nginx {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let probe = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = probe.local_addr().expect("bound");
        drop(probe);
        let root = dir.path().display();
        let config = format!(
            "daemon off;\nuser root;\nworker_processes 1;\nworker_rlimit_nofile 12000;\npid {root}/nginx.pid;\n\
             error_log {root}/nginx.log;\nevents {{ worker_connections 11000; }}\n\
             http {{\n access_log off;\n client_body_temp_path {root}/body;\n proxy_temp_path {root}/proxy;\n\
             fastcgi_temp_path {root}/fastcgi;\n uwsgi_temp_path {root}/uwsgi;\n scgi_temp_path {root}/scgi;\n\
             keepalive_timeout 300s;\n\
             server {{\n listen {address} backlog=4096;\n location / {{ return 200 \"ok\"; }}\n\
             location = /status {{ stub_status; }}\n }}\n}}\n"
        );
        let path = dir.path().join("nginx.conf");
        fs::write(&path, config).expect("written");
        let master = Command::new("nginx")
            .arg("-p")
            .arg(dir.path())
            .arg("-c")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("nginx: {error}; run scripts/install-deps"));
        let nginx = Self {
            address,
            master,
            _dir: dir,
        };
        let began = Instant::now();
        while nginx.active().is_none() {
            assert!(began.elapsed() < PATIENCE, "nginx does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
        nginx
    }

    /// Connections that nginx says are open: of `Active connections: 10001`, the number.
    fn active(&self) -> Option<u32> {
        let request = Request::get("/status");
        let fetched = fetch(&http(self.address), &request, None, PATIENCE).ok()?;
        let body = String::from_utf8_lossy(&fetched.body).into_owned();
        let line = body.lines().next()?;
        line.rsplit(": ").next()?.trim().parse().ok()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master ends its worker when it is asked to, and orphans it when it is killed.
        let _ = kill_process(Pid::from_child(&self.master), Signal::TERM);
        let _ = self.master.wait();
    }
}

#[test]
fn ten_thousand_connections_stay_open_while_their_workers_think() {
    let nginx = Nginx::start();
    let mut plan = closed(
        http(nginx.address),
        ClosedLoop {
            ramp: Duration::from_secs(2),
            think_time: ThinkTime::Fixed(Duration::from_secs(3)),
            loops: Some(2),
            ..ClosedLoop::new(CONNECTIONS, Duration::from_secs(60))
        },
    );
    plan.slo.timeout = PATIENCE;
    let active = Mutex::new(None);
    let look = |progress: &Progress| {
        let mut active = active.lock().expect("lock");
        if active.is_none() && progress.connections_open >= u64::from(CONNECTIONS) {
            *active = nginx.active();
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
    let active = active.lock().expect("lock").expect("all were open at once");
    assert!(active >= CONNECTIONS, "nginx sees {active}");
}
