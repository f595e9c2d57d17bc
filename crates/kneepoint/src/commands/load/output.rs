//! Where results go: files, and standard output.

use crate::args::LoadArgs;
use crate::say::say_line;
use crate::session::{print, styles, write_text};
use anyhow::{Result, bail};
use kneepoint_model::Validity;
use kneepoint_report::{LoadFormat, LoadRun, Styles, render_load};
use std::path::{Path, PathBuf};

/// What is written where.
pub(super) struct Sinks(Vec<(LoadFormat, PathBuf)>);

impl Sinks {
    /// The files that were asked for. Looked at before the load, so that minutes of it are not lost to a misspelt
    /// directory.
    pub(super) fn of(args: &LoadArgs, targets: usize) -> Result<Self> {
        let asked = [
            ("--json", LoadFormat::Json, &args.json),
            ("--csv", LoadFormat::Csv, &args.csv),
            ("--html", LoadFormat::Html, &args.html),
            ("--hdr", LoadFormat::Percentiles, &args.hdr),
        ];
        let mut sinks = Vec::new();
        for (flag, format, path) in asked {
            if let Some(path) = path {
                check(flag, path)?;
                sinks.push((format, path.clone()));
            }
        }
        if args.hdr.is_some() && targets > 1 {
            bail!("--hdr holds the distribution of one target, and there are {targets}");
        }
        if sinks.iter().filter(|(_, path)| is_stdout(path)).count() > 1 {
            bail!("standard output can take one format only: write the others to files");
        }
        Ok(Self(sinks))
    }

    /// Writes every file, and the summary to standard output unless a format goes there.
    pub(super) fn write(&self, run: &LoadRun) -> Result<()> {
        for (format, path) in &self.0 {
            write_text(path, &render_load(run, *format, Styles::Plain))?;
        }
        if self.0.iter().any(|(_, path)| is_stdout(path)) {
            warn(run);
            return Ok(());
        }
        let mut text = render_load(run, LoadFormat::Text, styles());
        if !self.0.is_empty() {
            text.push('\n');
        }
        for (_, path) in &self.0 {
            text.push_str(&format!("written: {}\n", path.display()));
        }
        print(&text)
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn check(flag: &str, path: &Path) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    if path.is_dir() {
        bail!(
            "{flag} {}: this is a directory; name a file in it",
            path.display()
        );
    }
    match path.parent() {
        Some(parent) if parent != Path::new("") && !parent.is_dir() => bail!(
            "{flag} {}: there is no directory {}; make it first",
            path.display(),
            parent.display()
        ),
        _ => Ok(()),
    }
}

/// Says on standard error what the summary would have said of numbers and thresholds that do not hold.
fn warn(run: &LoadRun) {
    for hop in &run.hops {
        if let Validity::Invalid { because } = &hop.point.validity {
            let because = because.join("; ");
            say_line(&format!("kneepoint: {}: INVALID: {because}", hop.name));
        }
        for (_, judged) in hop.judgements.iter().filter(|(_, judged)| !judged.held) {
            say_line(&format!(
                "kneepoint: {}: BROKEN: {}",
                hop.name, judged.sentence
            ));
        }
    }
}
