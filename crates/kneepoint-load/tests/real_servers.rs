//! The engine against a real nginx and a real PHP-FPM, over every kind of door they have.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts its own servers and ends them by their process id"
)]

use crate::common;
use crate::common::nginx::{Blocks, Nginx};
use crate::common::{even, free_address, run, shown};
use kneepoint_load::{LoadPlan, Mode, Target, ceiling, fetch};
use kneepoint_model::{
    Address, ClosedLoop, Outcome, Request, Script, Sessions, ThinkTime, Validity,
};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
/// Workers of each pool of the site.
const WORKERS: u16 = 4;
const PAGE: &str = "<?php
session_start();
$_SESSION['visits'] = ($_SESSION['visits'] ?? 0) + 1;
if (isset($_GET['warn'])) { error_log('the page complains'); }
if (isset($_GET['sleep'])) { usleep((int) $_GET['sleep']); }
echo $_SERVER['REQUEST_METHOD'], ' ', $_SERVER['REQUEST_URI'], ' visits=', $_SESSION['visits'],
    ' posted=', $_POST['name'] ?? '-', ' script=', $_SERVER['SCRIPT_NAME'], ' root=', $_SERVER['DOCUMENT_ROOT'];
";

const SERVER_PAGE: &str = "<?php foreach ($_SERVER as $name => $value) { if (is_string($value)) { echo \"$name=$value\\n\"; } }";

/// A server of this test, ended with it.
struct Running(Child);

impl Running {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self(child.unwrap_or_else(|error| panic!("{program}: {error}; run scripts/install-deps")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The master ends its workers when it is asked to, and orphans them when it is killed.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// nginx and FPM in a private directory.
struct Site {
    dir: TempDir,
    http: SocketAddr,
    fpm_tcp: SocketAddr,
    fpm_unix: PathBuf,
    _fpm: [Running; 2],
    _nginx: Nginx,
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

fn start_fpm(dir: &Path, name: &str, listen: &str) -> Running {
    let root = dir.display();
    let config = format!(
        "[global]\nerror_log = {root}/{name}.log\ndaemonize = no\n\
         [www]\nuser = root\ngroup = root\nlisten = {listen}\npm = static\npm.max_children = {WORKERS}\n\
         catch_workers_output = no\n\
         php_admin_value[session.save_path] = {root}/sessions\nphp_admin_value[error_log] =\n"
    );
    let config = write(dir, &format!("{name}.conf"), &config);
    Running::start("php-fpm8.2", &["-R", "-n", "-F", "-y", &config])
}

fn start_nginx(dir: &Path, fpm: &Path) -> Nginx {
    let server = format!(
        "server_name site.test;\n root {};\n location / {{ try_files $uri /index.php$is_args$args; }}\n\
         location ~ \\.php$ {{ include /etc/nginx/fastcgi.conf; fastcgi_pass unix:{}; }}",
        dir.join("public").display(),
        fpm.display()
    );
    Nginx::with(&Blocks {
        events: "worker_connections 512;",
        http: "access_log off;\n keepalive_requests 7;",
        server: &server,
    })
}

impl Site {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("temporary directory");
        fs::create_dir_all(dir.path().join("public")).expect("created");
        fs::create_dir_all(dir.path().join("sessions")).expect("created");
        write(dir.path(), "public/index.php", PAGE);
        write(dir.path(), "public/server.php", SERVER_PAGE);
        write(
            dir.path(),
            "public/page.html",
            &"<p>static</p>\n".repeat(40),
        );
        let fpm_tcp = free_address();
        let fpm_unix = dir.path().join("fpm.sock");
        let unix = fpm_unix.to_str().expect("UTF-8").to_owned();
        let fpm = [
            start_fpm(dir.path(), "fpm-unix", &unix),
            start_fpm(dir.path(), "fpm-tcp", &fpm_tcp.to_string()),
        ];
        let nginx = start_nginx(dir.path(), &fpm_unix);
        let http = nginx.address;
        let site = Self {
            dir,
            http,
            fpm_tcp,
            fpm_unix,
            _fpm: fpm,
            _nginx: nginx,
        };
        for target in site.targets() {
            await_answer(&target);
        }
        site
    }

    fn fast_cgi(&self, address: Address, keep_conn: bool) -> Target {
        let public = self.dir.path().join("public");
        Target::fastcgi(address, public.join("index.php"), public).with_keep_alive(keep_conn)
    }

    /// Every door of the site: HTTP with and without keep-alive, FastCGI over TCP and Unix likewise.
    fn targets(&self) -> Vec<Target> {
        let http = |keep_alive| {
            Target::http(Address::Tcp(self.http), "site.test").with_keep_alive(keep_alive)
        };
        let tcp = || Address::Tcp(self.fpm_tcp);
        let unix = || Address::Unix(self.fpm_unix.clone());
        vec![
            http(true),
            http(false),
            self.fast_cgi(tcp(), false),
            self.fast_cgi(tcp(), true),
            self.fast_cgi(unix(), false),
            self.fast_cgi(unix(), true),
        ]
    }
}

fn await_answer(target: &Target) {
    let began = Instant::now();
    loop {
        match fetch(target, &Request::get("/hello"), None, PATIENCE) {
            Ok(fetched) if fetched.status == 200 => return,
            other if began.elapsed() > PATIENCE => panic!("{target:?}: {other:?}"),
            _ => thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn plan(target: Target, request: Request) -> LoadPlan {
    // A kept FastCGI connection holds a worker. On a busy machine more of them would be opened than there are workers, and
    // what is sent on the others would wait until it times out.
    let holds_workers = matches!(
        target,
        Target::FastCgi {
            keep_conn: true,
            ..
        }
    );
    let mut plan = even(target, "const(60,1)");
    plan.workload.requests = vec![request];
    plan.slo.timeout = PATIENCE;
    if holds_workers {
        plan.max_connections = WORKERS.into();
    }
    plan
}

#[test]
fn every_door_answers_every_kind_of_request() {
    let site = Site::start();
    let root = site.dir.path().join("public").display().to_string();
    for target in site.targets() {
        let mut get = Request::get("/shop?q=1");
        get.expect.body_contains = vec![format!(
            "GET /shop?q=1 visits=1 posted=- script=/index.php root={root}"
        )];
        let point = run(&plan(target.clone(), get));
        assert_eq!(
            shown(&point),
            "ok 60 | 200: 60",
            "{target:?}: {:?}",
            point.examples
        );

        let mut post = Request::get("/login");
        post.method.0 = "POST".into();
        // Larger than a FastCGI record.
        post.body = Some(format!("name=ada&filler={}", "x".repeat(100_000)).into());
        post.expect.body_contains = vec!["POST /login visits=1 posted=ada".into()];
        let point = run(&plan(target.clone(), post));
        assert_eq!(
            shown(&point),
            "ok 60 | 200: 60",
            "{target:?}: {:?}",
            point.examples
        );

        let mut head = Request::get("/");
        head.method.0 = "HEAD".into();
        assert_eq!(shown(&run(&plan(target, head))), "ok 60 | 200: 60");
    }
}

#[test]
fn sessions_live_in_their_jars() {
    let site = Site::start();
    for target in site.targets() {
        let mut request = Request::get("/");
        request.session = true;
        // 60 requests over 5 users who take turns, one request at a time: everybody's last visit is the twelfth.
        let mut plan = plan(target.clone(), request);
        plan.mode = Mode::Closed(ClosedLoop {
            requests: Some(60),
            ..ClosedLoop::new(1, Duration::from_secs(60))
        });
        plan.workload.users = 5;
        plan.workload.requests[0].expect.body_contains = vec!["visits=12 ".into()];
        let point = run(&plan);
        let twelfth = point.outcomes.of(Outcome::Ok);
        assert_eq!(
            (twelfth, point.outcomes.of(Outcome::WrongBody)),
            (5, 55),
            "{target:?}"
        );
    }
}

#[test]
fn a_visit_is_one_session_of_php() {
    let site = Site::start();
    for target in site.targets() {
        // Three pages in order. Only the visitor's session can know which one is next.
        let pages = (1..=3).map(|visits| {
            let mut request = Request::get("/");
            request.expect.body_contains = vec![format!("visits={visits} ")];
            request
        });
        let mut plan = plan(target.clone(), Request::get("/"));
        plan.mode = even(target.clone(), "const(50,0.4) const(0,1)").mode;
        plan.workload.requests = pages.collect();
        plan.workload.sessions = Some(Sessions {
            scripts: vec![Script {
                name: "three pages".into(),
                weight: 1.0,
                requests: vec![0, 1, 2],
            }],
            think_time: ThinkTime::Fixed(Duration::from_millis(5)),
            ..Sessions::default()
        });
        let point = run(&plan);
        assert_eq!(
            shown(&point),
            "ok 60 | 200: 60",
            "{target:?}: {:?}",
            point.examples
        );
        let visits = point.sessions.expect("visits");
        assert_eq!((visits.started, visits.completed), (20, 20), "{target:?}");
    }
}

#[test]
fn what_php_complains_of_is_shown() {
    let site = Site::start();
    let target = site.fast_cgi(Address::Unix(site.fpm_unix.clone()), false);
    let point = run(&plan(target, Request::get("/?warn=1")));
    assert_eq!(shown(&point), "ok 60 | 200: 60");
    let complaint = "GET /?warn=1: FastCGI stderr: PHP message: the page complains";
    assert_eq!(point.examples, [complaint]);
}

/// What PHP is told by nginx with Debian's `fastcgi.conf`, it is told by the engine.
#[test]
fn php_is_told_what_nginx_would_tell_it() {
    let site = Site::start();
    let mut request = Request::get("/server.php?a=1&b=%20");
    request.method.0 = "POST".into();
    request.headers = vec![
        ("Host".into(), "site.test".into()),
        ("X-Two-Words".into(), "yes".into()),
    ];
    request.body = Some("name=ada".to_owned().into());
    let seen = |target: &Target| -> BTreeMap<String, String> {
        let fetched = fetch(target, &request, None, PATIENCE).expect("answers");
        let text = String::from_utf8_lossy(&fetched.body).into_owned();
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    };
    let through_nginx = Target::http(Address::Tcp(site.http), "site.test");
    let unix = Address::Unix(site.fpm_unix.clone());
    let (told, ours) = (seen(&through_nginx), seen(&site.fast_cgi(unix, false)));
    assert!(told.len() > 25, "{told:?}");
    assert_eq!(
        told.keys().collect::<Vec<_>>(),
        ours.keys().collect::<Vec<_>>()
    );
    // Of these, each has its own.
    let own = [
        "REMOTE_PORT",
        "SERVER_PORT",
        "SERVER_SOFTWARE",
        "REQUEST_TIME",
    ];
    for (name, value) in told
        .iter()
        .filter(|(name, _)| !own.contains(&name.as_str()))
    {
        assert_eq!(ours.get(name), Some(value), "{name}");
    }
    assert!(
        ours["SERVER_SOFTWARE"].starts_with("nginx"),
        "applications look for it"
    );
}

/// What a FastCGI server says when it ends a request without serving it.
#[test]
fn refusals_in_the_words_of_fastcgi_are_outcomes() {
    for (protocol_status, outcome, says) in [
        (1, "protocol error 10 | ", "cannot multiplex"),
        (2, "refused 10 | ", "overloaded"),
        (3, "protocol error 10 | ", "role of a responder"),
    ] {
        let server = common::Server::start(move |mut peer| {
            let mut request = [0; 4096];
            let count = peer.stream.read(&mut request).unwrap_or(0);
            assert!(count > 16, "a whole request");
            let end = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, protocol_status, 0, 0, 0];
            let _ = peer.stream.write_all(&end);
        });
        let target = Target::fastcgi(Address::Tcp(server.address), "/srv/index.php", "/srv");
        let point = run(&even(target, "const(50,0.2)"));
        assert_eq!(shown(&point), outcome, "{:?}", point.examples);
        assert!(point.examples[0].contains(says), "{:?}", point.examples);
    }
}

#[test]
fn connections_are_kept_as_asked() {
    let site = Site::start();
    let opened = |target| run(&plan(target, Request::get("/"))).connections_opened;
    let targets = site.targets();
    let [http_keep, http_close, _, tcp_keep, unix_close, unix_keep] = &targets[..] else {
        panic!("six doors");
    };
    // keepalive_requests 7: nginx says `Connection: close` in the seventh response.
    let kept = opened(http_keep.clone());
    assert!((9..40).contains(&kept), "{kept}");
    assert_eq!(opened(http_close.clone()), 60);
    assert_eq!(opened(unix_close.clone()), 60);
    for target in [tcp_keep, unix_keep] {
        // One worker serves a kept connection, so there are at most as many as workers.
        let kept = opened(target.clone());
        assert!(kept <= 4, "{kept}");
    }
}

#[test]
fn a_full_pool_shows_as_waiting_from_the_intended_start() {
    let site = Site::start();
    let target = site.fast_cgi(Address::Unix(site.fpm_unix.clone()), false);
    // 4 workers at 100 ms each serve 40 per second; 60 are offered.
    let point = run(&plan(target, Request::get("/?sleep=100000")));
    assert_eq!(point.outcomes.of(Outcome::Ok), 60, "{}", shown(&point));
    let (early, late) = (0.1, 0.95);
    let at = |q| point.response.quantile_ms(q).expect("responses");
    assert!(
        at(late) > 2.0 * at(early),
        "the queue grew: {} to {}",
        at(early),
        at(late)
    );
}

/// A network namespace of this test, removed with it.
struct Namespace(String);

impl Namespace {
    fn create() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::SeqCst);
        let name = format!("kp-load-{}-{count}", std::process::id());
        let ip = |arguments: &[&str]| {
            let status = Command::new("ip").args(arguments).status();
            assert!(
                status.is_ok_and(|s| s.success()),
                "ip {arguments:?}; run as root with iproute2"
            );
        };
        ip(&["netns", "add", &name]);
        let namespace = Self(name);
        ip(&["-n", &namespace.0, "link", "set", "lo", "up"]);
        namespace
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.0)
    }

    /// Runs something on a thread that is in the namespace, and so are the threads it starts.
    fn within<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let visit = scope.spawn(|| {
                let file = fs::File::open(self.path()).expect("the namespace is there");
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), network).expect("entered as root");
                inside()
            });
            visit.join().expect("what runs inside holds")
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

#[test]
fn load_comes_from_inside_a_namespace() {
    let namespace = Namespace::create();
    let path = namespace.path();
    let inside = ceiling(1, Some(&path), Duration::from_millis(300)).expect("lo is up");
    assert!(inside > 100.0, "{inside}");

    // This server listens outside, where nobody in the namespace can reach it.
    let server = common::Server::answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let mut plan = even(server.target(), "const(50,0.2)");
    assert_eq!(shown(&run(&plan)), "ok 10 | 200: 10");
    plan.netns = Some(path.clone());
    assert_eq!(shown(&run(&plan)), "refused 10 | ");
    let error =
        fetch(&server.target(), &Request::get("/"), Some(&path), PATIENCE).expect_err("outside");
    assert!(error.to_string().contains("connecting"), "{error}");
}

#[test]
fn each_source_address_has_local_ports_of_its_own() {
    let namespace = Namespace::create();
    let point = namespace.within(|| {
        let server = common::Server::start(|mut peer| while peer.request().is_some() {});
        let range = "/proc/sys/net/ipv4/ip_local_port_range";
        fs::write(range, "40000 40003").expect("the range of this namespace");
        let mut plan = even(server.target(), "const(50,0.4)");
        plan.slo.timeout = Duration::from_secs(1);
        plan.netns = Some(namespace.path());
        plan.source_addresses = [2, 3, 4].map(|last| IpAddr::from([127, 0, 0, last])).into();
        let point = run(&plan);
        fs::write(range, "32768 60999").expect("back, for the server's own end");
        point
    });
    // Four ports for each of three addresses: twelve connections, which nobody serves.
    assert_eq!(point.outcomes.of(Outcome::Timeout), 12, "{}", shown(&point));
    assert_eq!(point.outcomes.of(Outcome::NoLocalPort), 8);
}

#[test]
fn running_out_of_local_ports_is_the_generators_failure() {
    let namespace = Namespace::create();
    let point = namespace.within(|| {
        let server = common::Server::start(|mut peer| while peer.request().is_some() {});
        let range = "/proc/sys/net/ipv4/ip_local_port_range";
        fs::write(range, "40000 40003").expect("the range of this namespace");
        let mut plan = even(server.target(), "const(50,0.4)");
        plan.slo.timeout = Duration::from_secs(1);
        plan.netns = Some(namespace.path());
        let point = run(&plan);
        fs::write(range, "32768 60999").expect("back, for the server's own end");
        point
    });
    assert!(
        point.outcomes.of(Outcome::Timeout) <= 4,
        "{}",
        shown(&point)
    );
    assert!(
        point.outcomes.of(Outcome::NoLocalPort) >= 16,
        "{}",
        shown(&point)
    );
    let Validity::Invalid { because } = &point.validity else {
        panic!("the number says nothing about the server");
    };
    assert!(because[0].contains("no local port"), "{because:?}");
    assert!(
        point.examples[0].contains("connecting to"),
        "{:?}",
        point.examples
    );
}
