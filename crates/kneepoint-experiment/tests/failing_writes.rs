//! Writes of the run file that go wrong: each of them is cut short, damaged or refused in turn.

#[path = "failing_writes/calls.rs"]
mod calls;
#[path = "../../../tests/skipped.rs"]
mod skip;

use kneepoint_experiment::{Record, RunStore};
use kneepoint_model::Run;
use kneepoint_model::redact::Secrets;
use kneepoint_model::run::{EntryKind, JournalEntry, RUN_VERSION};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Records of a run.
const RECORDS: usize = 12;

fn run() -> Run {
    Run {
        version: RUN_VERSION,
        id: "20260101-000000-test-limit".into(),
        command: "limit".into(),
        ..Run::default()
    }
}

/// Records of different lengths: some fit into a page of the file, some need several.
fn entry(nth: usize) -> JournalEntry {
    JournalEntry {
        at_s: nth as f64,
        kind: EntryKind::Stage,
        text: format!("{nth}:{}", "x".repeat(nth * 937 % 9000)),
    }
}

fn append(store: &mut RunStore, record: &Record) -> bool {
    store.append(1.0, record, &Secrets::default()).is_ok()
}

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

/// The journal of a file; `None` where it is refused, which must be in words.
fn journal(path: &Path) -> Option<Vec<JournalEntry>> {
    match RunStore::read(path) {
        Ok(run) => Some(run.journal),
        Err(error) => {
            assert!(error.to_string().contains("kneepoint.sqlite"), "{error}");
            None
        }
    }
}

/// A power cut in the middle of any write: what was over before is there, and what was under way is not.
fn cut_short_or_damaged() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = RunStore::create(directory.path(), &run()).expect("create");
    let (file, log) = (store.path().to_owned(), log_of(store.path()));
    let length = || fs::metadata(&log).expect("a log").len() as usize;
    assert!(append(&mut store, &Record::Header(Box::new(run()))));
    let begun = length();
    let ends: Vec<usize> = (0..RECORDS)
        .map(|nth| {
            assert!(append(&mut store, &Record::Journal(entry(nth))));
            length()
        })
        .collect();
    let (pages, written) = (
        fs::read(&file).expect("pages"),
        fs::read(&log).expect("a log"),
    );
    // As if the program had been killed.
    std::mem::forget(store);
    let read = |written: &[u8]| {
        let copies = tempfile::tempdir().expect("a directory");
        let copy = copies.path().join("x.kneepoint.sqlite");
        fs::write(&copy, &pages).expect("written");
        fs::write(log_of(&copy), written).expect("written");
        journal(&copy)
    };
    let all: Vec<JournalEntry> = (0..RECORDS).map(entry).collect();
    let around = ends.iter().flat_map(|end| [end - 1, *end, end + 1]);
    for cut in (0..written.len()).step_by(1531).chain(around) {
        let cut = cut.min(written.len());
        let kept = ends.iter().filter(|end| **end <= cut).count();
        match read(&written[..cut]) {
            Some(found) => assert_eq!(found, all[..kept], "cut at {cut}"),
            None => assert!(cut < begun, "cut at {cut}: {kept} records are lost"),
        }
    }
    for at in (0..written.len()).step_by(3067) {
        let mut damaged = written.clone();
        damaged[at] ^= 0x40;
        let kept = ends.iter().filter(|end| **end <= at).count();
        let found = read(&damaged).unwrap_or_default();
        assert!(
            all.starts_with(&found),
            "damaged at {at}: something else is read"
        );
        assert!(
            found.len() >= kept || at < begun,
            "damaged at {at}: {} of {kept}",
            found.len()
        );
    }
}

/// A file that may not grow beyond any size: a write there is short, and the next fails. What was said to be kept is kept,
/// what was not is not there, and the file goes on when there is room again.
fn refused() {
    // Without a handler the kernel ends the program.
    let handled = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, handled).expect("a handler");
    let usual = getrlimit(Resource::Fsize);
    let mut refusals = 0;
    for most in (0..160_000).step_by(4099) {
        let directory = tempfile::tempdir().expect("a directory");
        let limit = Rlimit {
            current: Some(most),
            maximum: usual.maximum,
        };
        setrlimit(Resource::Fsize, limit).expect("a limit");
        let made = RunStore::create(directory.path(), &run());
        let mut kept = Vec::new();
        let written = made.map(|mut store| {
            let header = append(&mut store, &Record::Header(Box::new(run())));
            let entries = (0..RECORDS).map(entry);
            kept.extend(entries.filter(|it| append(&mut store, &Record::Journal(it.clone()))));
            refusals += usize::from(kept.len() < RECORDS);
            (header, store)
        });
        setrlimit(Resource::Fsize, usual).expect("no limit");
        let Ok((header, mut store)) = written else {
            continue;
        };
        let found = journal(store.path());
        assert!(
            found.as_ref().is_some_and(|it| *it == kept) || !header,
            "at {most}: {found:?}"
        );
        let last = entry(RECORDS);
        assert!(
            append(&mut store, &Record::Journal(last.clone())),
            "at {most}"
        );
        kept.push(last);
        assert_eq!(journal(store.path()), Some(kept), "at {most}");
    }
    assert!(refusals > 5, "{refusals} files were too small");
}

/// One test: a limit holds for the whole process.
#[test]
fn no_record_that_was_kept_is_lost_whatever_write_fails() {
    cut_short_or_damaged();
    refused();
    calls::each_fails();
}
