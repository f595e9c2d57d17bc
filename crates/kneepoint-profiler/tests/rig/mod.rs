//! A PHP-FPM in a private directory, driven over FastCGI. Every process is ended by its PID when the rig is dropped.
//!
//! `KNEEPOINT_PHP_FPM` names another FPM than the installed one. With `KNEEPOINT_PHP_ROOT` it is a path within that
//! directory, which holds the files of another system, and runs there (chroot).
#![expect(
    clippy::disallowed_methods,
    reason = "this crate knows no lab: its tests start the server themselves"
)]

#[path = "../../../../tests/skipped.rs"]
mod skip;

use skip::skipped;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A PHP-FPM.
pub(crate) struct Rig {
    /// Its directory, as it is seen from here.
    dir: tempfile::TempDir,
    /// The same as the server sees it.
    within: PathBuf,
    /// The script that is asked for.
    script: &'static str,
    master: Child,
}

/// Clients that ask again and again.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            let _ = client.join();
        }
    }
}

fn installed() -> Option<PathBuf> {
    let entries = fs::read_dir("/usr/sbin").ok()?.flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.display().to_string().starts_with("/usr/sbin/php-fpm"))
        .collect();
    found.sort();
    found.pop()
}

impl Rig {
    /// Starts FPM with these settings of its pool and of PHP; `None`, with the reason printed, where it cannot be.
    pub(crate) fn start(pool: &str, ini: &[&str]) -> Option<Self> {
        let wanted = std::env::var_os("KNEEPOINT_PHP_FPM").map(PathBuf::from);
        let Some(program) = wanted.or_else(installed) else {
            skipped("needs PHP-FPM: install it, or name one in KNEEPOINT_PHP_FPM");
            return None;
        };
        if fs::metadata("/proc/self")
            .is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) != 0)
        {
            skipped("needs root to read the memory of workers");
            return None;
        }
        let root = std::env::var_os("KNEEPOINT_PHP_ROOT").map(PathBuf::from);
        let parent = root
            .as_ref()
            .map_or_else(std::env::temp_dir, |root| root.join("tmp"));
        let dir = tempfile::Builder::new()
            .prefix("kpp-")
            .tempdir_in(parent)
            .expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))
            .expect("our own directory");
        let within = match &root {
            Some(root) => {
                Path::new("/").join(dir.path().strip_prefix(root).expect("within the root"))
            }
            None => dir.path().to_owned(),
        };
        write_files(dir.path(), &within, pool);
        let mut command = match &root {
            Some(root) => {
                let mut command = Command::new("/usr/sbin/chroot");
                command.arg(root).arg(&program);
                command
            }
            None => Command::new(&program),
        };
        command
            .args(["-n", "-R", "-F", "-y"])
            .arg(within.join("fpm.conf"));
        for setting in ini {
            command.args(["-d", setting]);
        }
        let output = fs::File::create(dir.path().join("fpm.out")).expect("our own directory");
        let master = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a descriptor"))
            .stderr(output)
            .spawn()
            .expect("FPM starts");
        let rig = Self {
            dir,
            within,
            script: "index.php",
            master,
        };
        let end = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(rig.socket()).is_err() {
            let said = fs::read_to_string(rig.dir.path().join("fpm.out")).unwrap_or_default();
            assert!(Instant::now() < end, "FPM does not come up: {said}");
            thread::sleep(Duration::from_millis(20));
        }
        Some(rig)
    }

    /// From now on this script is asked for.
    #[allow(
        dead_code,
        reason = "only one of the two tests of this rig has a script of its own"
    )]
    pub(crate) fn serving(mut self, name: &'static str, text: &str) -> Self {
        fs::write(self.dir.path().join(name), text).expect("our own directory");
        self.script = name;
        self
    }

    pub(crate) fn master(&self) -> u32 {
        self.master.id()
    }

    /// The workers there are now.
    pub(crate) fn workers(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.master());
        let text = fs::read_to_string(path).expect("the master lives");
        text.split_ascii_whitespace()
            .map(|word| word.parse().expect("a PID"))
            .collect()
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("php.sock")
    }

    /// One request; gives what was answered.
    pub(crate) fn get(&self, query: &str) -> String {
        get(
            &self.socket(),
            &self.within.join(self.script),
            query,
            "req-0",
        )
        .expect("FPM answers")
    }

    /// Clients that ask one request after the other until they are dropped.
    pub(crate) fn load(&self, clients: usize, query: &'static str) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let clients = (0..clients).map(|client| {
            let (stop, socket) = (Arc::clone(&stop), self.socket());
            let script = self.within.join(self.script);
            thread::spawn(move || {
                for request in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    // A worker that was killed answers nobody.
                    let _ = get(&socket, &script, query, &format!("req-{client}-{request}"));
                }
            })
        });
        Load {
            clients: clients.collect(),
            stop,
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // SIGTERM lets the master end its own workers.
        let _ = Command::new("kill").arg(self.master().to_string()).status();
        let _ = self.master.wait();
    }
}

fn write_files(dir: &Path, within: &Path, pool: &str) {
    let write =
        |name: &str, text: &str| fs::write(dir.join(name), text).expect("our own directory");
    write("index.php", include_str!("../graph/index.php"));
    write("part.php", include_str!("../graph/part.php"));
    let at = within.display();
    write(
        "fpm.conf",
        &format!(
            "[global]\nerror_log = {at}/fpm.log\ndaemonize = no\n[www]\nuser = 33\ngroup = 33\nlisten = {at}/php.sock\n\
             listen.mode = 0666\n{pool}\n"
        ),
    );
}

/// A record of FastCGI.
fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("short");
    let mut bytes = vec![1, kind, 0, 1];
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(content);
    bytes
}

fn get(socket: &Path, script: &Path, query: &str, id: &str) -> std::io::Result<String> {
    let script = script.display().to_string();
    let uri = format!("/known/route?{query}");
    let parameters = [
        ("SCRIPT_FILENAME", script.as_str()),
        ("SCRIPT_NAME", "/index.php"),
        ("REQUEST_METHOD", "GET"),
        ("QUERY_STRING", query),
        ("REQUEST_URI", &uri),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("HTTP_X_REQUEST_ID", id),
    ];
    let mut params = Vec::new();
    for (name, value) in parameters {
        for text in [name, value] {
            let length = u32::try_from(text.len()).expect("short") | 1 << 31;
            params.extend(length.to_be_bytes());
        }
        params.extend(name.as_bytes());
        params.extend(value.as_bytes());
    }
    let mut request = record(1, &[0, 1, 0, 0, 0, 0, 0, 0]);
    request.extend(record(4, &params));
    request.extend(record(4, b""));
    request.extend(record(5, b""));
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    stream.write_all(&request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(body(&answer))
}

/// What the records of standard output hold, behind the head.
fn body(mut answer: &[u8]) -> String {
    let mut text = Vec::new();
    while let [_, kind, _, _, high, low, padding, _, rest @ ..] = answer {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if *kind == 6 {
            text.extend(rest.get(..length).unwrap_or(rest));
        }
        answer = rest
            .get(length + usize::from(*padding)..)
            .unwrap_or_default();
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split_once("\r\n\r\n")
        .map_or(text.clone(), |(_, body)| body.to_owned())
}
