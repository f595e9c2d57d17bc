//! An application that is configured for servers of this machine and for others: it is refused with the line and the setting
//! that lead there, and measured with doubles in their place. The servers meet nobody.

use crate::support::company::{among_others, briefly_among_others};
use crate::support::{kneepoint, needs_root, start, text, wait};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

const PAGE: &str = r#"<?php
$env = parse_ini_file(__DIR__ . '/.env');
$met = [];
if (@stream_socket_client("tcp://{$env['CACHE_HOST']}:{$env['CACHE_PORT']}", $code, $why, 1)) $met[] = 'cache';
if (@stream_socket_client("unix://{$env['DB_SOCKET']}", $code, $why, 1)) $met[] = 'db';
if (@mail('someone@example.org', 'subject', 'body')) $met[] = 'mail';
if (@file_get_contents($env['API_URL']) === '{"rate":2}') $met[] = 'api';
echo 'served, met ', implode(' ', $met), '.';
"#;

/// The application, and the servers of this machine that its settings name.
struct Site {
    dir: tempfile::TempDir,
    tcp: TcpListener,
    unix: UnixListener,
    socket: PathBuf,
}

impl Site {
    fn make() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("mode");
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = tcp.local_addr().expect("an address").port();
        let socket = PathBuf::from(format!(
            "/opt/tripwire-it-{}-{port}.sock",
            std::process::id()
        ));
        let _ = fs::remove_file(&socket);
        let unix = UnixListener::bind(&socket).expect("a socket");
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o777)).expect("mode");
        tcp.set_nonblocking(true).expect("set");
        unix.set_nonblocking(true).expect("set");
        let site = Self {
            dir,
            tcp,
            unix,
            socket,
        };
        site.put("index.php", PAGE);
        site.put(
            ".env",
            &format!(
                "CACHE_HOST=127.0.0.1\nCACHE_PORT={}\nDB_SOCKET={}\nAPI_URL=http://api.example.test/rates\n",
                site.port(),
                site.socket.display()
            ),
        );
        site
    }

    fn port(&self) -> u16 {
        self.tcp.local_addr().expect("an address").port()
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("mode");
    }

    fn scenario(&self, app: &str, peers: &str, expected: &str) -> PathBuf {
        let text = format!(
            "[app]\nroot = \".\"\nfront = \"index.php\"\n{app}\n[stack]\nweb = {{ server = \"nginx\" }}\n\
             php = {{ runtime = \"fpm\" }}\n{peers}\n[[request]]\npath = \"/\"\n\
             expect = {{ status = 200, body_contains = \"{expected}\" }}\n"
        );
        self.put("kneepoint.toml", &text);
        self.dir.path().join("kneepoint.toml")
    }

    /// Runs `limit` on a scenario.
    fn limit(&self, scenario: &Path) -> Output {
        let mut command = kneepoint();
        command.arg("limit").arg(scenario);
        command.args(["--budget", "8s", "--no-report", "--runs"]);
        let runs = self.dir.path().join("runs");
        wait(start(command.arg(runs)), Duration::from_secs(180))
    }

    /// That nobody was met.
    #[track_caller]
    fn check_alone(&self, said: &str) {
        assert!(self.tcp.accept().is_err(), "the port was met: {said}");
        assert!(self.unix.accept().is_err(), "the socket was met: {said}");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

#[test]
fn who_is_outside_is_named_with_line_and_setting_before_any_load() {
    if !needs_root("the tripwire") {
        return;
    }
    let _place = briefly_among_others();
    let site = Site::make();
    let output = site.limit(&site.scenario("", "", "served"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let (port, socket) = (site.port(), site.socket.display());
    for words in [
        format!("127.0.0.1:{port}, at index.php:4 in stream_socket_client(), for GET /"),
        "named by CACHE_HOST in .env, line 1".to_owned(),
        format!("{socket}, at index.php:5 in stream_socket_client()"),
        "named by DB_SOCKET in .env, line 3".to_owned(),
        "a mail server, by mail(), at index.php:6".to_owned(),
        "api.example.test (its address was asked for), at index.php:7 in file_get_contents()"
            .to_owned(),
        "named by API_URL in .env, line 4".to_owned(),
        "[[peer]] host = \"api.example.test\", kind = \"http\", port = 80".to_owned(),
    ] {
        assert!(said.contains(&words), "{words}\nis not in\n{said}");
    }
    let summary = text(&output.stdout);
    assert!(summary.contains(" 0 requests"), "{summary}");
    site.check_alone(&said);
}

#[test]
fn doubles_and_what_may_be_unreachable_let_it_run() {
    if !needs_root("doubles") {
        return;
    }
    let _place = among_others();
    let site = Site::make();
    let app = format!("unreachable = [\"{}\"]", site.socket.display());
    let peers = format!(
        "[[peer]]\nhost = \"127.0.0.1\"\nkind = \"http\"\nport = {}\n\
         [[peer]]\nhost = \"api.example.test\"\nkind = \"http\"\nlatency = \"5ms\"\nbody = '{{\"rate\":2}}'\n\
         [[peer]]\nhost = \"mail.example.test\"\nkind = \"smtp\"\n",
        site.port()
    );
    let output = site.limit(&site.scenario(&app, &peers, "met cache mail api."));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(text(&output.stdout).contains("R*"), "{said}");
    site.check_alone(&said);
}

#[test]
fn what_init_writes_of_an_application_that_calls_others_runs() {
    if !needs_root("init in a closed lab") {
        return;
    }
    let _place = among_others();
    let site = Site::make();
    let mut command = kneepoint();
    let child = start(command.arg("init").arg(site.dir.path()));
    let output = wait(child, Duration::from_secs(180));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(
        said.contains("it tries to reach api.example.test"),
        "{said}"
    );
    let scenario = site.dir.path().join("kneepoint.toml");
    let written = fs::read_to_string(&scenario).expect("a scenario");
    for words in [
        "host = \"api.example.test\"\nkind = \"http\"\nport = 80\n".to_owned(),
        format!("unreachable = [\"{}\"]", site.socket.display()),
    ] {
        assert!(written.contains(&words), "{words}\nis not in\n{written}");
    }
    let output = site.limit(&scenario);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    site.check_alone(&said);
}
