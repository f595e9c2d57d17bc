//! Applications that nobody here wrote: each made as it would lie on a person's disk, then taken through `init`, `limit`
//! and `diagnose` by the built program, as its first user would; and faults planted in them (`--faults`).
//!
//! `faults/apps/README.md` documents the format of a planted fault. The bench knows no rule: it reads the program's record.

mod catalog;
mod fingerprint;
mod plant;
mod planted;
mod program;
mod record;
mod score;
mod table;
mod visit;

use crate::program::evidence::Evidence;
use crate::{flags, program as built};
use anyhow::ensure;
use catalog::{APPLICATIONS, Source};
use kneepoint_model::units::parse_duration;
use planted::Planted;
use program::Program;
use score::Score;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long an application, or a fault, may take altogether.
const PATIENCE: Duration = Duration::from_secs(6 * 60);

/// What was asked for on the command line.
#[derive(Debug, Default, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// The faults planted in them (faults/apps/) instead of the applications as they are
    #[arg(long)]
    faults: bool,
    /// This application only, or with --faults this fault; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Where applications are prepared and kept (default: kneepoint-apps in the system's temporary directory)
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where those lie that no package brings: DIR/kanboard, DIR/freshrss, DIR/symfony, DIR/laravel, DIR/piwigo, DIR/opencart,
    /// DIR/matomo, each with its dump
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// What each command is told to take (default: 90s for a limit, 2m for a diagnosis)
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    budget: Option<Duration>,
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// The results for programs too, renewed after each; with --faults, those already in it for the same program are
    /// reused
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    evidence: Evidence,
}

impl Options {
    fn source(&self) -> anyhow::Result<Source> {
        let kept = || std::env::temp_dir().join("kneepoint-apps");
        Ok(Source {
            kept: std::path::absolute(self.dir.clone().unwrap_or_else(kept))?,
            given: self.from.as_ref().map(std::path::absolute).transpose()?,
        })
    }
}

/// Runs the bench with the arguments that follow `apps`. The exit code is 1 when an application needed a correction, a file of
/// one changed, too few faults were named, or the bench was interrupted.
///
/// # Errors
/// The arguments or a fault file cannot be read, the program cannot be built, or the results cannot be written. What an
/// application or a fault does is a row of the table, not an error.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let source = options.source()?;
    ensure!(
        options.faults || !options.evidence.is_judged(),
        "--judge is for planted faults: give --faults as well"
    );
    let mut evidence = options.evidence.clone();
    evidence.prepare()?;
    let program = Program {
        evidence,
        binary: built::find(options.binary.as_deref())?,
        interrupted: flags::raised_by_signals()?,
        budget: options.budget,
    };
    let passed = if options.faults {
        let dir = crate::workspace().join("faults/apps");
        let faults = planted::read_dir(&dir)?;
        let names: Vec<&str> = faults.iter().map(|fault| fault.name.as_str()).collect();
        flags::known("fault", &names, &options.only)?;
        plant_all(&program, &source, faults, options, &mut out)?
    } else {
        let names: Vec<&str> = APPLICATIONS
            .iter()
            .map(|application| application.name)
            .collect();
        flags::known("application", &names, &options.only)?;
        visit_all(&program, &source, options, &mut out)?
    };
    let complete = !program.interrupted.load(Ordering::Relaxed);
    if !complete {
        writeln!(out, "interrupted: the table is not complete")?;
    }
    Ok(if complete && passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One application after the other; whether all of them passed.
fn visit_all(
    program: &Program,
    source: &Source,
    options: &Options,
    out: &mut impl std::io::Write,
) -> anyhow::Result<bool> {
    let mut rows = Vec::new();
    for application in APPLICATIONS {
        if program.interrupted.load(Ordering::Relaxed) {
            break;
        }
        if !wanted(&options.only, application.name) {
            continue;
        }
        progress(&format!("{}:", application.name))?;
        let row = visit::visit(program, source, application)?;
        progress(&format!("      {}", row.in_words()))?;
        rows.push(row);
        flags::write_json(options.json.as_deref(), &table::to_json(&rows))?;
    }
    write!(out, "{}", table::Table(&rows))?;
    Ok(!rows.is_empty() && rows.iter().all(visit::Row::passed))
}

/// One fault after the other; whether enough of them were named.
fn plant_all(
    program: &Program,
    source: &Source,
    faults: Vec<Planted>,
    options: &Options,
    out: &mut impl std::io::Write,
) -> anyhow::Result<bool> {
    let build = built::identity(&program.binary)?;
    let mut score = Score {
        rows: score::read(options.json.as_deref(), &build)?,
        build,
    };
    let count = faults.len();
    for (index, fault) in faults.iter().enumerate() {
        if program.interrupted.load(Ordering::Relaxed) {
            break;
        }
        let is_known = score.has(&fault.name) && program.evidence.has(&fault.name);
        if !wanted(&options.only, &fault.name) || is_known {
            continue;
        }
        progress(&format!(
            "[{}/{count}] {}: {}",
            index + 1,
            fault.name,
            fault.about
        ))?;
        let row = plant::run(program, source, fault)?;
        progress(&format!("      {}", row.in_words()))?;
        // What was interrupted was not judged.
        if !program.interrupted.load(Ordering::Relaxed) {
            score.rows.retain(|known| known.name != row.name);
            score.rows.push(row);
            flags::write_json(options.json.as_deref(), &score.to_json())?;
        }
    }
    score.rows.retain(|row| wanted(&options.only, &row.name));
    write!(out, "{score}")?;
    Ok(score.passed())
}

fn wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|one| one == name)
}

fn progress(line: &str) -> std::io::Result<()> {
    writeln!(std::io::stderr(), "{line}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::read;

    #[test]
    fn options_are_read_and_slips_are_named() {
        let options =
            read::<Options>(&["--faults", "--only", "a", "--only", "b", "--budget", "1m"])
                .expect("valid");
        assert!(options.faults && wanted(&options.only, "b") && !wanted(&options.only, "c"));
        assert_eq!(options.budget, Some(Duration::from_secs(60)));
        assert!(wanted(&read::<Options>(&[]).expect("valid").only, "any"));
        let error = read::<Options>(&["--onyl", "a"]).expect_err("a slip");
        assert!(error.contains("unexpected argument '--onyl'"), "{error}");
        assert!(read::<Options>(&["--budget", "soon"]).is_err());
    }

    #[test]
    fn a_name_that_nothing_has_is_told_with_those_that_there_are() {
        let error = flags::known("fault", &["a", "b"], &["c".into()]).expect_err("unknown");
        assert_eq!(error.to_string(), "there is no fault `c`; there are a, b");
        assert!(flags::known("fault", &["a"], &["a".into()]).is_ok());
    }
}
