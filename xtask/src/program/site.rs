//! What is loaded: nginx with a static page, and PHP-FPM with a `hello.php` behind it, in a private directory on a
//! free port of loopback. They end when the site is dropped.

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::hash_map::RandomState;
use std::fmt::Write as _;
use std::fs;
use std::hash::BuildHasher as _;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long a server may take to come up, and to answer a request that is not part of a load.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a server may take to end; then it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// The static page has about as many bytes as the one nginx itself comes with.
const PAGE_LINE: &str = "<p>A page that nginx serves from a file.</p>\n";
const PAGE_LINES: usize = 13;
const HELLO: &str = "<?php echo 'hello';\n";
/// Some milliseconds of calls: functions, methods, closures, a recursion, and functions of PHP itself.
const BUSY: &str = r#"<?php
class Order {
    private $lines = [];
    public function add($price) { $this->lines[] = $this->round($price); return $this; }
    private function round($price) { return floor($price * 100 + 0.5) / 100; }
    public function total() { return array_sum(array_map(fn ($line) => $line * 1.2, $this->lines)); }
}
function fib($n) { return $n < 2 ? $n : fib($n - 1) + fib($n - 2); }
function orders($n) {
    for ($i = 0, $sum = 0; $i < $n; $i++) {
        $sum += (new Order)->add($i * 0.37)->add($i * 1.73)->total();
    }
    return $sum;
}
echo 'busy ', fib(17), ' ', round(orders(800)), ' ', strlen(md5(str_repeat('x', 2000)));
"#;
/// Where Debian keeps servers, which a user's PATH may lack.
const SERVER_DIRS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// What the site must bear.
pub(crate) struct Plan {
    /// Worker processes of nginx.
    pub(crate) workers: usize,
    /// Connections that may be open at once.
    pub(crate) connections: usize,
    /// Workers of PHP-FPM; without any there is no PHP.
    pub(crate) php_workers: usize,
}

/// The running site.
pub(crate) struct Site {
    address: SocketAddr,
    nonce: String,
    // Ended before the directory goes.
    servers: Vec<Server>,
    _dir: TempDir,
}

impl Site {
    /// Starts the servers and waits until they answer.
    ///
    /// # Errors
    /// nginx or PHP-FPM is not installed, does not come up, or somebody else answers on its port.
    pub(crate) fn start(plan: &Plan) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("kneepoint-site-")
            .tempdir()?;
        let root = dir.path();
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let nonce = format!("{:016x}", RandomState::new().hash_one(address));
        let public = root.join("public");
        fs::create_dir(&public)?;
        fs::write(public.join("index.html"), PAGE_LINE.repeat(PAGE_LINES))?;
        fs::write(public.join("hello.php"), HELLO)?;
        fs::write(public.join("busy.php"), BUSY)?;
        fs::write(public.join("nonce"), &nonce)?;
        let php = plan.php_workers > 0;
        let mut servers = Vec::new();
        if php {
            servers.push(start_fpm(root, plan.php_workers)?);
        }
        servers.push(start_nginx(root, address, plan)?);
        let mut site = Self {
            address,
            nonce,
            servers,
            _dir: dir,
        };
        site.await_answer(php)?;
        Ok(site)
    }

    /// The URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The process id of the master of PHP-FPM; `None` without PHP.
    pub(crate) fn fpm(&self) -> Option<Pid> {
        let fpm = self.servers.iter().find(|server| server.name == "fpm")?;
        Some(Pid::from_child(&fpm.child))
    }

    /// Makes sure that the port still is this site's, and nobody else's.
    ///
    /// # Errors
    /// What answers does not know the nonce of this site.
    pub(crate) fn verify(&self) -> anyhow::Result<()> {
        let (status, body) = get(self.address, "/nonce")
            .with_context(|| format!("nothing answers on {} any more", self.address))?;
        ensure!(
            status == 200 && body == self.nonce,
            "another server answers on {}: no load goes there",
            self.address
        );
        Ok(())
    }

    /// How many requests nginx was sent so far.
    ///
    /// # Errors
    /// It does not answer, or not as ngx_http_stub_status_module does.
    pub(crate) fn requests(&self) -> anyhow::Result<u64> {
        let (_, body) = get(self.address, "/status").context("nginx tells no status")?;
        // Its third line: connections accepted, connections handled, requests.
        let counts = body.lines().nth(2);
        let requests = counts.and_then(|counts| counts.split_ascii_whitespace().nth(2));
        requests
            .and_then(|requests| requests.parse().ok())
            .with_context(|| format!("nginx tells no count of requests: {body}"))
    }

    fn await_answer(&mut self, php: bool) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let page = if php { "/hello.php" } else { "/index.html" };
            let ready = get(self.address, page).is_ok_and(|(status, _)| status == 200);
            if ready {
                return self.verify();
            }
            for server in &mut self.servers {
                server.still_runs()?;
            }
            ensure!(
                began.elapsed() < PATIENCE,
                "{page} does not answer: {}",
                self.servers.iter().map(Server::words).collect::<String>()
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A server that ends with this value.
struct Server {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Server {
    fn start(name: &'static str, root: &Path, command: &mut Command) -> anyhow::Result<Self> {
        let log = root.join(format!("{name}.log"));
        let output = fs::File::options().create(true).append(true).open(&log)?;
        let child = command
            // A Ctrl-C of the terminal reaches this program alone, which ends its servers.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .with_context(|| format!("{name} cannot be started"))?;
        Ok(Self { name, child, log })
    }

    fn still_runs(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended with {status}: {}", self.name, self.words()),
        }
    }

    /// What it wrote into its log.
    fn words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&text).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The master ends its workers when it is asked to, and orphans them when it is killed.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if asked.elapsed() > GRACE {
                let _ = self.child.kill();
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn start_nginx(root: &Path, address: SocketAddr, plan: &Plan) -> anyhow::Result<Server> {
    let program = find("nginx").context("nginx is not installed; run scripts/install-deps")?;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    let files = limit.unwrap_or(1 << 20);
    // Each worker must be able to hold all connections, for they are not dealt out evenly.
    let connections = plan.connections + 512;
    ensure!(
        (connections as u64) < files,
        "{connections} connections need as many open files, and a process may have {files}: raise `ulimit -Hn`"
    );
    let user = if rustix::process::geteuid().is_root() {
        // The private directory is its owner's alone.
        "user root;\n"
    } else {
        ""
    };
    let (dir, workers) = (root.display(), plan.workers);
    let mut config = format!(
        "daemon off;\n{user}worker_processes {workers};\nworker_rlimit_nofile {files};\npid {dir}/nginx.pid;\n\
         error_log {dir}/nginx.log;\n\
         events {{ worker_connections {connections}; multi_accept on; }}\n\
         http {{\n access_log off;\n sendfile on;\n tcp_nopush on;\n open_file_cache max=16;\n\
         keepalive_requests 1000000000;\n keepalive_timeout 1h;\n types {{ text/html html; }}\n"
    );
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        writeln!(config, " {kind}_temp_path {dir}/{kind};")?;
    }
    let listen = if workers > 1 { " reuseport" } else { "" };
    writeln!(
        config,
        " server {{\n listen {address} backlog=65535{listen};\n root {dir}/public;\n location = /status {{ stub_status; }}\n \
         location ~ \\.php$ {{"
    )?;
    for (name, value) in [
        ("SCRIPT_FILENAME", "$document_root$fastcgi_script_name"),
        ("QUERY_STRING", "$query_string"),
        ("REQUEST_METHOD", "$request_method"),
        ("CONTENT_TYPE", "$content_type"),
        ("CONTENT_LENGTH", "$content_length"),
        ("SCRIPT_NAME", "$fastcgi_script_name"),
        ("REQUEST_URI", "$request_uri"),
        ("DOCUMENT_ROOT", "$document_root"),
        ("SERVER_PROTOCOL", "$server_protocol"),
        ("REMOTE_ADDR", "$remote_addr"),
    ] {
        writeln!(config, "  fastcgi_param {name} {value};")?;
    }
    writeln!(config, "  fastcgi_pass unix:{dir}/fpm.sock;\n }}\n }}\n}}")?;
    let file = root.join("nginx.conf");
    fs::write(&file, config)?;
    let mut command = Command::new(program);
    Server::start(
        "nginx",
        root,
        command.arg("-p").arg(root).arg("-c").arg(file),
    )
}

fn start_fpm(root: &Path, workers: usize) -> anyhow::Result<Server> {
    let program = find("php-fpm").context("PHP-FPM is not installed; run scripts/install-deps")?;
    let dir = root.display();
    let user = if rustix::process::geteuid().is_root() {
        "user = root\ngroup = root\n"
    } else {
        ""
    };
    let config = format!(
        "[global]\nerror_log = {dir}/fpm.log\ndaemonize = no\n\
         [www]\n{user}listen = {dir}/fpm.sock\nlisten.backlog = 1024\npm = static\n\
         pm.max_children = {workers}\n"
    );
    let file = root.join("fpm.conf");
    fs::write(&file, config)?;
    let mut command = Command::new(program);
    // -n: no php.ini, so that the figures do not depend on the extensions of a machine.
    let arguments = if user.is_empty() {
        &["-n", "-F", "-y"][..]
    } else {
        &["-R", "-n", "-F", "-y"]
    };
    Server::start("fpm", root, command.args(arguments).arg(file))
}

/// A program by its name, or by the beginning of its name with a version behind it (`php-fpm8.2`), on the PATH or
/// where servers are.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(SERVER_DIRS.map(PathBuf::from))
        .collect();
    let exact = dirs
        .iter()
        .map(|dir| dir.join(name))
        .find(|at| at.is_file());
    exact.or_else(|| dirs.iter().find_map(|dir| newest(dir, name)))
}

/// The last of the programs `NAME8.2`, `NAME8.4` of a directory.
fn newest(dir: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(dir).ok()?;
    let versions = entries.filter_map(|entry| {
        let file = entry.ok()?.file_name();
        let version = file.to_str()?.strip_prefix(name)?.to_owned();
        let is_version = version.starts_with(|c: char| c.is_ascii_digit())
            && version.chars().all(|c| c.is_ascii_digit() || c == '.');
        is_version.then_some(version)
    });
    versions
        .max()
        .map(|version| dir.join(format!("{name}{version}")))
}

/// Status and body of a single GET.
fn get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let status = response
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok());
    let body = response
        .split_once("\r\n\r\n")
        .map(|(_, body)| body.to_owned());
    status.zip(body).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer is not an HTTP response",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_a_version_in_their_name_are_found() {
        let dir = tempfile::tempdir().expect("directory");
        for name in ["php-fpm8.2", "php-fpm8.4", "php-fpm-old", "php"] {
            fs::write(dir.path().join(name), "").expect("file");
        }
        let found = newest(dir.path(), "php-fpm").expect("is there");
        assert!(found.ends_with("php-fpm8.4"), "{found:?}");
        assert_eq!(newest(dir.path(), "nginx"), None);
    }

    #[test]
    fn the_site_answers_and_knows_itself() {
        let plan = Plan {
            workers: 1,
            connections: 16,
            php_workers: 2,
        };
        let mut site = Site::start(&plan).expect("nginx and PHP-FPM");
        let answer = |path| get(site.address, path).expect("answers");
        assert_eq!(answer("/hello.php"), (200, "hello".into()));
        let (status, page) = answer("/index.html");
        assert_eq!((status, page.len()), (200, PAGE_LINE.len() * PAGE_LINES));
        site.verify().expect("it is itself");
        site.nonce = "another".into();
        let refused = site.verify().expect_err("another site's nonce");
        assert!(refused.to_string().contains("another server"), "{refused}");
    }
}
