//! `kneepoint check ssh://...` against a server of ssh of this test's own, as a user who is not root.
//!
//! The server has a view of the file system of its own: with a user that this machine does not have, and with a Redis of
//! that user's.

use crate::support::{free_port, needs_root, text};
use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The user: nobody has this number.
const NAME: &str = "kneepoint-looks";
const ID: u32 = 60_917;

/// Processes of another view of the file system and of processes, which end with it.
struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        // The first process of a namespace takes all others along.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().expect(program);
    assert!(
        output.status.success(),
        "{program}: {}",
        text(&output.stderr)
    );
}

/// A key, and the settings of both ends.
fn settings(dir: &Path, port: u16) {
    let at = |name: &str| dir.join(name).display().to_string();
    for name in ["host", "user"] {
        run(
            "ssh-keygen",
            &["-q", "-t", "ed25519", "-N", "", "-f", &at(name)],
        );
    }
    let server = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nPidFile none\nPrintMotd no\n",
        at("host"),
        at("user.pub")
    );
    fs::write(dir.join("sshd.conf"), server).expect("written");
    let client = format!(
        "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\nStrictHostKeyChecking no\nLogLevel ERROR\n",
        at("user"),
        at("known")
    );
    fs::write(dir.join("ssh.conf"), client).expect("written");
    let redis = format!(
        "port {}\nbind 127.0.0.1\nmaxmemory 100mb\nmaxmemory-policy noeviction\nsave \"\"\n",
        free_port()
    );
    fs::write(dir.join("redis.conf"), redis).expect("written");
    let users = fs::read_to_string("/etc/passwd").expect("users");
    let home = dir.display();
    fs::write(
        dir.join("passwd"),
        format!("{users}{NAME}:*:{ID}:{ID}::{home}:/bin/sh\n"),
    )
    .expect("written");
    for (name, mode) in [
        (".", 0o755),
        ("user.pub", 0o644),
        ("redis.conf", 0o644),
        ("passwd", 0o644),
    ] {
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(mode)).expect("opened");
    }
}

fn host(dir: &Path) -> Host {
    let script = format!(
        "mount --bind passwd /etc/passwd && mount -t tmpfs run /run && mkdir /run/sshd || exit 1\n\
         setpriv --reuid {ID} --regid {ID} --clear-groups redis-server $PWD/redis.conf > redis.log &\n\
         exec /usr/sbin/sshd -D -e -f $PWD/sshd.conf 2> sshd.log"
    );
    let child = Command::new("unshare")
        .args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            &script,
        ])
        .current_dir(dir)
        .stdin(Stdio::null())
        .spawn();
    Host(child.expect("unshare starts"))
}

/// What the user has put into the directories that anybody may write to.
fn left() -> Vec<String> {
    let dirs = ["/tmp", "/var/tmp", "/dev/shm"].into_iter();
    let entries = dirs.flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    let own = entries.filter(|entry| entry.metadata().is_ok_and(|about| about.uid() == ID));
    own.map(|entry| entry.path().display().to_string())
        .collect()
}

#[test]
fn another_host_is_looked_at_as_a_user_and_nothing_is_left() {
    let needed = [
        "/usr/sbin/sshd",
        "/usr/bin/ssh",
        "/usr/bin/redis-server",
        "/usr/bin/setpriv",
    ];
    if !needs_root("another_host_is_looked_at_as_a_user_and_nothing_is_left")
        || needed.iter().any(|path| !Path::new(path).exists())
    {
        return;
    }
    let dir = tempfile::tempdir().expect("directory");
    let port = free_port();
    settings(dir.path(), port);
    let _host = host(dir.path());
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let said = fs::read_to_string(dir.path().join("sshd.log")).unwrap_or_default();
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "sshd does not come up: {said}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    // Without what a debugger needs, it is a tenth of the size.
    let program = dir.path().join("kneepoint");
    let program = program.display().to_string();
    run("strip", &["-o", &program, env!("CARGO_BIN_EXE_kneepoint")]);
    let output = Command::new(&program)
        .args([
            "check",
            &format!("ssh://{NAME}@127.0.0.1:{port}"),
            "--json",
            "-",
            "--budget",
            "30s",
            "--ssh-config",
        ])
        .arg(dir.path().join("ssh.conf"))
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let services = report["services"].as_array().expect("services");
    assert!(services.iter().any(|one| one["kind"] == "redis"), "{said}");
    let findings = report["findings"].as_array().expect("findings");
    assert!(findings.iter().any(|one| one["code"] == "RDS-06"), "{said}");
    assert_eq!(left(), Vec::<String>::new());
}
