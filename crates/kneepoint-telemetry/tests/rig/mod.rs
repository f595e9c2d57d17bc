//! A real stack in a private directory: nginx, PHP-FPM on a Unix socket, Redis and PostgreSQL, on loopback or in
//! two network namespaces of its own. Every process is ended by its PID when the rig is dropped.
#![expect(
    clippy::disallowed_methods,
    reason = "this crate knows no lab: its tests start the servers themselves"
)]

#[path = "../../../../tests/ports.rs"]
mod ports;
#[path = "../../../../tests/skipped.rs"]
mod skip;

use kneepoint_model::{
    Address, CgroupPaths, Endpoint, Layer, LogFormat, LogSource, RunningTier, ServerKind,
};
use ports::free_port;
use rustix::process::{Pid, Signal, kill_process};
pub(crate) use skip::skipped;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const NGINX: &str = "/usr/sbin/nginx";
const FPM: &str = "/usr/sbin/php-fpm8.2";
const REDIS: &str = "/usr/bin/redis-server";
const INITDB: &str = "/usr/lib/postgresql/15/bin/initdb";
const POSTGRES: &str = "/usr/lib/postgresql/15/bin/postgres";

/// What the scripts of the application do; `?do=` chooses.
const APPLICATION: &str = r#"<?php
$do = $_GET['do'] ?? '';
if ($do === 'sleep') { usleep((int) ($_GET['ms'] ?? 2000) * 1000); }
if ($do === 'spin') { $before = getrusage(); $before = $before['ru_utime.tv_sec'] * 1000 + $before['ru_utime.tv_usec'] / 1000; do { $used = getrusage(); } while ($used['ru_utime.tv_sec'] * 1000 + $used['ru_utime.tv_usec'] / 1000 - $before < (int) $_GET['ms']); }
if ($do === 'flock') { $f = fopen(__DIR__ . '/lock', 'c'); flock($f, LOCK_EX); usleep(300000); }
if ($do === 'itself') { file_get_contents('http://' . $_GET['at'] . '/?do=sleep&ms=600'); }
if ($do === 'fatal') { undefined_function(); }
if ($do === 'ping' || $do === 'pop') {
    $redis = new Redis();
    $redis->connect('REDIS_HOST', REDIS_PORT, 5.0);
    $do === 'ping' ? $redis->ping() : $redis->blPop(['nothing'], 1);
    $redis->close();
}
if ($do === 'query') { pg_query(pg_connect('host=PG_DIR port=PG_PORT user=postgres dbname=postgres'), 'select pg_sleep(1)'); }
if ($do === 'unreachable') { @stream_socket_client('tcp://10.77.1.99:5432', $code, $text, 2.0); }
echo 'done';
"#;

const PROBE: &str = r#"<?php echo json_encode(['loaded' => extension_loaded('Zend OPcache'), 'opcache' => opcache_get_status(false)]);"#;

/// How the rig is to be.
pub(crate) struct Plan {
    /// Settings of the pool: `pm = static` and so on.
    pub(crate) pool: &'static str,
    /// Whether to have PostgreSQL, which takes seconds to create.
    pub(crate) postgresql: bool,
    /// Whether PHP and Redis get namespaces of their own.
    pub(crate) namespaces: bool,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            pool: "pm = static\npm.max_children = 2\nlisten.backlog = 128",
            postgresql: false,
            namespaces: false,
        }
    }
}

/// The stack.
pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    children: Vec<(&'static str, Child)>,
    namespaces: Vec<String>,
    web_port: u16,
    redis: SocketAddr,
    pg_port: u16,
}

impl Rig {
    /// Starts the stack; `None`, with the reason printed, when a program or root is missing.
    pub(crate) fn start(plan: &Plan) -> Option<Self> {
        let mut needed = vec![NGINX, FPM, REDIS];
        needed.extend(plan.postgresql.then_some(POSTGRES));
        needed.extend(plan.namespaces.then_some("/usr/sbin/ip"));
        if let Some(missing) = needed.iter().find(|program| !Path::new(program).exists()) {
            skipped(&format!("needs {missing}"));
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            skipped("needs root: its servers change their users");
            return None;
        }
        let dir = tempfile::Builder::new()
            .prefix("kpt-")
            .tempdir()
            .expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))
            .expect("our own directory");
        let mut rig = Self {
            dir,
            children: Vec::new(),
            namespaces: Vec::new(),
            web_port: free_port(),
            redis: SocketAddr::from(([127, 0, 0, 1], free_port())),
            pg_port: free_port(),
        };
        if plan.namespaces {
            rig.make_namespaces();
        }
        rig.start_redis();
        if plan.postgresql {
            rig.start_postgresql();
        }
        rig.start_fpm(plan.pool);
        rig.start_nginx();
        Some(rig)
    }

    fn make_namespaces(&mut self) {
        let id = std::process::id() % 10_000;
        let names = [format!("kpt-{id}-php"), format!("kpt-{id}-cache")];
        for name in &names {
            ip(&["netns", "add", name]);
            self.namespaces.push(name.clone());
            ip(&["-n", name, "link", "set", "lo", "up"]);
        }
        let [php, cache] = &names;
        ip(&[
            "-n", php, "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", cache,
        ]);
        for (name, link, address) in [(php, "v0", "10.77.1.1/24"), (cache, "v1", "10.77.1.2/24")] {
            ip(&["-n", name, "addr", "add", address, "dev", link]);
            ip(&["-n", name, "link", "set", link, "up"]);
        }
        ip(&[
            "netns",
            "exec",
            php,
            "sysctl",
            "-qw",
            "net.ipv4.ip_local_port_range=20000 20999",
        ]);
        self.redis = SocketAddr::from(([10, 77, 1, 2], self.redis.port()));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A command in the namespace with this number, when there are namespaces.
    fn command(&self, namespace: usize, program: &str) -> Command {
        let Some(name) = self.namespaces.get(namespace) else {
            return Command::new(program);
        };
        let mut command = Command::new("/usr/sbin/ip");
        command.args(["netns", "exec", name, program]);
        command
    }

    fn spawn(&mut self, name: &'static str, mut command: Command, ready: impl Fn(&Self) -> bool) {
        let output =
            fs::File::create(self.path(&format!("{name}.out"))).expect("our own directory");
        let output2 = output.try_clone().expect("a descriptor");
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(output2)
            .spawn()
            .expect(name);
        self.children.push((name, child));
        let end = Instant::now() + Duration::from_secs(20);
        while !ready(self) {
            let said = || fs::read_to_string(self.path(&format!("{name}.out"))).unwrap_or_default();
            assert!(Instant::now() < end, "{name} does not come up: {}", said());
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn start_redis(&mut self) {
        let mut command = self.command(1, REDIS);
        command.args([
            "--bind",
            &self.redis.ip().to_string(),
            "--port",
            &self.redis.port().to_string(),
        ]);
        command
            .args(["--save", "", "--protected-mode", "no", "--dir"])
            .arg(self.dir.path());
        command.arg("--logfile").arg(self.path("redis.log"));
        self.spawn("redis", command, |rig| {
            fs::read_to_string(rig.path("redis.log"))
                .is_ok_and(|log| log.contains("Ready to accept"))
        });
    }

    fn start_postgresql(&mut self) {
        let id = |flag| {
            let output = Command::new("id")
                .args([flag, "postgres"])
                .output()
                .expect("id");
            String::from_utf8_lossy(&output.stdout)
                .trim()
                .parse::<u32>()
                .expect("the user postgres")
        };
        let (uid, gid) = (id("-u"), id("-g"));
        let data = self.path("pg");
        fs::create_dir(&data).expect("our own directory");
        std::os::unix::fs::chown(&data, Some(uid), Some(gid)).expect("root");
        let made = Command::new(INITDB)
            .args(["-A", "trust", "-U", "postgres", "--no-sync", "-D"])
            .arg(data.join("data"))
            .uid(uid)
            .gid(gid)
            .current_dir("/")
            .output()
            .expect("initdb");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let mut command = Command::new(POSTGRES);
        command
            .arg("-D")
            .arg(data.join("data"))
            .arg("-k")
            .arg(&data);
        command.args([
            "-p",
            &self.pg_port.to_string(),
            "-c",
            "listen_addresses=",
            "-c",
            "max_connections=12",
        ]);
        command.uid(uid).gid(gid).current_dir("/");
        let socket = data.join(format!(".s.PGSQL.{}", self.pg_port));
        self.spawn("postgresql", command, |_| {
            UnixStream::connect(&socket).is_ok()
        });
    }

    fn start_fpm(&mut self, pool: &str) {
        let dir = self.dir.path().display().to_string();
        let application = APPLICATION
            .replace("REDIS_HOST", &self.redis.ip().to_string())
            .replace("REDIS_PORT", &self.redis.port().to_string())
            .replace("PG_DIR", &format!("{dir}/pg"))
            .replace("PG_PORT", &self.pg_port.to_string());
        fs::write(self.path("index.php"), application).expect("our own directory");
        fs::write(self.path("probe.php"), PROBE).expect("our own directory");
        fs::write(self.path("lock"), "").expect("our own directory");
        fs::set_permissions(self.path("lock"), fs::Permissions::from_mode(0o666))
            .expect("our own file");
        let users =
            "user = www-data\ngroup = www-data\nlisten.owner = www-data\nlisten.mode = 0666";
        let config = format!(
            "[global]\nerror_log = {dir}/fpm.log\ndaemonize = no\npid = {dir}/fpm.pid\n\
             [www]\n{users}\nlisten = {dir}/php.sock\n{pool}\npm.status_path = /status\npm.status_listen = {dir}/status.sock\n\
             php_admin_value[error_log] = {dir}/php.log\nphp_admin_flag[log_errors] = on\n\
             [kneepoint-probe]\n{users}\nlisten = {dir}/probe.sock\npm = ondemand\npm.max_children = 1\n"
        );
        fs::write(self.path("fpm.conf"), config).expect("our own directory");
        fs::write(self.path("php.log"), "").expect("our own directory");
        fs::set_permissions(self.path("php.log"), fs::Permissions::from_mode(0o666))
            .expect("our own file");
        let mut command = self.command(0, FPM);
        command.arg("-F").arg("-y").arg(self.path("fpm.conf"));
        self.spawn("fpm", command, |rig| {
            UnixStream::connect(rig.path("status.sock")).is_ok() && rig.are_workers_titled()
        });
    }

    /// Whether the first workers are there, each with a title of its own: until then nobody knows that it is one.
    fn are_workers_titled(&self) -> bool {
        let log = fs::read_to_string(self.path("fpm.log")).unwrap_or_default();
        let pid = fs::read_to_string(self.path("fpm.pid")).unwrap_or_default();
        let pid = pid.trim().parse().unwrap_or_default();
        let title = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/cmdline"));
        let is_titled = |pid: &u32| title(pid).is_ok_and(|it| it.starts_with("php-fpm: pool "));
        let children = kneepoint_linux::process::children(pid);
        // It says so when it has started them.
        log.contains("ready to handle connections")
            && children.is_ok_and(|all| all.iter().all(is_titled))
    }

    fn start_nginx(&mut self) {
        let dir = self.dir.path().display().to_string();
        let port = self.web_port;
        let fastcgi = "fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD GET;";
        let config = format!(
            "daemon off; pid {dir}/nginx.pid; error_log {dir}/nginx.log warn; user www-data; worker_processes 1;\n\
             events {{ worker_connections 512; }}\n\
             http {{ access_log off; fastcgi_temp_path {dir}/fcgi; client_body_temp_path {dir}/body;\n\
             proxy_temp_path {dir}/proxy; scgi_temp_path {dir}/scgi; uwsgi_temp_path {dir}/uwsgi;\n\
             upstream kept {{ server unix:{dir}/php.sock; keepalive 4; }}\n\
             server {{ listen 127.0.0.1:{port};\n\
             location = /stub {{ stub_status; }}\n\
             location = /status {{ {fastcgi} fastcgi_param SCRIPT_NAME /status; fastcgi_param SCRIPT_FILENAME /status; fastcgi_pass unix:{dir}/status.sock; }}\n\
             location /kept {{ {fastcgi} fastcgi_keep_conn on; fastcgi_param SCRIPT_FILENAME {dir}/index.php; fastcgi_pass kept; }}\n\
             location / {{ {fastcgi} fastcgi_param SCRIPT_FILENAME {dir}/index.php; fastcgi_pass unix:{dir}/php.sock; }}\n\
             }} }}\n"
        );
        fs::write(self.path("nginx.conf"), config).expect("our own directory");
        let mut command = Command::new(NGINX);
        command
            .arg("-p")
            .arg(self.dir.path())
            .arg("-c")
            .arg(self.path("nginx.conf"));
        self.spawn("nginx", command, |rig| {
            TcpStream::connect(rig.web()).is_ok()
        });
    }

    pub(crate) fn web(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.web_port))
    }

    pub(crate) fn pid(&self, name: &str) -> u32 {
        self.children
            .iter()
            .find(|(n, _)| *n == name)
            .expect(name)
            .1
            .id()
    }

    /// The processes that a server has forked.
    pub(crate) fn children(&self, name: &str) -> Vec<u32> {
        let pid = self.pid(name);
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.expect("our own child");
        let pids = children.split_whitespace();
        pids.map(|pid| pid.parse().expect("a pid")).collect()
    }

    pub(crate) fn signal(&self, name: &str, signal: Signal) {
        let pid = self.pid(name);
        // A master that is killed leaves its workers behind.
        let workers = match signal {
            Signal::KILL => fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")),
            _ => Ok(String::new()),
        };
        let send = |pid: i32| kill_process(Pid::from_raw(pid).expect("a pid"), signal);
        send(i32::try_from(pid).expect("a pid")).expect("our own child");
        for worker in workers.unwrap_or_default().split_whitespace() {
            // One that has ended by itself is no matter.
            let _ = send(worker.parse().expect("a pid"));
        }
    }

    /// Waits for the end of a child that was signalled.
    pub(crate) fn wait(&mut self, name: &str) {
        let found = self
            .children
            .iter()
            .position(|(n, _)| *n == name)
            .expect(name);
        self.children.remove(found).1.wait().expect("our own child");
    }

    fn tier(&self, layer: Layer, server: &str, process: &str) -> RunningTier {
        RunningTier {
            layer,
            server: ServerKind::new(server),
            pid: self.pid(process),
            netns: None,
            cgroup: CgroupPaths::default(),
            listen: Vec::new(),
            peers: Vec::new(),
            doubles: Vec::new(),
            jobs: Vec::new(),
            endpoints: Vec::new(),
            logs: Vec::new(),
            workers: (server == "fpm").then_some(kneepoint_model::Workers::FpmPool),
        }
    }

    /// How to connect to PostgreSQL.
    pub(crate) fn database(&self) -> postgres::Config {
        let mut config = postgres::Config::new();
        config.host_path(self.path("pg")).port(self.pg_port);
        config.user("postgres").dbname("postgres");
        config
    }

    /// The stack as telemetry is told of it.
    pub(crate) fn tiers(&self) -> Vec<RunningTier> {
        let unix = |name: &str| Address::Unix(self.path(name));
        let log = |name: &str, format| LogSource {
            path: self.path(name),
            format,
        };
        let netns = |at: usize| {
            self.namespaces
                .get(at)
                .map(|name| PathBuf::from(format!("/run/netns/{name}")))
        };
        let mut web = self.tier(Layer::Web, "nginx", "nginx");
        web.listen = vec![Address::Tcp(self.web())];
        web.peers = vec![(Layer::Php, unix("php.sock"))];
        web.endpoints = vec![Endpoint::NginxStub {
            address: Address::Tcp(self.web()),
            path: "/stub".into(),
        }];
        web.logs = vec![log("nginx.log", LogFormat::NginxError)];
        let mut php = self.tier(Layer::Php, "fpm", "fpm");
        php.netns = netns(0);
        php.listen = vec![unix("php.sock")];
        php.peers = vec![
            (Layer::Cache, Address::Tcp(self.redis)),
            (Layer::Db, unix("pg")),
            (Layer::Web, Address::Tcp(self.web())),
        ];
        if !self.namespaces.is_empty() {
            php.peers[1].1 = Address::Tcp(SocketAddr::from(([10, 77, 1, 99], 5432)));
        }
        php.endpoints = vec![
            Endpoint::FpmStatus {
                address: unix("status.sock"),
                path: "/status".into(),
            },
            Endpoint::PhpProbe {
                address: unix("probe.sock"),
                script: self.path("probe.php"),
            },
        ];
        php.logs = vec![
            log("fpm.log", LogFormat::FpmError),
            log("php.log", LogFormat::PhpError),
        ];
        let mut cache = self.tier(Layer::Cache, "redis", "redis");
        cache.netns = netns(1);
        cache.listen = vec![Address::Tcp(self.redis)];
        cache.endpoints = vec![Endpoint::Redis {
            address: Address::Tcp(self.redis),
        }];
        cache.logs = vec![log("redis.log", LogFormat::Redis)];
        let mut tiers = vec![web, php, cache];
        if self.children.iter().any(|(name, _)| *name == "postgresql") {
            let mut db = self.tier(Layer::Db, "postgresql", "postgresql");
            db.listen = vec![unix(&format!("pg/.s.PGSQL.{}", self.pg_port))];
            db.endpoints = vec![Endpoint::Postgresql {
                address: unix("pg"),
                port: self.pg_port,
                user: "postgres".into(),
                database: "postgres".into(),
            }];
            db.logs = vec![log("postgresql.out", LogFormat::Postgresql)];
            tiers.push(db);
        }
        tiers
    }

    /// One request to nginx; the response, or what was read of it.
    pub(crate) fn get(&self, path: &str) -> String {
        get(self.web(), path)
    }

    /// Several clients that each make one request at once.
    pub(crate) fn clients(&self, count: usize, path: &str) -> Vec<JoinHandle<String>> {
        let (web, path) = (self.web(), path.to_owned());
        (0..count)
            .map(|_| {
                let path = path.clone();
                thread::spawn(move || get(web, &path))
            })
            .collect()
    }
}

fn get(web: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(web).expect("nginx listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("a socket");
    stream
        .write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())
        .expect("nginx reads");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn ip(args: &[&str]) {
    let status = Command::new("/usr/sbin/ip")
        .args(args)
        .status()
        .expect("ip");
    assert!(status.success(), "ip {args:?}");
}

impl Drop for Rig {
    fn drop(&mut self) {
        for (name, child) in self.children.iter_mut().rev() {
            let signal = if *name == "postgresql" {
                Signal::INT
            } else {
                Signal::TERM
            };
            if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::CONT);
                let _ = kill_process(pid, signal);
            }
            let end = Instant::now() + Duration::from_secs(5);
            while matches!(child.try_wait(), Ok(None)) {
                if Instant::now() > end {
                    let _ = child.kill();
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        for name in &self.namespaces {
            let _ = Command::new("/usr/sbin/ip")
                .args(["netns", "del", name])
                .status();
        }
    }
}
