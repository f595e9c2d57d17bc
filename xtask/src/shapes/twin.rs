//! A machine for each twin, made from outside.

use super::machine::{REPORT, SHOWN, TRACE};
use super::shape::{Shape, Twin};
use super::table::Outcome;
use super::verdict::{Answer, Verdict};
use anyhow::{Context as _, bail, ensure};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a twin may take, its image and its daemon included.
const PATIENCE: Duration = Duration::from_secs(300);

/// Stands both twins of a shape up, one after the other, and judges what the check said of them.
pub(super) fn both(
    shape: &Shape,
    binary: &Path,
    scratch: &Path,
    show: bool,
    interrupted: &AtomicBool,
) -> Outcome {
    let answer = |twin| {
        let answer = one(shape, twin, binary, scratch, interrupted);
        answer.map_err(|error| format!("the {} twin: {error:#}", twin.name()))
    };
    let (faulty, healthy) = match (answer(Twin::Faulty), answer(Twin::Healthy)) {
        (Ok(faulty), Ok(healthy)) => (faulty, healthy),
        (Err(why), _) | (_, Err(why)) => return Outcome::Failed(why),
    };
    if show {
        let mut out = std::io::stderr();
        for (twin, answer) in [("faulty", &faulty), ("healthy", &healthy)] {
            let _ = writeln!(out, "--- {} {twin}\n{}", shape.name, answer.shown);
        }
    }
    Outcome::Judged(Verdict::of(shape, &faulty, &healthy))
}

/// This bench once more, as the first process of namespaces of its own, which end with it.
///
/// # Errors
/// Nobody knows where this program is.
pub(super) fn apart() -> anyhow::Result<Command> {
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--net",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
        ])
        .arg("--mount-proc")
        .arg(std::env::current_exe()?);
    Ok(command)
}

fn one(
    shape: &Shape,
    twin: Twin,
    binary: &Path,
    scratch: &Path,
    interrupted: &AtomicBool,
) -> anyhow::Result<Answer> {
    let dir = scratch.join(format!("{}-{}", shape.name, twin.name()));
    fs::create_dir_all(&dir)?;
    let errors = dir.join("stderr.log");
    let mut child = apart()?
        .args([
            "shapes",
            "--only",
            &shape.name,
            "--twin",
            twin.name(),
            "--inside",
        ])
        .arg(&dir)
        .arg("--binary")
        .arg(binary)
        .arg("--dir")
        .arg(&shape.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&errors)?)
        .spawn()
        .context("unshare cannot be started")?;
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if interrupted.load(Ordering::Relaxed) || began.elapsed() > PATIENCE {
            // Its machine ends with it.
            child.kill()?;
            child.wait()?;
            bail!("it was ended after {} s", began.elapsed().as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let words = fs::read_to_string(&errors).unwrap_or_default();
    ensure!(status.success(), "{}", words.trim());
    Answer::read(&dir.join(REPORT), &dir.join(SHOWN), &dir.join(TRACE))
}
