//! What the kernel does for a proxy (field report S4): with too few kept connections it looks for local ports, with enough
//! of them it does not. Real nginx, in a network of the test's own.

use kneepoint_model::Layer;
use kneepoint_model::account::NativeAccount;
use kneepoint_profiler::sample_cpu;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const WEB: &str = "127.0.0.1:8081";
const PROXY: &str = "127.0.0.1:8080";
/// Visitors at once: far more connections than the poor proxy keeps.
const VISITORS: usize = 16;
const LOADED: Duration = Duration::from_secs(3);

/// A server of a private directory, in a network where few local ports are left; it ends with the test.
struct Server {
    process: Child,
    dir: tempfile::TempDir,
}

impl Server {
    #[expect(
        clippy::disallowed_methods,
        reason = "the profiler knows no lab: its tests start servers themselves"
    )]
    /// Starts nginx with this in its `http` block; `network` is a process whose network it shares, else it gets its own.
    fn start(http: &str, network: Option<u32>) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let place = dir.path().display();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {place}/{name};"))
            .concat();
        let config = format!(
            "daemon off; worker_processes 1; user root; pid {place}/pid; error_log /dev/null crit;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; keepalive_requests 1000000; {temporary} {http} }}\n"
        );
        fs::write(dir.path().join("nginx.conf"), config).expect("written");
        let begin = match network {
            Some(pid) => format!("exec nsenter --net=/proc/{pid}/ns/net"),
            // Closed connections keep their ports for a minute, and there are few ports: what takes a busy proxy a minute
            // shows at once.
            None => "exec unshare --net sh -c 'ip link set lo up && echo 32768 36863 > \
                     /proc/sys/net/ipv4/ip_local_port_range && echo 0 > /proc/sys/net/ipv4/tcp_tw_reuse && exec \"$@\"' --"
                .to_owned(),
        };
        let process = Command::new("/bin/sh")
            .args([
                "-c",
                &format!("{begin} nginx -e stderr -c {place}/nginx.conf"),
            ])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a shell");
        Self { process, dir }
    }

    /// Waits until it serves.
    fn ready(&self) {
        let until = Instant::now() + Duration::from_secs(20);
        while !fs::read_to_string(self.dir.path().join("pid")).is_ok_and(|pid| !pid.is_empty()) {
            assert!(Instant::now() < until, "nginx does not start");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn network(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.process.id()).into()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let master = rustix::process::Pid::from_child(&self.process);
        let _ = rustix::process::kill_process(master, rustix::process::Signal::QUIT);
        let until = Instant::now() + Duration::from_secs(5);
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Visitors who ask again and again on a connection each, until it is enough.
fn visit(network: &Path, stop: &AtomicBool) {
    thread::scope(|scope| {
        for _ in 0..VISITORS {
            scope.spawn(|| {
                kneepoint_linux::namespace::enter_path(Some(network)).expect("the network");
                let mut connection = TcpStream::connect(PROXY).expect("a connection");
                let mut answer = [0; 4096];
                while !stop.load(Ordering::Relaxed) {
                    let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
                    let asked = connection.write_all(request);
                    let read = asked.and_then(|()| connection.read(&mut answer));
                    if !read.is_ok_and(|bytes| bytes > 0) {
                        connection = TcpStream::connect(PROXY).expect("a connection");
                    }
                }
            });
        }
    });
}

/// What the CPU of a proxy that keeps so many connections goes into; nothing where the kernel does not let us look.
fn proxy_that_keeps(connections: u32) -> Option<NativeAccount> {
    let page = format!("server {{ listen {WEB} backlog=1024; location / {{ return 200 x; }} }}");
    let web = Server::start(&page, None);
    web.ready();
    let passing = format!(
        "upstream web {{ server {WEB} max_fails=0; keepalive {connections}; }}\n\
         server {{ listen {PROXY} backlog=1024; location / {{ proxy_pass http://web; proxy_http_version 1.1; \
         proxy_set_header Connection ''; }} }}"
    );
    let proxy = Server::start(&passing, Some(web.process.id()));
    proxy.ready();
    let stop = AtomicBool::new(false);
    let network = web.network();
    let tiers = [(Layer::Proxy, proxy.process.id())];
    let profile = thread::scope(|scope| {
        scope.spawn(|| visit(&network, &stop));
        let sampler = scope.spawn(|| sample_cpu(&tiers, &stop));
        thread::sleep(LOADED);
        stop.store(true, Ordering::Relaxed);
        sampler.join().expect("no panic")
    });
    let accounts = profile.ok()?.accounts;
    let mut accounts = accounts.into_iter();
    accounts.find(|account| account.layer == Some(Layer::Proxy) && !account.kernel.is_empty())
}

#[test]
fn the_search_for_ports_goes_when_enough_connections_are_kept() {
    let may_look = rustix::process::geteuid().is_root() && Path::new("/usr/sbin/nginx").exists();
    if !may_look {
        return;
    }
    let (Some(poor), Some(rich)) = (proxy_that_keeps(1), proxy_that_keeps(64)) else {
        return;
    };
    let share = |account: &NativeAccount, name| account.kernel_share(name).unwrap_or(0.0);
    for name in ["__inet_hash_connect", "tcp_v4_connect", "__sys_connect"] {
        let (before, after) = (share(&poor, name), share(&rich, name));
        assert!(before > 0.5, "{name}: {before:.2}: {poor:?}");
        assert!(after < 0.05, "{name}: {after:.2}: {rich:?}");
    }
}
