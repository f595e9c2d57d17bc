//! The hostile application's directory, and the program run on it.

use super::outside::Outside;
use anyhow::{Context as _, Result, bail};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// `nobody`, by number.
const USER: &str = "65534";
/// Longest time of one command of the program.
const LIMIT: Duration = Duration::from_secs(240);

/// A directory with an application, and where its labs and runs are.
pub(super) struct Site {
    pub(super) root: PathBuf,
    pub(super) labs: PathBuf,
    pub(super) runs: PathBuf,
    /// What must be in no run file and no report.
    pub(super) secrets: Vec<String>,
    /// A key of semaphores that nobody else uses.
    pub(super) key: u32,
    program: PathBuf,
    /// Whether the program is started as a plain user, and not as root.
    as_user: bool,
}

/// A command that runs.
pub(super) struct Running {
    child: Child,
    streams: [JoinHandle<String>; 2],
}

/// A command that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// `None`: by a signal, or not in time.
    pub(super) code: Option<i32>,
    pub(super) printed: String,
    pub(super) said: String,
    pub(super) in_time: bool,
}

impl Site {
    pub(super) fn make(outside: &Outside, program: &Path) -> Result<Self> {
        let [root, labs, runs] = ["site", "labs", "runs"].map(|name| outside.path(name));
        for dir in [&root, &labs] {
            fs::create_dir(dir)?;
            fs::set_permissions(dir, fs::Permissions::from_mode(0o755))?;
        }
        let secrets = ["env", "header", "form", "body", "seed", "dotenv"];
        let secrets = secrets.map(|name| format!("{name}Planted7Q{:x}", std::process::id()));
        let site = Self {
            root,
            labs,
            runs,
            secrets: secrets.to_vec(),
            key: 0x5000_0000 | std::process::id(),
            program: program.to_owned(),
            as_user: false,
        };
        site.write(
            "seed.sql",
            &format!(
                "create table k(v text); insert into k values ('{}');\n",
                site.secrets[4]
            ),
        )?;
        fs::set_permissions(
            site.root.join("seed.sql"),
            fs::Permissions::from_mode(0o600),
        )?;
        let shared = outside.path("outside/dotenv");
        fs::write(&shared, format!("MAIL_PASSWORD={}\n", site.secrets[5]))?;
        std::os::unix::fs::symlink(&shared, site.root.join(".env"))?;
        Ok(site)
    }

    /// From here on the program is started as a plain user, who may write where its labs and runs are.
    pub(super) fn give_to_a_user(&mut self) -> Result<()> {
        self.as_user = true;
        fs::create_dir_all(&self.runs)?;
        for dir in [&self.labs, &self.runs] {
            fs::set_permissions(dir, fs::Permissions::from_mode(0o777))?;
        }
        Ok(())
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.root.join(name);
        fs::write(&path, text).with_context(|| path.display().to_string())
    }

    /// The program with this temporary directory and these arguments.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self.as_user {
            false => Command::new(&self.program),
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]);
                command.arg(&self.program);
                command
            }
        };
        command
            .env("TMPDIR", &self.labs)
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Starts a command on the site's scenario.
    pub(super) fn start(&self, arguments: &[&str]) -> Result<Running> {
        let mut command = self.command(&arguments[..1]);
        command
            .arg(self.root.join("kneepoint.toml"))
            .args(&arguments[1..]);
        Running::start(command.arg("--runs").arg(&self.runs))
    }

    /// Whether a run file or a report of it holds these bytes.
    pub(super) fn stored_contains(&self, text: &str) -> bool {
        let files = fs::read_dir(&self.runs).into_iter().flatten().flatten();
        let mut contents = files.filter_map(|entry| fs::read(entry.path()).ok());
        contents.any(|bytes| memchr(&bytes, text.as_bytes()))
    }

    /// Directories of labs that are there.
    pub(super) fn labs_left(&self) -> usize {
        let entries = fs::read_dir(&self.labs).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("kneepoint-")).count()
    }
}

/// Whether some bytes are within others.
pub(super) fn memchr(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

impl Running {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("the program does not start")?;
        let out = child.stdout.take().context("a pipe")?;
        let err = child.stderr.take().context("a pipe")?;
        Ok(Self {
            child,
            streams: [read(out), read(err)],
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end, for a limited time.
    pub(super) fn ended(self) -> Result<Ended> {
        self.ended_within(LIMIT)
    }

    pub(super) fn ended_within(mut self, limit: Duration) -> Result<Ended> {
        let end = Instant::now() + limit;
        let (code, in_time) = loop {
            if let Some(status) = self.child.try_wait()? {
                break (status.code(), true);
            }
            if Instant::now() > end {
                self.child.kill()?;
                self.child.wait()?;
                break (None, false);
            }
            thread::sleep(Duration::from_millis(20));
        };
        let [printed, said] = self.streams.map(|stream| stream.join().unwrap_or_default());
        Ok(Ended {
            code,
            printed,
            said,
            in_time,
        })
    }
}

impl Ended {
    /// The last line it said, for a table.
    pub(super) fn why(&self) -> String {
        let mut lines = self.said.lines().chain(self.printed.lines());
        let line = lines.rfind(|line| line.starts_with("kneepoint: "));
        let line = line.unwrap_or_default().trim_start_matches("kneepoint: ");
        line.chars().take(90).collect()
    }
}

fn read(mut from: impl std::io::Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read until then counts.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Runs a command to its end, which must come in this time.
pub(super) fn run(command: &mut Command, limit: Duration) -> Result<Ended> {
    let ended = Running::start(command)?.ended_within(limit)?;
    if ended.code.is_none() && ended.in_time {
        bail!("a signal ended the program: {}", ended.said);
    }
    Ok(ended)
}
