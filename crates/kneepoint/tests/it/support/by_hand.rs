//! nginx and PHP-FPM as a person would start them, for commands that take what is there.

use crate::support::{apps, children, free_port, kneepoint, wait};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// nginx and PHP-FPM in a private directory, ended with the value.
pub(crate) struct ByHand {
    children: Vec<Child>,
    pub(crate) directory: tempfile::TempDir,
    port: u16,
    pub(crate) tls_port: u16,
}

impl Drop for ByHand {
    fn drop(&mut self) {
        for child in &mut self.children {
            // SIGTERM lets the master end its own workers.
            let _ = Command::new("kill").arg(child.id().to_string()).status();
            let _ = child.wait();
        }
    }
}

fn fpm_program() -> Option<String> {
    let mut found: Vec<String> = fs::read_dir("/usr/sbin")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.starts_with("/usr/sbin/php-fpm"))
        .collect();
    found.sort();
    found.pop()
}

impl ByHand {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().expect("temp dir");
        fs::set_permissions(
            directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .expect("mode");
        let (port, tls_port) = (free_port(), free_port());
        write_certificate(directory.path());
        write_configuration(directory.path(), port, tls_port);
        let quiet = |command: &mut Command| {
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("starts")
        };
        let fpm = fpm_program().expect("php-fpm is installed: make deps");
        let children = vec![
            quiet(
                Command::new(fpm)
                    .args(["-n", "-R", "-F", "-y"])
                    .arg(directory.path().join("fpm.conf")),
            ),
            quiet(
                Command::new("/usr/sbin/nginx")
                    .args(["-e", "stderr", "-c"])
                    .arg(directory.path().join("nginx.conf")),
            ),
        ];
        let servers = Self {
            children,
            directory,
            port,
            tls_port,
        };
        let began = Instant::now();
        while !servers.are_up() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "the servers do not come up: {}",
                servers.fpm_log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        servers
    }

    /// Whether nginx listens and PHP-FPM has its two workers: its socket is there before they are.
    fn are_up(&self) -> bool {
        let listens = std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok();
        listens && self.socket().exists() && children(self.fpm()).len() == 2
    }

    /// What PHP-FPM wrote, for a test that fails.
    pub(crate) fn fpm_log(&self) -> String {
        fs::read_to_string(self.directory.path().join("fpm.log")).unwrap_or_default()
    }

    /// A URL on the web server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The master of PHP-FPM.
    pub(crate) fn fpm(&self) -> u32 {
        self.children[0].id()
    }

    /// Its first pool, which no other such PHP-FPM has.
    pub(crate) fn pool(&self) -> String {
        pool_of(self.port)
    }

    /// A load of two connections that asks the application for this long, or for this many requests. It is there to be
    /// served and not to measure: with the usual 200 ms a machine that stops the generator for a moment would make it
    /// invalid, and end it with 1.
    pub(crate) fn load(&self, how_much: &[&str]) -> Command {
        let script = apps().join("plain/public/index.php").canonicalize();
        let socket = format!("unix:{}", self.socket().display());
        let mut command = kneepoint();
        command.args(["load", "--quiet", "--good", "20s", "--timeout", "20s"]);
        command
            .args(["-c", "2", "--fastcgi", &socket])
            .args(how_much);
        command.arg("--script").arg(script.expect("apps/plain"));
        command
    }

    /// The arguments of a trace of its workers that would go on for long.
    pub(crate) fn long_trace(&self) -> [String; 8] {
        let pid = self.fpm().to_string();
        [
            "profile",
            "--calls",
            "-z",
            "5m",
            "--requests",
            "10000",
            "--pid",
            &pid,
        ]
        .map(String::from)
    }

    pub(crate) fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("php.sock")
    }
}

/// Ends a load that would go on for longer than it is needed.
pub(crate) fn end(load: Child) {
    let pid = load.id().to_string();
    let _ = Command::new("kill").args(["-INT", &pid]).status();
    wait(load, Duration::from_secs(60));
}

fn pool_of(port: u16) -> String {
    format!("by-hand-{port}")
}

fn write_certificate(directory: &Path) {
    let signed =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(directory.join("cert.pem"), signed.cert.pem()).expect("cert.pem");
    fs::write(directory.join("key.pem"), signed.key_pair.serialize_pem()).expect("key.pem");
}

fn write_configuration(directory: &Path, port: u16, tls_port: u16) {
    let at = directory.display().to_string();
    let pool = pool_of(port);
    let public = apps()
        .join("plain/public")
        .canonicalize()
        .expect("apps/plain")
        .display()
        .to_string();
    fs::write(
        directory.join("fpm.conf"),
        format!(
            "[global]\nerror_log={at}/fpm.log\n[{pool}]\nlisten={at}/php.sock\nlisten.mode=0666\npm=static\npm.max_children=2\nuser=www-data\ngroup=www-data\n[slow]\nlisten={at}/slow.sock\nlisten.mode=0666\npm=ondemand\npm.max_children=24\nuser=www-data\ngroup=www-data\n"
        ),
    )
    .expect("fpm.conf");
    fs::write(
        directory.join("nginx.conf"),
        format!(
            "daemon off; pid {at}/nginx.pid; error_log {at}/error.log; events {{}}\nhttp {{ access_log {at}/access.log; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\nserver {{ listen 127.0.0.1:{port}; listen unix:{at}/web.sock; listen 127.0.0.1:{tls_port} ssl http2; ssl_certificate {at}/cert.pem; ssl_certificate_key {at}/key.pem; location /echo {{ default_type text/plain; return 200 \"$request_method $content_type $http_x_a $server_protocol\"; }} location /slow {{ fastcgi_pass unix:{at}/slow.sock; fastcgi_param SCRIPT_FILENAME {public}/index.php; fastcgi_param REQUEST_METHOD GET; fastcgi_param REQUEST_URI /sleep?ms=400; fastcgi_param QUERY_STRING ms=400; }} location / {{ fastcgi_pass unix:{at}/php.sock; fastcgi_param SCRIPT_FILENAME {public}/index.php; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri; fastcgi_param QUERY_STRING $query_string; fastcgi_param SERVER_PROTOCOL $server_protocol; }} }} }}\n"
        ),
    )
    .expect("nginx.conf");
}
