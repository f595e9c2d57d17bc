//! An nginx of the test's own, on a free port and in a private directory, ended with the test by its process id.

#![allow(
    clippy::disallowed_methods,
    reason = "a test starts its own servers and ends them by their process id"
)]

use super::http;
use kneepoint_load::{Target, fetch};
use kneepoint_model::Request;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    pub(crate) dir: TempDir,
    master: Child,
}

impl Nginx {
    /// One worker process that serves `page.html`. `events` and `server` are more lines for these two blocks.
    pub(crate) fn start(events: &str, server: &str) -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let address = TcpListener::bind("127.0.0.1:0")
            .and_then(|probe| probe.local_addr())
            .expect("loopback");
        let root = dir.path().display();
        fs::write(dir.path().join("page.html"), "<p>static</p>\n".repeat(40)).expect("written");
        let config = format!(
            "daemon off;\nuser root;\nworker_processes 1;\nworker_rlimit_nofile 16384;\npid {root}/nginx.pid;\n\
             events {{ {events} }}\n\
             http {{\n access_log off;\n client_body_temp_path {root}/body;\n proxy_temp_path {root}/proxy;\n\
             fastcgi_temp_path {root}/fastcgi;\n uwsgi_temp_path {root}/uwsgi;\n scgi_temp_path {root}/scgi;\n\
             keepalive_requests 1000000;\n types {{ text/html html; }}\n\
             server {{\n listen {address};\n root {root};\n {server}\n }}\n}}\n"
        );
        let path = dir.path().join("nginx.conf");
        fs::write(&path, config).expect("written");
        let master = Command::new("nginx")
            .arg("-p")
            .arg(dir.path())
            .arg("-e")
            .arg(dir.path().join("nginx.log"))
            .arg("-c")
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("nginx: {error}; run scripts/install-deps"));
        let nginx = Self {
            address,
            dir,
            master,
        };
        nginx.await_answer();
        nginx
    }

    pub(crate) fn target(&self) -> Target {
        http(self.address)
    }

    /// The process that answers.
    pub(crate) fn worker(&self) -> Pid {
        let children = format!("/proc/{0}/task/{0}/children", self.master.id());
        let children = fs::read_to_string(children).expect("the master runs");
        let first = children.split_whitespace().next().expect("a worker");
        Pid::from_raw(first.parse().expect("a process id")).expect("not 0")
    }

    fn await_answer(&self) {
        let began = Instant::now();
        let request = Request::get("/page.html");
        while fetch(&self.target(), &request, None, Duration::from_secs(1)).is_err() {
            assert!(began.elapsed() < PATIENCE, "nginx does not answer");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master ends its workers when it is asked to, and orphans them when it is killed.
        let _ = kill_process(Pid::from_child(&self.master), Signal::TERM);
        let _ = self.master.wait();
    }
}
