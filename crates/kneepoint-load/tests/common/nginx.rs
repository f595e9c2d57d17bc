//! An nginx of the test's own, on a free port and in a private directory, ended with the test by its process id.

#![allow(
    clippy::disallowed_methods,
    reason = "a test starts its own servers and ends them by their process id"
)]

use super::{free_address, http};
use kneepoint_load::Target;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    pub(crate) dir: TempDir,
    master: Child,
}

/// What stands in the blocks of a configuration. `ROOT` is the directory of the server.
#[derive(Default)]
pub(crate) struct Blocks<'t> {
    pub(crate) events: &'t str,
    pub(crate) http: &'t str,
    pub(crate) server: &'t str,
}

impl Nginx {
    /// One worker process that serves `page.html`. `events` and `server` are more lines for these two blocks.
    pub(crate) fn start(events: &str, server: &str) -> Self {
        let server = format!("root ROOT;\n {server}");
        Self::with(&Blocks {
            events,
            http: "access_log off;\n keepalive_requests 1000000;",
            server: &server,
        })
    }

    /// One worker process.
    pub(crate) fn with(blocks: &Blocks<'_>) -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        let address = free_address();
        fs::write(dir.path().join("page.html"), "<p>static</p>\n".repeat(40)).expect("written");
        let Blocks {
            events,
            http,
            server,
        } = blocks;
        let config = format!(
            "daemon off;\nuser root;\nworker_processes 1;\nworker_rlimit_nofile 16384;\npid ROOT/nginx.pid;\n\
             events {{ {events} }}\n\
             http {{\n client_body_temp_path ROOT/body;\n proxy_temp_path ROOT/proxy;\n\
             fastcgi_temp_path ROOT/fastcgi;\n uwsgi_temp_path ROOT/uwsgi;\n scgi_temp_path ROOT/scgi;\n\
             types {{ text/html html; }}\n {http}\n server {{\n listen {address};\n {server}\n }}\n}}\n"
        )
        .replace("ROOT", &dir.path().display().to_string());
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
        nginx.await_listener();
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

    fn await_listener(&self) {
        let began = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(began.elapsed() < PATIENCE, "nginx does not listen");
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
