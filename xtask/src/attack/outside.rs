//! What is outside: directories, files, servers and processes of this bench that no attempt may reach or change, and
//! the proof of it.

use anyhow::{Context as _, Result};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Where sockets of the machine's servers are, or were put by somebody.
const PLACES: [(&str, &str); 4] = [
    ("socket-run", "/run"),
    ("socket-tmp", "/tmp"),
    ("socket-var-tmp", "/var/tmp"),
    ("socket-opt", "/opt"),
];
/// What the secret file holds, readable by root alone.
pub(super) const SECRET: &str = "attack-secret-of-root-4c1f";

/// The first words of everyone who connected to anything here.
type Heard = Arc<Mutex<Vec<String>>>;

/// Everything outside. What it made is gone with it.
pub(super) struct Outside {
    /// The bench's own directory, which anybody may pass through.
    pub(super) root: TempDir,
    /// Of which nothing may change, save by who made it.
    pub(super) dirs: Vec<PathBuf>,
    pub(super) sockets: BTreeMap<String, PathBuf>,
    pub(super) tcp: SocketAddr,
    pub(super) tcp6: u16,
    pub(super) any: SocketAddr,
    pub(super) udp: u16,
    pub(super) abstract_name: String,
    pub(super) addresses: Vec<String>,
    /// A process of root, and one of the user that the lab's PHP runs as.
    pub(super) processes: [Child; 2],
    heard: Heard,
    before: BTreeMap<PathBuf, String>,
}

impl Outside {
    pub(super) fn make() -> Result<Self> {
        let root = tempfile::Builder::new()
            .prefix("attack-")
            .tempdir_in("/opt")?;
        let name = root.path().file_name().context("a name")?.to_owned();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755))?;
        let heard = Heard::default();
        let (mut dirs, mut sockets) = (Vec::new(), BTreeMap::new());
        for (id, place) in PLACES {
            let dir = match place {
                "/opt" => root.path().join("outside"),
                _ => Path::new(place).join(&name),
            };
            fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
            let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777));
            open(&dir)?;
            let socket = dir.join("server.sock");
            listen_unix(UnixListener::bind(&socket)?, &heard);
            open(&socket)?;
            fs::write(dir.join("victim"), "as it was")?;
            open(&dir.join("victim"))?;
            sockets.insert(id.to_owned(), socket);
            dirs.push(dir);
        }
        // Another user's socket whose name is no text: it must hide none of the others.
        let odd = root
            .path()
            .join("outside")
            .join(OsStr::from_bytes(b"\xff\n.sock"));
        listen_unix(UnixListener::bind(&odd)?, &heard);
        let secret = root.path().join("outside/secret");
        fs::write(&secret, SECRET)?;
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
        let abstract_name = name.to_string_lossy().into_owned();
        let address = UnixAddr::from_abstract_name(&abstract_name)?;
        listen_unix(UnixListener::bind_addr(&address)?, &heard);
        let [tcp, tcp6, any] = ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"].map(|at| {
            let listener = TcpListener::bind(at).with_context(|| format!("a port on {at}"))?;
            let at = listener.local_addr()?;
            listen_tcp(listener, &heard);
            anyhow::Ok(at)
        });
        let udp = UdpSocket::bind("0.0.0.0:0")?;
        let udp_port = udp.local_addr()?.port();
        listen_udp(udp, &heard);
        Ok(Self {
            root,
            dirs,
            sockets,
            tcp: tcp?,
            tcp6: tcp6.map_or(1, |at| at.port()),
            any: any?,
            udp: udp_port,
            abstract_name,
            addresses: addresses(),
            processes: [sleeper(None)?, sleeper(Some("www-data"))?],
            heard,
            before: BTreeMap::new(),
        })
    }

    /// From here on nothing may change.
    pub(super) fn settle(&mut self) {
        self.before = self.seen();
    }

    /// A path of the bench.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Whether somebody who said this got through to a server, or to the disk.
    pub(super) fn reached_by(&self, id: &str) -> Option<String> {
        let heard = self.heard();
        let asked = format!("/{id} ");
        let said = |words: &String| words.trim() == id || words.contains(&asked);
        if heard.iter().any(said) {
            return Some("a server outside was reached".to_owned());
        }
        let mut changed = self.changed().into_iter();
        let by = changed.find(|(path, content)| {
            path.file_name().is_some_and(|name| name == id) || content.trim().ends_with(id)
        });
        by.map(|(path, _)| format!("{} was written", path.display()))
    }

    /// What everyone said who connected.
    pub(super) fn heard(&self) -> Vec<String> {
        self.heard
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// What is not as it was, and what it holds now.
    pub(super) fn changed(&self) -> Vec<(PathBuf, String)> {
        let now = self.seen();
        let gone = self.before.keys().filter(|path| !now.contains_key(*path));
        let gone = gone.map(|path| (path.clone(), "gone".to_owned()));
        let other = now
            .iter()
            .filter(|(path, about)| self.before.get(*path) != Some(about));
        let other = other.map(|(path, about)| {
            let end = about.split_once('|').map_or("", |(_, end)| end);
            (path.clone(), end.to_owned())
        });
        gone.chain(other).collect()
    }

    /// Everything a person could see of the directories: names, owners, modes, times and contents.
    fn seen(&self) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        for dir in &self.dirs {
            see(dir, &mut all);
        }
        all
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
        for dir in &self.dirs {
            let _ = fs::remove_dir_all(dir);
        }
    }
}

fn see(path: &Path, all: &mut BTreeMap<PathBuf, String>) {
    let Ok(about) = fs::symlink_metadata(path) else {
        return;
    };
    let content = match about.file_type() {
        kind if kind.is_symlink() => format!("{:?}", fs::read_link(path)),
        kind if kind.is_file() => {
            let mut text = String::new();
            let read =
                fs::File::open(path).map(|file| file.take(1 << 20).read_to_string(&mut text));
            read.map_or_else(|why| why.to_string(), |_| text)
        }
        _ => String::new(),
    };
    // The time of a directory changes with what is in it, which is seen by itself.
    let time = if about.is_dir() {
        0
    } else {
        about.mtime_nsec()
    };
    let rest = (about.uid(), about.gid(), about.mode(), about.nlink(), time);
    all.insert(path.to_owned(), format!("{rest:?}|{content}"));
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        see(&entry.path(), all);
    }
}

/// A process that does nothing, of this user.
fn sleeper(user: Option<&str>) -> Result<Child> {
    let mut command = match user {
        None => Command::new("sleep"),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", user, "--regid", user, "--clear-groups", "sleep"]);
            command
        }
    };
    let command = command.arg("3600").stdin(Stdio::null());
    let child = command
        .spawn()
        .with_context(|| format!("a process of {}", user.unwrap_or("root")))?;
    Ok(child)
}

/// The machine's addresses, but for those of its loopback device.
fn addresses() -> Vec<String> {
    let output = Command::new("hostname").arg("-I").output();
    let text = output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    let known = text
        .split_whitespace()
        .filter(|word| word.parse::<IpAddr>().is_ok_and(|it| it.is_ipv4()));
    known.map(str::to_owned).collect()
}

fn hear(heard: &Heard, mut stream: impl std::io::Read) {
    let mut bytes = [0; 256];
    let count = stream.read(&mut bytes).unwrap_or(0);
    let words = String::from_utf8_lossy(&bytes[..count]).into_owned();
    heard
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(words);
}

fn listen_tcp(listener: TcpListener, heard: &Heard) {
    let heard = Arc::clone(heard);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            hear(&heard, stream);
        }
    });
}

fn listen_unix(listener: UnixListener, heard: &Heard) {
    let heard = Arc::clone(heard);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
            hear(&heard, stream);
        }
    });
}

fn listen_udp(socket: UdpSocket, heard: &Heard) {
    let heard = Arc::clone(heard);
    thread::spawn(move || {
        let mut bytes = [0; 256];
        while let Ok((count, _)) = socket.recv_from(&mut bytes) {
            let words = String::from_utf8_lossy(&bytes[..count]).into_owned();
            heard
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(words);
        }
    });
}
