//! `kneepoint check` as a person calls it: exit codes, and what it writes.

mod remote;

use crate::support::{free_port, kneepoint, text};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A Redis of this test's own.
struct Redis(Child);

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A policy with more behind it: what Redis keeps waits for the disk, which is a risk, and it refuses writes when it is full, which
/// is a note where nobody knows what it keeps.
const SICK: &str = "noeviction\nappendonly yes\nappendfsync always";

fn redis(dir: &Path, policy: &str) -> Option<Redis> {
    let program = Path::new("/usr/bin/redis-server");
    if !program.exists() {
        return None;
    }
    let port = free_port();
    let conf = dir.join("redis.conf");
    let lines = format!(
        "bind 127.0.0.1\nport {port}\ndir {}\nmaxmemory 100mb\nmaxmemory-policy {policy}\nsave \"\"\n",
        dir.display()
    );
    std::fs::write(&conf, lines).expect("written");
    let child = Command::new(program)
        .arg(&conf)
        .stdout(Stdio::null())
        .spawn();
    let redis = Redis(child.expect("it starts"));
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "Redis does not come up"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    Some(redis)
}

fn check(pid: u32, arguments: &[&str]) -> Output {
    let mut command = kneepoint();
    command
        .args(["check", "--budget", "30s", "--pid", &pid.to_string()])
        .args(arguments);
    command.output().expect("it runs")
}

#[test]
fn the_exit_code_says_whether_something_is_wrong() {
    let dir = tempfile::tempdir().expect("directory");
    let (Some(sick), Some(healthy)) = ({
        let dirs = ["sick", "healthy"].map(|name| dir.path().join(name));
        dirs.iter()
            .for_each(|dir| std::fs::create_dir(dir).expect("made"));
        (redis(&dirs[0], SICK), redis(&dirs[1], "allkeys-lru"))
    }) else {
        return;
    };
    let output = check(sick.0.id(), &[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("RDS-11") && said.contains("redis.conf:7"),
        "{said}"
    );
    let output = check(healthy.0.id(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn what_it_writes_can_be_read() {
    let dir = tempfile::tempdir().expect("directory");
    let Some(sick) = redis(dir.path(), SICK) else {
        return;
    };
    let (markdown, fix) = (dir.path().join("c.md"), dir.path().join("fix"));
    let paths = [&markdown, &fix].map(|path| path.display().to_string());
    let output = check(
        sick.0.id(),
        &[
            "--json",
            "-",
            "--markdown",
            &paths[0],
            "--fix",
            &paths[1],
            "--redact",
        ],
    );
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["schema"], 1);
    assert_eq!(json["findings"][0]["code"], "RDS-11");
    let markdown = std::fs::read_to_string(markdown).expect("Markdown");
    assert!(markdown.contains("RDS-06"), "{markdown}");
    let readme = std::fs::read_to_string(fix.join("README.md")).expect("README");
    assert!(readme.contains("maxmemory-policy allkeys-lru"), "{readme}");
    // A directory that is there is somebody's.
    let output = check(sick.0.id(), &["--fix", &paths[1]]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

#[test]
fn settings_that_cannot_be_read_are_no_clean_stack() {
    let dir = tempfile::tempdir().expect("directory");
    let Some(healthy) = redis(dir.path(), "allkeys-lru") else {
        return;
    };
    std::fs::remove_file(dir.path().join("redis.conf")).expect("removed");
    let output = check(healthy.0.id(), &[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the settings of Redis"), "{said}");
}

#[test]
fn a_pool_that_is_not_there_is_told_with_those_that_are() {
    let dir = tempfile::tempdir().expect("directory");
    let Some(healthy) = redis(dir.path(), "allkeys-lru") else {
        return;
    };
    let output = check(healthy.0.id(), &["--pool", "nosuch"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("pool nosuch: no pool was found at all"),
        "{said}"
    );
}

#[test]
fn a_process_that_is_none_is_said_to_be_none() {
    let output = check(u32::MAX, &[]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("Could not see") && said.contains("4294967295"),
        "{said}"
    );
}
