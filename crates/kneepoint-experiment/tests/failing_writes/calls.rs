//! Each call by which a run file is written fails once, with a disk's error: the whole store runs under strace, which can say
//! to a program that a call of it failed.

use super::{append, entry, journal, run, skip};
use kneepoint_experiment::{Record, RunStore};
use kneepoint_model::run::JournalEntry;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory to write into, for the copy of this program that writes.
const DIRECTORY: &str = "KNEEPOINT_WRITES_INTO";
/// Records that the copy writes: a few of different lengths.
const WRITTEN: usize = 4;
/// Has every call fail, and not every one of so many.
const EACH: &str = "KNEEPOINT_EACH_CALL";
const EVERY: usize = 5;
/// Calls that change a file or say that it is on the disk; the first three of them are always made.
const CHANGING: [&str; 5] = [
    "pwrite64",
    "/^f(data)?sync$",
    "openat",
    "ftruncate",
    "?unlink",
];
/// Calls that ask and lock.
const ASKING: [&str; 4] = ["pread64", "fcntl", "mmap", "/^(new)?fstat(at)?$"];

/// What the copy of this program does: it writes records, and says which are kept. As a test of its own it has nothing to do.
#[test]
fn writes_when_it_is_told_to() {
    let Some(directory) = std::env::var_os(DIRECTORY) else {
        return;
    };
    let mut out = std::io::stdout();
    let Ok(mut store) = RunStore::create(Path::new(&directory), &run()) else {
        return;
    };
    if !append(&mut store, &Record::Header(Box::new(run()))) {
        return;
    }
    writeln!(out, "\nbegun").expect("said");
    for nth in 0..WRITTEN {
        if append(&mut store, &Record::Journal(entry(3 * nth))) {
            writeln!(out, "\nkept {nth}").expect("said");
        }
    }
    // Without a word of goodbye to the file.
    std::process::exit(0);
}

/// What a copy of this program said and left.
struct Written {
    /// Whether the call was made as often.
    hit: bool,
    begun: bool,
    kept: Vec<usize>,
    file: PathBuf,
}

#[expect(clippy::disallowed_methods, reason = "strace stands in no lab")]
fn strace() -> Command {
    Command::new("strace")
}

/// Has a copy of this program write, with one call of it failed.
fn write(directory: &Path, call: &str, nth: usize) -> Option<Written> {
    let name = format!("{}.kneepoint.sqlite", run().id);
    let file = directory.join(&name);
    let traced = directory.join("calls");
    let mut command = strace();
    command.arg("-f").arg("-o").arg(&traced);
    for path in ["", "-wal", "-shm", "-journal"] {
        command.arg("-P").arg(format!("{}{path}", file.display()));
    }
    command.arg("-P").arg(directory);
    command
        .arg("-e")
        .arg(format!("inject={call}:error=EIO:when={nth}"));
    command.arg(std::env::current_exe().expect("this program"));
    command.args(["--exact", "calls::writes_when_it_is_told_to", "--nocapture"]);
    let output = command.env(DIRECTORY, directory).output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let kept = said.lines().filter_map(|line| line.strip_prefix("kept "));
    Some(Written {
        hit: fs::read_to_string(&traced).ok()?.contains("(INJECTED)"),
        begun: said.lines().any(|line| line == "begun"),
        kept: kept.map(|nth| nth.parse().expect("a number")).collect(),
        file,
    })
}

/// What was said to be kept is there, and nothing that was never written, whichever call fails. `KNEEPOINT_EACH_CALL=1` has
/// each fail, for some minutes.
pub(crate) fn each_fails() {
    if strace().arg("-V").output().is_err() {
        skip::skipped("a failure at each call of a run file needs strace");
        return;
    }
    let each = std::env::var_os(EACH).is_some();
    for (place, call) in CHANGING.iter().chain(&ASKING).enumerate() {
        let (first, step) = if each { (1, 1) } else { (1 + place % 2, EVERY) };
        let mut failed = 0;
        for nth in (first..).step_by(step) {
            let directory = tempfile::tempdir().expect("a directory");
            let written = write(directory.path(), call, nth).expect("strace runs");
            check(&written, &format!("{call} {nth}"));
            if !written.hit {
                assert_eq!(written.kept.len(), WRITTEN, "{call} {nth}: nothing failed");
                break;
            }
            failed += 1;
        }
        assert!(failed > 0 || place > 2, "no {call} failed");
    }
}

fn check(written: &Written, at: &str) {
    let Written {
        begun, kept, file, ..
    } = written;
    let tried: Vec<JournalEntry> = (0..WRITTEN).map(|nth| entry(3 * nth)).collect();
    let found = match journal(file) {
        Some(found) => found,
        None if !begun => return,
        None => panic!("{at}: the file is refused"),
    };
    for nth in kept {
        assert!(
            found.contains(&tried[*nth]),
            "{at}: record {nth} of {kept:?} is lost"
        );
    }
    // In their order, each once.
    let mut rest = tried.iter();
    for record in &found {
        assert!(
            rest.any(|it| it == record),
            "{at}: {record:?} was never written there"
        );
    }
    // One call fails: one record may be refused for it.
    assert!(!begun || kept.len() + 1 >= WRITTEN, "{at}: {kept:?}");
}
