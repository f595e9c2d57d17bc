//! One diagnosis in a process of its own: started, waited for, and ended when it does not end by itself.

use super::fault::{FILES, Fault};
use crate::program::evidence::Evidence;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Most characters of a program's last words that go into a table.
const LAST_WORDS: usize = 300;

/// How diagnoses are run.
pub(super) struct Runner {
    /// The program.
    pub(super) binary: PathBuf,
    /// Whether what the rules judged by is kept.
    pub(super) evidence: Evidence,
    /// How long a diagnosis may take.
    pub(super) patience: Duration,
    /// How long the program may clean up once it was asked to end; then it is killed.
    pub(super) grace: Duration,
    /// Set when the bench itself is to end.
    pub(super) interrupted: Arc<AtomicBool>,
}

/// How a process ended.
enum End {
    ByItself(ExitStatus),
    TooLate,
    Interrupted,
}

impl Runner {
    /// Diagnoses a fault: how long it took, and the run record as text or what went wrong.
    ///
    /// # Errors
    /// The temporary directory cannot be used. A program that fails is not an error.
    pub(super) fn diagnose(
        &self,
        fault: &Fault,
    ) -> anyhow::Result<(Duration, Result<String, String>)> {
        let dir = tempfile::Builder::new()
            .prefix("kneepoint-fault-")
            .tempdir()?;
        let overlay = dir.path().join("overlay.toml");
        let record = dir.path().join("out.json");
        let errors = dir.path().join("stderr");
        write_inputs(fault, dir.path(), &overlay)?;
        let started = Instant::now();
        let child = Command::new(&self.binary)
            .arg("diagnose")
            .arg(&fault.scenario)
            .arg("--overlay")
            .arg(&overlay)
            .arg("--json")
            .arg(&record)
            .arg("--no-report")
            .args(self.evidence.arguments(&fault.name))
            // What the program leaves beside its results goes with the directory.
            .current_dir(dir.path())
            // A Ctrl-C of the terminal reaches the bench alone, which hands it on once.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&errors)?)
            .spawn();
        let ended = match child {
            Ok(child) => self.wait(child)?,
            Err(error) => {
                let words = format!("`{}` cannot be started: {error}", self.binary.display());
                return Ok((started.elapsed(), Err(words)));
            }
        };
        let elapsed = started.elapsed();
        Ok((elapsed, self.outcome(&ended, &record, &errors)))
    }

    fn outcome(&self, ended: &End, record: &Path, errors: &Path) -> Result<String, String> {
        let last = || {
            let bytes = std::fs::read(errors).unwrap_or_default();
            last_words(&String::from_utf8_lossy(&bytes))
        };
        match ended {
            End::TooLate => Err(format!(
                "no answer within {} s: {}",
                self.patience.as_secs(),
                last()
            )),
            End::Interrupted => Err("interrupted".into()),
            // The record decides, not the exit code: a diagnosis that finds something may say so by its code.
            End::ByItself(status) => std::fs::read_to_string(record)
                .map_err(|_| format!("no record ({status}): {}", last())),
        }
    }

    fn wait(&self, mut child: Child) -> std::io::Result<End> {
        let deadline = Instant::now() + self.patience;
        if let Some(status) = wait_until(&mut child, || {
            Instant::now() >= deadline || self.interrupted.load(Ordering::Relaxed)
        })? {
            return Ok(End::ByItself(status));
        }
        // It may end in this very moment: then there is nobody to tell, and the wait below sees it.
        let _ = kill_process(Pid::from_child(&child), Signal::INT);
        let deadline = Instant::now() + self.grace;
        if wait_until(&mut child, || Instant::now() >= deadline)?.is_none() {
            child.kill()?;
            child.wait()?;
        }
        Ok(if self.interrupted.load(Ordering::Relaxed) {
            End::Interrupted
        } else {
            End::TooLate
        })
    }
}

/// Writes the overlay, and the files that it names into a directory beside it.
fn write_inputs(fault: &Fault, dir: &Path, overlay: &Path) -> std::io::Result<()> {
    let files = dir.join("files");
    std::fs::create_dir(&files)?;
    for (name, text) in &fault.files {
        std::fs::write(files.join(name), text)?;
    }
    let text = fault.overlay.replace(FILES, &files.display().to_string());
    std::fs::write(overlay, text)
}

/// Waits for a process until it ends or there is a reason to give up.
fn wait_until(
    child: &mut Child,
    give_up: impl Fn() -> bool,
) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if give_up() {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The last lines of what a program said, as one line that fits a table. Progress that was drawn over and colours are
/// left out.
pub(crate) fn last_words(text: &str) -> String {
    let lines: Vec<String> = text
        .lines()
        .map(|line| {
            line.rsplit('\r')
                .find(|part| !part.trim().is_empty())
                .unwrap_or("")
        })
        .map(without_escapes)
        .filter(|line| !line.trim().is_empty())
        .collect();
    let words = lines[lines.len().saturating_sub(3)..]
        .iter()
        .map(|line| line.trim())
        .collect::<Vec<_>>()
        .join(" / ");
    match words.char_indices().rev().nth(LAST_WORDS) {
        Some((cut, _)) => format!("…{}", &words[cut..]),
        None if words.is_empty() => "it said nothing".into(),
        None => words,
    }
}

/// A line without terminal escape sequences and other control characters.
fn without_escapes(line: &str) -> String {
    let mut clean = String::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            // CSI: `[`, parameters, one final byte from `@` to `~`.
            if characters.next() == Some('[') {
                characters.by_ref().find(|byte| ('@'..='~').contains(byte));
            }
        } else if !character.is_control() {
            clean.push(character);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::{Mutex, PoisonError};

    /// One script at a time: a process started by another test would hold a half-written one open, and the kernel
    /// refuses to run a file that somebody may write.
    static ONE: Mutex<()> = Mutex::new(());

    /// The shell of a script. One that is started with SIGINT ignored, as all below a shell's `&` are, could not catch it.
    const SHELL: &str = "#!/usr/bin/env -S --default-signal=INT sh";

    /// Runs a shell script in the place of the program and returns what the bench would judge.
    fn run(script: &str, patience: Duration, interrupted: bool) -> Result<String, String> {
        run_with(script, (patience, Duration::from_secs(30)), interrupted)
    }

    fn run_with(
        script: &str,
        (patience, grace): (Duration, Duration),
        interrupted: bool,
    ) -> Result<String, String> {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().expect("directory");
        let binary = dir.path().join("program");
        std::fs::write(&binary, format!("{SHELL}\n{script}\n")).expect("script");
        std::fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).expect("mode");
        let runner = Runner {
            binary,
            evidence: Evidence::default(),
            patience,
            grace,
            interrupted: Arc::new(AtomicBool::new(interrupted)),
        };
        let text = "about = \"x\"\nscenario = \"s.toml\"\nexpect = \"OPC-01\"\n[inject.slo]\ntimeout = \"1s\"\n";
        let fault = Fault::read(Path::new("/f/x.toml"), text).expect("fault");
        runner.diagnose(&fault).expect("diagnose").1
    }

    const LONG: Duration = Duration::from_secs(60);

    /// What a script that hangs says before it is gone. A shell that a busy machine did not let set its trap before it was asked to
    /// end dies without a word: the next one has longer.
    fn last_said(script: &str, grace: Duration) -> String {
        let mut last = String::new();
        for patience in [1, 8, 60].map(Duration::from_secs) {
            let words = run_with(script, (patience, grace), false).expect_err("it hangs");
            let (why, said) = words.split_once(": ").expect("what it said");
            assert_eq!(why, format!("no answer within {} s", patience.as_secs()));
            said.clone_into(&mut last);
            if last != "it said nothing" {
                break;
            }
        }
        last
    }

    #[test]
    fn the_program_gets_scenario_and_overlay_and_its_record_is_read_whatever_its_exit_code() {
        let script = "echo \"$1 $2 $3 $5 $7\" > \"$6\"; cat \"$4\" >> \"$6\"; exit 3";
        assert_eq!(
            run(script, LONG, false).expect("record"),
            "diagnose /f/s.toml --overlay --json --no-report\n[slo]\ntimeout = \"1s\"\n"
        );
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let words = run("echo 'error: no nginx' >&2; exit 2", LONG, false).expect_err("fails");
        assert!(
            words.contains("exit status: 2") && words.ends_with("error: no nginx"),
            "{words}"
        );
    }

    #[test]
    fn a_program_that_hangs_is_asked_to_end_and_then_killed() {
        let script = "trap 'echo asked >&2; exit 0' INT; while :; do sleep 0.05; done";
        assert_eq!(last_said(script, Duration::from_secs(30)), "asked");
        let deaf = "trap '' INT; echo deaf >&2; while :; do sleep 0.05; done";
        assert_eq!(last_said(deaf, Duration::from_secs(2)), "deaf");
        assert_eq!(run(script, LONG, true), Err("interrupted".into()));
    }

    #[test]
    fn last_words_are_one_clean_line() {
        let drawn = "one\n 10 %\r 90 %\r\n\n\u{1b}[31merror\u{1b}[0m: two\n  hint\n";
        assert_eq!(last_words(drawn), "90 % / error: two / hint");
        assert_eq!(last_words(" \n"), "it said nothing");
        let long = last_words(&"é".repeat(1000));
        assert!(long.starts_with('…') && long.chars().count() <= LAST_WORDS + 2);
    }
}
