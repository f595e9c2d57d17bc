//! An application as its first user meets it: `init`, `limit`, `diagnose`, and not a file of it changed.

use super::PATIENCE;
use super::catalog::{Application, Source, copy, scratch};
use super::fingerprint::Fingerprint;
use super::program::Program;
use super::record::{Named, Record};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant};

/// What came of an application.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Why it was not tried; `None` when it was.
    pub(super) skipped: Option<String>,
    /// What went wrong, the command first; `None` when everything ran as `init` wrote it.
    pub(super) failed: Option<String>,
    /// What was changed in the application's directory, and by which command.
    pub(super) changed: Option<String>,
    /// From the beginning of `init` to the end of `limit`.
    pub(super) first_limit: Option<Duration>,
    /// Low, estimate and high, per second.
    pub(super) limit: Option<[f64; 3]>,
    /// What was measured.
    pub(super) pages: Vec<String>,
    /// Share of the CPU that the account explains.
    pub(super) explained: Option<f64>,
    pub(super) named: Option<Named>,
    /// Everything together.
    pub(super) elapsed: Duration,
}

impl Row {
    fn new(application: &Application) -> Self {
        Self {
            name: application.name,
            ..Self::default()
        }
    }

    /// Whether it needed no correction and was left as it was. One that was skipped did not fail.
    pub(super) fn passed(&self) -> bool {
        self.failed.is_none() && self.changed.is_none()
    }

    /// One line for progress.
    pub(super) fn in_words(&self) -> String {
        if let Some(why) = &self.skipped {
            return format!("skipped: {why}");
        }
        let named = self
            .named
            .as_ref()
            .map_or("nothing", |named| named.code.as_str());
        let failed = self.failed.as_ref().or(self.changed.as_ref());
        let word = failed.map_or_else(
            || format!("ok, named {named}"),
            |words| format!("FAILED: {words}"),
        );
        format!("{word} in {} s", self.elapsed.as_secs())
    }
}

/// Takes an application through the commands.
///
/// # Errors
/// The temporary directory cannot be used. What the program does to the application is in the row.
pub(super) fn visit(
    program: &Program,
    source: &Source,
    application: &Application,
) -> anyhow::Result<Row> {
    let mut row = Row::new(application);
    let dir = match source.directory(application) {
        Ok(dir) => dir,
        Err(why) => {
            row.skipped = Some(why);
            return Ok(row);
        }
    };
    let scratch = scratch()?;
    let own = scratch.path().join(application.name);
    copy(&dir, &own)?;
    let before = Fingerprint::of(&own)?;
    let began = Instant::now();
    walk(program, &own, scratch.path(), began, &before, &mut row)?;
    if row.failed.is_none() {
        row.failed = application
            .doubt(&row.pages)
            .map(|words| format!("limit: {words}"));
    }
    row.elapsed = began.elapsed();
    Ok(row)
}

/// The commands, until one fails.
fn walk(
    program: &Program,
    own: &Path,
    scratch: &Path,
    began: Instant,
    before: &Fingerprint,
    row: &mut Row,
) -> anyhow::Result<()> {
    let left = || PATIENCE.saturating_sub(began.elapsed());
    let started = program.init(own, left());
    note_change("init", own, before, row)?;
    if let Err(words) = started {
        row.failed = Some(format!("init: {words}"));
        return Ok(());
    }
    let scenario = own.join("kneepoint.toml");
    for command in ["limit", "diagnose"] {
        let kept = match command {
            "diagnose" => program.evidence.arguments(row.name),
            _ => Vec::new(),
        };
        let more: Vec<&OsStr> = kept.iter().map(OsStr::new).collect();
        let record = program.measure(command, &scenario, &more, scratch, left())?;
        let took = began.elapsed();
        note_change(command, own, before, row)?;
        let read = record.and_then(|value| Record(&value).finished().map(|()| value));
        match read {
            Err(words) => {
                row.failed = Some(format!("{command}: {words}"));
                return Ok(());
            }
            Ok(value) => {
                let record = Record(&value);
                if command == "limit" {
                    row.first_limit = record.limit().map(|_| took);
                    row.limit = record.limit();
                    row.pages = record.measured();
                }
                row.explained = record.explained();
                row.named = record.named();
            }
        }
    }
    Ok(())
}

fn note_change(
    command: &str,
    own: &Path,
    before: &Fingerprint,
    row: &mut Row,
) -> anyhow::Result<()> {
    if row.changed.is_none() {
        let changed = before.changed(&Fingerprint::of(own)?);
        row.changed = changed.map(|what| format!("{command}: {what}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::evidence::Evidence;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Takes an application through a shell script in the place of the program.
    fn visited(script: &str) -> Row {
        let dir = tempfile::tempdir().expect("directory");
        fs::create_dir(dir.path().join("dokuwiki")).expect("directory");
        fs::write(dir.path().join("dokuwiki/page.txt"), "text").expect("file");
        let binary = dir.path().join("program");
        fs::write(&binary, format!("#!/bin/sh\n{script}\n")).expect("script");
        fs::set_permissions(&binary, PermissionsExt::from_mode(0o755)).expect("mode");
        let program = Program {
            evidence: Evidence::default(),
            binary,
            interrupted: Arc::new(AtomicBool::new(false)),
            budget: Some(Duration::from_secs(1)),
        };
        let source = Source {
            kept: dir.path().to_owned(),
            given: None,
        };
        let dokuwiki = super::super::catalog::find("dokuwiki").expect("is known");
        visit(&program, &source, &dokuwiki).expect("runs")
    }

    const RECORD: &str = r#"{"run":{"ended":"finished","scenario":{"workload":[{"path":"/","expect":{"body_contains":["The Harbour Notes"]}}]},"limits":[{"arm":"base","rate_hz":{"low":9,"estimate":10,"high":11}}]}}"#;

    /// `init` writes the scenario; the others check it and write a record where `--json` says.
    fn script(also: &str) -> String {
        format!(
            "if [ $1 = init ]; then echo ok > $2/kneepoint.toml; exit 0; fi\n\
             test -f $2 || exit 2\ndir=$(dirname $2); {also}\nshift 7\necho '{RECORD}' > $2"
        )
    }

    #[test]
    fn an_application_that_runs_as_init_wrote_it_passes() {
        let row = visited(&script(":"));
        assert!(row.passed(), "{row:?}");
        assert_eq!(row.limit, Some([9.0, 10.0, 11.0]));
        assert!(row.first_limit.is_some());
    }

    #[test]
    fn what_failed_is_quoted_and_a_changed_file_is_told() {
        let refused = visited("echo 'error: no kind' >&2; exit 2");
        assert_eq!(refused.failed.as_deref(), Some("init: error: no kind"));
        let wrote = visited(&script("echo changed > $dir/page.txt"));
        assert_eq!(
            wrote.changed.as_deref(),
            Some("limit: ./page.txt was changed")
        );
        assert!(!wrote.passed() && wrote.failed.is_none());
    }
}
