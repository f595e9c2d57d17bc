//! `kneepoint load` on servers started by hand.

use crate::support::{alone, apps, kneepoint, text};
use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// nginx and PHP-FPM in a private directory, ended with the value.
struct ByHand {
    children: Vec<Child>,
    directory: tempfile::TempDir,
    port: u16,
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
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("temp dir");
        fs::set_permissions(
            directory.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .expect("mode");
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .expect("a free port")
            .port();
        let at = directory.path().display().to_string();
        let public = apps()
            .join("plain/public")
            .canonicalize()
            .expect("apps/plain")
            .display()
            .to_string();
        fs::write(
            directory.path().join("fpm.conf"),
            format!(
                "[global]\nerror_log={at}/fpm.log\n[www]\nlisten={at}/php.sock\nlisten.mode=0666\npm=static\npm.max_children=2\nuser=www-data\ngroup=www-data\n"
            ),
        )
        .expect("fpm.conf");
        fs::write(
            directory.path().join("nginx.conf"),
            format!(
                "daemon off; pid {at}/nginx.pid; error_log {at}/error.log; events {{}}\nhttp {{ access_log off; client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;\nserver {{ listen 127.0.0.1:{port}; location / {{ fastcgi_pass unix:{at}/php.sock; fastcgi_param SCRIPT_FILENAME {public}/index.php; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri; fastcgi_param QUERY_STRING $query_string; fastcgi_param SERVER_PROTOCOL $server_protocol; }} }} }}\n"
            ),
        )
        .expect("nginx.conf");
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
        };
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err()
            || !servers.socket().exists()
        {
            assert!(
                began.elapsed() < Duration::from_secs(10),
                "the servers do not come up"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        servers
    }

    fn socket(&self) -> std::path::PathBuf {
        self.directory.path().join("php.sock")
    }
}

fn script() -> String {
    apps()
        .join("plain/public/index.php")
        .canonicalize()
        .expect("apps/plain")
        .display()
        .to_string()
}

fn results(output: &std::process::Output) -> Vec<serde_json::Value> {
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn ok_of(result: &serde_json::Value) -> u64 {
    result["result"]["outcomes"]["by_outcome"]["ok"]
        .as_u64()
        .unwrap_or(0)
}

#[test]
fn one_command_measures_both_hops_under_one_schedule() {
    let _alone = alone();
    let servers = ByHand::start();
    let url = format!("http://127.0.0.1:{}/", servers.port);
    let fastcgi = format!("unix:{}", servers.socket().display());
    let schedule = ["--schedule", "const(200,3s)", "--json"];
    let both = results(
        &kneepoint()
            .arg("load")
            .arg(&url)
            .args(["--fastcgi", &fastcgi, "--script", &script()])
            .args(schedule)
            .output()
            .expect("load"),
    );
    assert_eq!(both.len(), 2);
    let counts: Vec<u64> = both
        .iter()
        .map(|hop| hop["result"]["arrivals"].as_u64().expect("arrivals"))
        .collect();
    assert_eq!(
        counts[0], counts[1],
        "the same schedule and seed give the same arrivals"
    );
    for hop in &both {
        assert_eq!(
            ok_of(hop),
            hop["result"]["arrivals"].as_u64().expect("arrivals"),
            "{hop}"
        );
    }
    let table = kneepoint()
        .arg("load")
        .arg(&url)
        .args([
            "--fastcgi",
            &fastcgi,
            "--script",
            &script(),
            "--schedule",
            "const(50,1s)",
        ])
        .output()
        .expect("load");
    let table = text(&table.stdout);
    assert!(
        table.contains("response p95") && table.contains("fastcgi"),
        "{table}"
    );
}

#[test]
fn each_hop_can_be_loaded_alone() {
    let _alone = alone();
    let servers = ByHand::start();
    let url = format!("http://127.0.0.1:{}/", servers.port);
    let one = results(
        &kneepoint()
            .arg("load")
            .arg(&url)
            .args(["--schedule", "line(10,100,2s) const(100,1s)", "--json"])
            .output()
            .expect("load"),
    );
    assert!(ok_of(&one[0]) > 100, "{}", one[0]);
    let fastcgi = format!("unix:{}", servers.socket().display());
    let other = results(
        &kneepoint()
            .args([
                "load",
                "--fastcgi",
                &fastcgi,
                "--script",
                &script(),
                "--schedule",
                "const(100,2s)",
                "--json",
            ])
            .output()
            .expect("load"),
    );
    assert!(ok_of(&other[0]) > 100, "{}", other[0]);
}

#[test]
fn load_goes_nowhere_by_accident() {
    let output = kneepoint()
        .args(["load", "http://192.0.2.1/"])
        .output()
        .expect("load");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("--i-own"),
        "{}",
        text(&output.stderr)
    );
    let relative = kneepoint()
        .args(["load", "--fastcgi", "unix:/x.sock", "--script", "index.php"])
        .output()
        .expect("load");
    assert!(
        text(&relative.stderr).contains("absolute"),
        "{}",
        text(&relative.stderr)
    );
}
