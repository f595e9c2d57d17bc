//! `kneepoint report`: a stored run, rendered again.

use crate::args::ReportArgs;
use crate::{session, stored};
use anyhow::Result;
use kneepoint_experiment::RunStore;
use kneepoint_report::{Options, Styles};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(in crate::commands) fn run(args: &ReportArgs) -> Result<ExitCode> {
    let path = stored::find(&args.runs, args.run.as_deref())?;
    let run = RunStore::read(&path)?;
    let (format, output) = match &args.html {
        Some(page) => ("html", Some(page)),
        None => (args.format.as_str(), args.output.as_ref()),
    };
    let styles = if output.is_none() {
        session::styles()
    } else {
        Styles::Plain
    };
    let files = vec![("run file".to_owned(), path.display().to_string())];
    let against = match &args.against {
        Some(name) => Some(Box::new(RunStore::read(&stored::find(
            &args.runs,
            Some(name),
        )?)?)),
        None => None,
    };
    let options = Options {
        styles,
        files,
        against,
    };
    let text = session::rendered(&run, format, &options)?;
    session::write_text(output.map_or(Path::new("-"), PathBuf::as_path), &text)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_model::Run;
    use kneepoint_model::run::RUN_VERSION;
    use kneepoint_report::{FORMATS, render};

    /// A stored run of version 1, read from a copy: reading opens the database for writing.
    fn of_version_1(command: &str) -> Run {
        let name = format!("{command}-of-version-1.sqlite");
        let stored = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/runs")
            .join(&name);
        let directory = tempfile::tempdir().expect("a temporary directory");
        let copy = directory.path().join(&name);
        std::fs::copy(stored, &copy).expect("the stored run");
        RunStore::read(&copy).expect("it reads")
    }

    /// Every format has something of the run, and the summary says this.
    #[track_caller]
    fn check(run: &Run, says: &[&str]) {
        assert_eq!(run.version, RUN_VERSION);
        for format in FORMATS {
            let text = render(run, format, &Options::default());
            assert!(text.lines().count() > 3, "{}: {text}", format.name);
        }
        let summary = render(run, FORMATS[0], &Options::default());
        let words: Vec<&str> = summary.split_whitespace().collect();
        let summary = words.join(" ");
        for expected in says {
            assert!(summary.contains(expected), "{expected} in {summary}");
        }
    }

    #[test]
    fn a_limit_of_version_1_is_rendered_in_every_format() {
        check(
            &of_version_1("limit"),
            &["R* is 256/s (235 to 279)", "8 steps in 41 s of load"],
        );
    }

    #[test]
    fn a_tune_of_version_1_is_rendered_in_every_format() {
        check(
            &of_version_1("tune"),
            &[
                "R* rose from 38.5/s (37.2 to 39.8) to 118/s (114 to 121)",
                "before: 18 steps in 3 min 30 s of load",
                "OPC-01",
                "p95 breaks the SLO first",
            ],
        );
    }
}
