//! Inside of a machine of its own: furnishes it, starts a twin's places, and lets the program look.
//!
//! `unshare` made it: processes, mounts, network and IPC are its own, and all of it ends with its first process, which
//! is this one. The machine's own directories are covered by empty ones, and `/etc` by a copy.

use super::chores::tell;
use super::engine::Engines;
use super::place::{Engine, Place};
use super::shape::Standing;
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Directories that are empty in the machine.
const EMPTY: [&str; 11] = [
    "/run",
    "/srv",
    "/opt",
    "/home",
    "/var/www",
    "/var/log",
    "/var/lib/mysql",
    "/var/lib/postgresql",
    "/var/lib/redis",
    "/var/lib/nginx",
    "/dev/shm",
];
/// How long a twin may take until every program answers to its name.
const PATIENCE: Duration = Duration::from_secs(40);
/// Names of files and of processes' starts differ by a tick: what is changed later is changed so much later.
const LATER: Duration = Duration::from_millis(1800);

/// The check's answer, in the directory of a twin.
pub(super) const REPORT: &str = "report.json";
/// What a person reads of it.
pub(super) const SHOWN: &str = "report.txt";
/// Its system calls.
pub(super) const TRACE: &str = "trace.txt";

/// Stands a twin up in this machine, looks at it, and leaves what the check said and did in the directory.
///
/// # Errors
/// A place does not start, or a program that must be there does not run in time.
pub(super) fn stand(standing: &Standing, dir: &Path, binary: &Path) -> anyhow::Result<()> {
    furnish(standing, dir).context("the machine cannot be furnished")?;
    let mut engines = Engines::new(dir, &standing.image)?;
    let looked = look(standing, dir, binary, &mut engines);
    // The groups of containers outlive the machine, and are the engine's to remove.
    let ended = engines.end();
    looked.and(ended)
}

fn look(
    standing: &Standing,
    dir: &Path,
    binary: &Path,
    engines: &mut Engines,
) -> anyhow::Result<()> {
    for name in &standing.start {
        let place = &standing.place[name];
        match place.engine {
            Engine::Host => start_host(name, place, dir),
            _ => engines.start(name, place),
        }
        .with_context(|| format!("place `{name}` does not start"))?;
    }
    wait(standing, binary).with_context(|| engines.last_words())?;
    let later = |place: &Place| place.later.clone();
    let changes: Vec<_> = standing.place.iter().map(|(n, p)| (n, later(p))).collect();
    if changes.iter().any(|(_, later)| !later.is_empty()) {
        std::thread::sleep(LATER);
    }
    for (name, later) in changes {
        for (path, text) in later {
            let path = match standing.place[name].engine {
                Engine::Host => PathBuf::from(&path),
                _ => engines.mounted(name, &path),
            };
            // In place: a mount holds the file, not its name.
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
    }
    let report = check(binary, &["--json", "-"])?;
    fs::write(dir.join(REPORT), report)?;
    fs::write(dir.join(SHOWN), check(binary, &["--all"])?)?;
    trace(binary, &dir.join(TRACE))
}

fn furnish(standing: &Standing, dir: &Path) -> anyhow::Result<()> {
    for path in EMPTY {
        if Path::new(path).is_dir() {
            tell(&["mount", "-t", "tmpfs", "-o", "mode=755", "machine", path])?;
        }
    }
    let etc = dir.join("etc");
    let etc = etc.to_str().context("the directory has an odd name")?;
    tell(&["cp", "-a", "/etc", etc])?;
    tell(&["mount", "--bind", etc, "/etc"])?;
    tell(&["ip", "link", "set", "lo", "up"])?;
    for (name, value) in &standing.sysctl {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::write(&path, value).with_context(|| format!("`{path}` cannot be set to {value}"))?;
    }
    Ok(())
}

fn start_host(name: &str, place: &Place, dir: &Path) -> anyhow::Result<()> {
    place.write_below(Path::new("/"))?;
    for command in &place.prepare {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        tell(&words)?;
    }
    for (at, command) in place.run.iter().enumerate() {
        let log = File::create(dir.join(format!("{name}-{at}.log")))?;
        let mut process = Command::new(&command[0]);
        process
            .args(&command[1..])
            .envs(&place.env)
            // The machine's own: some servers write where they are started.
            .current_dir("/run")
            .stdin(Stdio::null());
        process.stdout(log.try_clone()?).stderr(log);
        process
            .spawn()
            .with_context(|| format!("`{}` cannot be started", command[0]))?;
    }
    Ok(())
}

/// Waits until every program runs and listens.
fn wait(standing: &Standing, binary: &Path) -> anyhow::Result<()> {
    let mut wanted = standing.services.clone();
    wanted.sort();
    let began = Instant::now();
    loop {
        let report: Value = serde_json::from_str(&check(binary, &["--json", "-"])?)?;
        let services = report["services"].as_array().cloned().unwrap_or_default();
        let mut found: Vec<String> = services
            .iter()
            .map(|one| one["kind"].as_str().unwrap_or_default().to_owned())
            .collect();
        found.sort();
        let listen = |one: &Value| one["listens"].as_array().is_some_and(|all| !all.is_empty());
        if found == wanted && services.iter().all(listen) {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            bail!(
                "after {} s there run {found:?}, and not {wanted:?}:\n{}",
                PATIENCE.as_secs(),
                check(binary, &[])?
            );
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// What the program prints. That it found something, or nothing to look at, is no failure.
fn check(binary: &Path, args: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(binary)
        .arg("check")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("`{}` cannot be started", binary.display()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.code().is_some_and(|code| code <= 2) && !text.is_empty(),
        "the check failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(text)
}

fn trace(binary: &Path, into: &Path) -> anyhow::Result<()> {
    let status = Command::new("strace")
        .args(["-f", "-q", "-s", "200", "-o"])
        .arg(into)
        .arg(binary)
        .args(["check", "--budget", "60s", "--json", "-"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("strace cannot be started: install it")?;
    ensure!(
        status.code().is_some_and(|code| code <= 2),
        "the check failed while it was traced"
    );
    Ok(())
}
