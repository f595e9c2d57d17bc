//! What runs in a lab reaches nothing outside, and whoever works in one of its directories gets nothing by it.

use crate::support::{eventually, host, lab, script, sh};
use kneepoint_lab::Lab;
use libtest_mimic::Failed;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory of this machine outside the lab, removed with the value.
struct Outside(PathBuf);

impl Outside {
    /// Tests run side by side, each in a directory of its own.
    fn make(parent: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("closed-test-{}-{nth}", std::process::id());
        let dir = Path::new(parent).join(name);
        fs::create_dir_all(&dir).expect("a directory");
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("mode");
        Self(dir)
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A script that ends well when something accepts connections on a socket in the file system.
fn connect(socket: &Path) -> String {
    format!(
        "perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0); exit(connect(S, sockaddr_un($ARGV[0])) ? 0 : 1)' {}",
        socket.display()
    )
}

fn outside(words: &str) -> bool {
    let status = Command::new("/bin/sh").args(["-c", words]).status();
    status.expect("a shell").success()
}

fn inside(lab: &Lab, words: &str) -> bool {
    lab.exec("php", &sh(words)).expect("a shell").success()
}

pub(crate) fn sockets() -> Result<(), Failed> {
    let places = ["/run", "/tmp", "/var/tmp", "/dev/shm", "/opt", "/srv"].map(Outside::make);
    let sockets: Vec<PathBuf> = places.iter().map(|it| it.0.join("server.sock")).collect();
    let servers: Vec<UnixListener> = sockets
        .iter()
        .map(|path| UnixListener::bind(path).expect("a socket"))
        .collect();
    let lab = lab(&["php"]);
    for socket in &sockets {
        assert!(outside(&connect(socket)), "{} serves", socket.display());
        assert!(
            !inside(&lab, &connect(socket)),
            "{} is reached from the lab",
            socket.display()
        );
    }
    // The lab's own are reached from within and from outside, as telemetry does.
    let own = host(&lab, "php").dir.join("own.sock");
    let server = UnixListener::bind(&own)?;
    assert!(inside(&lab, &connect(&own)) && outside(&connect(&own)));
    drop((servers, server));
    Ok(())
}

pub(crate) fn files() -> Result<(), Failed> {
    let lab = lab(&["php", "web"]);
    let places = ["/opt", "/tmp", "/var/tmp", "/run", "/dev/shm"].map(Outside::make);
    for Outside(dir) in &places {
        let file = dir.join("written");
        inside(
            &lab,
            &format!(
                "mkdir -p {0} && echo x > {1}",
                dir.display(),
                file.display()
            ),
        );
        assert!(
            !file.exists(),
            "{} was written from the lab",
            file.display()
        );
    }
    for dir in ["/etc", "/usr", "/var/lib", "/root"] {
        assert!(!inside(&lab, &format!("touch {dir}/closed-test")), "{dir}");
    }
    // What it writes into its own directory is there for its peers and for who measures.
    let file = host(&lab, "php").dir.join("written");
    assert!(inside(
        &lab,
        &format!("echo x > {}; echo y > /tmp/y", file.display())
    ));
    assert_eq!(fs::read_to_string(&file)?, "x\n");
    let peer = lab.exec("web", &sh(&format!("cat {}; ls /tmp/y", file.display())))?;
    assert_eq!(peer.stdout, "x\n", "and a host's /tmp is its own");
    Ok(())
}

pub(crate) fn memory() -> Result<(), Failed> {
    let sets = || {
        let output = Command::new("ipcs").args(["-s", "-m"]).output();
        String::from_utf8_lossy(&output.expect("ipcs").stdout).into_owned()
    };
    let before = sets();
    let lab = lab(&["php"]);
    assert!(inside(
        &lab,
        "ipcmk -S 1 >/dev/null && ipcmk -M 100 >/dev/null"
    ));
    assert!(inside(&lab, "echo x > /dev/shm/sem.closed-test"));
    assert_eq!(sets(), before, "semaphores of the lab are its own");
    assert!(!Path::new("/dev/shm/sem.closed-test").exists());
    Ok(())
}

/// A host sees its own processes and no other, by any number; whoever measures sees them all.
pub(crate) fn processes() -> Result<(), Failed> {
    let mut sleeper = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(["sleep", "601"])
        .spawn()?;
    let lab = lab(&["php", "web"]);
    let (php, web) = (host(&lab, "php"), host(&lab, "web"));
    let of_the_other = lab.spawn("web", &script(&web, "sleep 602"))?;
    let server = lab.spawn(
        "php",
        &script(&php, "(sleep 0.1 &); setsid sleep 603 & wait"),
    )?;
    assert!(
        eventually(|| outside("pgrep -fx 'sleep 603'")),
        "seen from outside"
    );
    let as_nobody = |words: &str| {
        let mut command = sh(words);
        command.user = Some("nobody".into());
        lab.exec("php", &command).expect("a shell")
    };
    let strangers = [
        sleeper.id(),
        of_the_other.pid,
        server.pid,
        lab.keeper_pid(),
        std::process::id(),
    ];
    // Its own number is another one in there.
    for pid in strangers {
        assert!(outside(&format!("kill -0 {pid}")), "{pid} lives");
        let tried = as_nobody(&format!(
            "kill -0 {pid} || ls /proc/{pid} || cat /proc/{pid}/cmdline"
        ));
        assert!(!tried.success(), "{pid}: {tried:?}");
    }
    let seen = as_nobody("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").stdout;
    assert!(seen.contains("sleep 603"), "its own: {seen}");
    for words in ["sleep 601", "sleep 602", "__keeper"] {
        assert!(!seen.contains(words), "{words}: {seen}");
    }
    // Orphans are collected, and what is left of a host goes with it.
    let states = || as_nobody("cat /proc/[0-9]*/stat | grep -c ' Z '").stdout;
    assert!(eventually(|| states().trim() == "0"), "{}", states());
    lab.stop_process(&server)?;
    lab.exec("php", &sh("setsid sleep 604 >/dev/null 2>&1 & true"))?;
    assert!(outside("pgrep -fx 'sleep 604'"));
    lab.remove_host("php")?;
    assert!(
        !outside("pgrep -fx 'sleep 604'"),
        "a daemon outlives its host"
    );
    assert!(
        outside(&format!("kill -0 {}", sleeper.id())),
        "and a stranger lives on"
    );
    sleeper.kill()?;
    sleeper.wait()?;
    Ok(())
}

/// A server's user plants a link where the keeper opens its log, which is then given to that user.
pub(crate) fn planted_log() -> Result<(), Failed> {
    let victim = Outside::make("/opt");
    let shadow = victim.0.join("shadow");
    fs::write(&shadow, "root")?;
    let lab = lab(&["php"]);
    let php = host(&lab, "php");
    let logs = lab.make_dir("php", "log", Some("nobody"))?;
    let mut server = script(&php, "sleep 600");
    server.user = Some("nobody".into());
    server.output = logs.join("server.log");
    symlink(&shadow, &server.output)?;
    let refused = lab.spawn("php", &server);
    assert!(refused.is_err(), "a log that is a link is opened");
    fs::remove_file(&server.output)?;
    fs::remove_dir(&logs)?;
    symlink(&victim.0, &logs)?;
    assert!(lab.spawn("php", &server).is_err(), "through a link");
    assert!(lab.make_dir("php", "log/x", Some("nobody")).is_err());
    assert_eq!(fs::metadata(&shadow)?.uid(), 0, "whose file it is");
    assert_eq!(fs::read_to_string(&shadow)?, "root");
    assert_eq!(fs::read_dir(&victim.0)?.count(), 1);
    Ok(())
}

/// Nobody but root and the servers' users reads what is in a lab, also not who knows the path of a file that all may read.
pub(crate) fn directories() -> Result<(), Failed> {
    let lab = lab(&["php"]);
    let php = host(&lab, "php");
    let modes = [
        (lab.dir().parent().expect("above it"), 0o710),
        (lab.dir(), 0o711),
        (&php.dir, 0o711),
    ];
    for (dir, expected) in modes {
        let about = fs::metadata(dir)?;
        let mode = about.mode() & 0o777;
        assert_eq!((about.uid(), mode), (0, expected), "{}", dir.display());
    }
    let known = php.dir.join("seed.sql");
    fs::write(&known, "INSERT")?;
    fs::set_permissions(&known, fs::Permissions::from_mode(0o644))?;
    let stranger = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let asked = [
        format!("ls {}", lab.dir().display()),
        format!("cat {}", known.display()),
    ];
    for asks in asked {
        assert!(
            !outside(&format!("{stranger} {asks} 2>/dev/null")),
            "{asks}"
        );
    }
    let mut server = sh(&format!("cat {}", known.display()));
    server.user = Some("nobody".into());
    assert!(lab.exec("php", &server)?.success(), "a server's user must");
    Ok(())
}
