//! The fault bench: real misconfigurations injected into real stacks, and healthy stacks beside them, each diagnosed by
//! the built program and compared with what its file says must be named first.
//!
//! `faults/README.md` documents the format of a fault. Everything here works on the program's record of a run, as
//! anybody else would: the bench knows no rule and no server.

mod fault;
mod kept;
mod runner;
mod table;
mod times;
mod verdict;

use crate::flags;
use crate::program;
use crate::program::evidence::Evidence;
use fault::Fault;
use kept::Kept;
use runner::Runner;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use table::{Outcome, Row, Table};

pub(crate) use fault::is_code;
pub(crate) use runner::last_words;
pub(crate) use table::write_columns;

/// What was asked for on the command line.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// Directory of *.toml fault files (default: faults/ of this repository)
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Run this fault only: its file name without .toml; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Also write the results there, renewed after every fault; results already in it for the same program are reused
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    evidence: Evidence,
}

/// Runs the bench with the arguments that follow `faults`. The exit code is 1 when the bench is not passed
/// ([`Table::passed`]) or was interrupted.
///
/// # Errors
/// The arguments or a fault file cannot be read, the program cannot be built, or the results cannot be written. A fault
/// whose diagnosis fails is a row of the table, not an error.
pub(crate) fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let dir = options.dir.unwrap_or_else(|| repository.join("faults"));
    let faults = flags::only(fault::read_dir(&dir)?, "fault", &options.only, |fault| {
        &fault.name
    })?;
    let binary = program::find(options.binary.as_deref())?;
    let interrupted = flags::raised_by_signals()?;
    let mut evidence = options.evidence;
    evidence.prepare()?;
    let runner = Runner {
        binary,
        evidence,
        patience: Duration::from_secs(300),
        grace: Duration::from_secs(30),
        interrupted: Arc::clone(&interrupted),
    };
    let known = Kept::read(options.json.as_deref(), program::identity(&runner.binary)?)?;
    let table = run_all(&runner, faults, &known)?;
    write!(out, "{table}")?;
    let complete = !interrupted.load(Ordering::Relaxed);
    if !complete {
        writeln!(out, "interrupted: the table is not complete")?;
    }
    Ok(if complete && table.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One fault after the other: two at once would take each other's processor.
fn run_all(runner: &Runner, faults: Vec<Fault>, kept: &Kept) -> anyhow::Result<Table> {
    let mut progress = std::io::stderr();
    let mut table = Table::default();
    let count = faults.len();
    for (index, fault) in faults.into_iter().enumerate() {
        if runner.interrupted.load(Ordering::Relaxed) {
            break;
        }
        writeln!(
            progress,
            "[{}/{count}] {}: {}",
            index + 1,
            fault.name,
            fault.about
        )?;
        let known = kept.row(&fault);
        let row = match known.filter(|_| runner.evidence.has(&fault.name)) {
            Some(row) => row,
            None => ask(runner, fault)?,
        };
        // What was interrupted was not judged.
        if runner.interrupted.load(Ordering::Relaxed) {
            break;
        }
        writeln!(progress, "      {}", row.in_words())?;
        table.rows.push(row);
        kept.write(&table)?;
    }
    Ok(table)
}

/// Has a fault diagnosed, unless the machine lacks what it requires.
fn ask(runner: &Runner, fault: Fault) -> anyhow::Result<Row> {
    let judged_anew = runner.evidence.judged(&runner.binary, &fault.name);
    let lacking = fault.requires.iter().find_map(|it| it.lacking());
    let (elapsed, record) = match (judged_anew, lacking) {
        (Some(record), _) => (Duration::ZERO, record.map(|record| record.to_string())),
        (None, Some(lacking)) => {
            return Ok(Row::new(fault, Duration::ZERO, Outcome::Skipped(lacking)));
        }
        (None, None) => runner.diagnose(&fault)?,
    };
    let judged = record.and_then(|text| verdict::judge(&fault.expect, &fault.demands, &text));
    let outcome = judged.map_or_else(Outcome::Failed, |verdict| {
        Outcome::Judged(Box::new(verdict))
    });
    Ok(Row::new(fault, elapsed, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(args: &[&str], expected: Result<Options, &str>) {
        let read: Result<Options, String> = flags::read(args);
        match (read, expected) {
            (Ok(read), Ok(expected)) => assert_eq!(read, expected),
            (Err(read), Err(part)) => assert!(read.contains(part), "{read}"),
            (read, _) => panic!("unexpected: {read:?}"),
        }
    }

    #[test]
    fn options_are_read_and_slips_are_named() {
        check(&[], Ok(Options::default()));
        check(
            &["--only", "a", "--only", "b", "--json", "out.json"],
            Ok(Options {
                only: vec!["a".into(), "b".into()],
                json: Some("out.json".into()),
                ..Options::default()
            }),
        );
        check(&["--dir"], Err("a value is required for '--dir <DIR>'"));
        check(&["--onyl", "a"], Err("unexpected argument '--onyl'"));
    }

    #[test]
    fn faults_are_selected_by_name() {
        let fault = |name: &str| {
            let text = "about = \"x\"\nscenario = \"s.toml\"\nexpect = \"healthy\"\n";
            Fault::read(Path::new(&format!("{name}.toml")), text).expect(name)
        };
        let all = || vec![fault("a"), fault("b"), fault("c")];
        let names = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            flags::only(all(), "fault", &only, |fault| &fault.name)
                .map(|faults| {
                    faults
                        .into_iter()
                        .map(|fault| fault.name)
                        .collect::<Vec<_>>()
                })
                .map_err(|error| error.to_string())
        };
        assert_eq!(names(&[]), Ok(vec!["a".into(), "b".into(), "c".into()]));
        assert_eq!(names(&["c", "a"]), Ok(vec!["a".into(), "c".into()]));
        assert_eq!(
            names(&["d"]),
            Err("there is no fault `d`; there are a, b, c".into())
        );
    }
}
