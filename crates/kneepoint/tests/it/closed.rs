//! A hostile application under load: what it tries, and that nothing of it reaches anything outside the lab.

mod production;
mod tripwire;

use crate::support::company::among_others;
use crate::support::{kneepoint, needs_root, start, text, wait};
use std::fs;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tries everything on each request, and says what it got.
const PAGE: &str = r#"<?php
$reached = [];
foreach (SOCKETS as $socket) {
    if (@stream_socket_client('unix://' . $socket, $code, $why, 1)) $reached[] = $socket;
}
if (@stream_socket_client('tcp://127.0.0.1:' . PORT, $code, $why, 1)) $reached[] = 'tcp';
if (mail('someone@example.org', 'subject', 'body')) $reached[] = 'mail';
foreach (FILES as $file) {
    if (@file_put_contents($file, 'x') !== false) $reached[] = $file;
}
@exec('echo x > ' . escapeshellarg(FILES[0]));
if (function_exists('sem_get') && ($id = sem_get(KEY))) sem_acquire($id);
foreach (['mysqli.default_socket', 'pdo_mysql.default_socket', 'sendmail_path'] as $name) {
    $value = ini_get($name);
    if ($value !== false && !str_starts_with($value, LAB)) $reached[] = "$name = $value";
}
echo $reached ? 'reached ' . implode(', ', $reached) : 'reached nothing';
"#;

struct Outside {
    dirs: Vec<PathBuf>,
    sockets: Vec<PathBuf>,
    servers: Vec<UnixListener>,
    tcp: TcpListener,
}

impl Outside {
    /// Directories that anybody may write to, each with a server on a socket in it, and a server on the loopback device.
    fn make() -> Self {
        let name = format!("closed-it-{}", std::process::id());
        let dirs: Vec<PathBuf> = ["/run", "/tmp", "/var/tmp", "/opt"]
            .iter()
            .map(|parent| Path::new(parent).join(&name))
            .collect();
        let mut sockets = Vec::new();
        let mut servers = Vec::new();
        for dir in &dirs {
            let _ = fs::remove_dir_all(dir);
            fs::create_dir(dir).expect("a directory");
            fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).expect("mode");
            let socket = dir.join("server.sock");
            servers.push(UnixListener::bind(&socket).expect("a socket"));
            fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).expect("mode");
            sockets.push(socket);
        }
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        Self {
            dirs,
            sockets,
            servers,
            tcp,
        }
    }

    /// How many connections there were, one of the test's own to each server aside.
    fn connections(&self) -> usize {
        let address = self.tcp.local_addr().expect("an address");
        let mut count = 0;
        TcpStream::connect(address).expect("the server is there");
        self.tcp.set_nonblocking(true).expect("set");
        loop {
            match self.tcp.accept() {
                Ok(_) => count += 1,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
        }
        for (server, socket) in self.servers.iter().zip(&self.sockets) {
            UnixStream::connect(socket).expect("the server is there");
            server.set_nonblocking(true).expect("set");
            while server.accept().is_ok() {
                count += 1;
            }
        }
        count - 1 - self.servers.len()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        for dir in &self.dirs {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn semaphores() -> String {
    fs::read_to_string("/proc/sysvipc/sem").expect("semaphores")
}

#[test]
fn an_application_under_load_reaches_nothing_outside_the_lab() {
    if !needs_root("a closed lab") {
        return;
    }
    let _place = among_others();
    let outside = Outside::make();
    let site = tempfile::tempdir().expect("a directory");
    fs::set_permissions(site.path(), fs::Permissions::from_mode(0o755)).expect("mode");
    let quoted = |paths: &[PathBuf]| {
        let paths: Vec<String> = paths
            .iter()
            .map(|it| format!("'{}'", it.display()))
            .collect();
        paths.join(", ")
    };
    let files: Vec<PathBuf> = outside.dirs.iter().map(|dir| dir.join("written")).collect();
    let constants = format!(
        "<?php\nconst SOCKETS = [{}];\nconst FILES = [{}];\nconst PORT = {};\nconst KEY = {};\nconst LAB = '{}/kneepoint-';\n",
        quoted(&outside.sockets),
        quoted(&files),
        outside.tcp.local_addr().expect("an address").port(),
        std::process::id(),
        std::env::temp_dir().display(),
    );
    let page = PAGE.replacen("<?php\n", &constants, 1);
    fs::write(site.path().join("index.php"), page).expect("a page");
    let sent = outside.dirs[1].join("sent");
    let sendmail = site.path().join("sendmail");
    fs::write(&sendmail, format!("#!/bin/sh\ncat > {}\n", sent.display())).expect("a program");
    fs::set_permissions(&sendmail, fs::Permissions::from_mode(0o755)).expect("mode");
    let ini = format!(
        "sendmail_path = {}\nmysqli.default_socket = {}\n",
        sendmail.display(),
        outside.sockets[0].display()
    );
    fs::write(site.path().join("php.ini"), ini).expect("php.ini");
    let scenario = site.path().join("kneepoint.toml");
    let tried: Vec<String> = outside
        .sockets
        .iter()
        .map(|it| format!("{:?}", it.display().to_string()))
        .collect();
    let written = format!(
        "[app]\nroot = \".\"\nfront = \"index.php\"\nunreachable = [\"127.0.0.1\", \"mail()\", {}]\n\
         [stack]\nweb = {{ server = \"nginx\" }}\nphp = {{ runtime = \"fpm\", ini = \"php.ini\" }}\n\
         [[request]]\npath = \"/\"\nexpect = {{ status = 200, body_contains = \"reached nothing\" }}\n",
        tried.join(", ")
    );
    fs::write(&scenario, written).expect("a scenario");
    let own = semaphores();
    let mut command = kneepoint();
    command.arg("limit").arg(&scenario);
    command.args(["--budget", "8s", "--no-report", "--runs"]);
    let output = wait(
        start(command.arg(site.path().join("runs"))),
        Duration::from_secs(180),
    );
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(outside.connections(), 0, "{said}");
    assert!(!sent.exists(), "mail was handed on");
    for file in &files {
        assert!(!file.exists(), "{} was written", file.display());
    }
    assert_eq!(semaphores(), own, "semaphores outlive the run");
}
