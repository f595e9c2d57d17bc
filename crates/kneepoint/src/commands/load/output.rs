//! Where results go: files, and standard output.

use crate::args::{LoadArgs, is_stdout};
use crate::say::say_line;
use crate::session::results::check_places;
use crate::session::{print, styles, write_text};
use anyhow::{Error, Result, bail};
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
            ("json", LoadFormat::Json, &args.json),
            ("csv", LoadFormat::Csv, &args.csv),
            ("html", LoadFormat::Html, &args.html),
            ("hdr", LoadFormat::Percentiles, &args.hdr),
        ];
        check_places(&asked.map(|(flag, _, path)| (flag, path.as_deref())), None)?;
        if args.hdr.is_some() && targets > 1 {
            bail!("--hdr holds the distribution of one target, and there are {targets}");
        }
        let asked = asked.into_iter();
        let sinks = asked.filter_map(|(_, format, path)| Some((format, path.clone()?)));
        Ok(Self(sinks.collect()))
    }

    /// Writes every file, and the summary to standard output unless a format goes there. Says what could not be written; all
    /// else is.
    pub(super) fn write(&self, run: &LoadRun) -> Vec<Error> {
        let (written, mut failures) = self.write_files(run);
        if self.0.iter().any(|(_, path)| is_stdout(path)) {
            warn(run);
            return failures;
        }
        let mut text = render_load(run, LoadFormat::Text, styles());
        if !written.is_empty() {
            text.push('\n');
        }
        for path in written {
            text.push_str(&format!("written: {}\n", path.display()));
        }
        failures.extend(print(&text).err());
        failures
    }

    /// The files that were written, and why others could not be.
    fn write_files(&self, run: &LoadRun) -> (Vec<&Path>, Vec<Error>) {
        let (mut written, mut failures) = (Vec::new(), Vec::new());
        for (format, path) in &self.0 {
            match write_text(path, &render_load(run, *format, Styles::Plain)) {
                Ok(()) => written.push(path.as_path()),
                Err(error) => failures.push(error),
            }
        }
        (written, failures)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_takes_no_other_along() {
        let directory = tempfile::tempdir().expect("temp dir");
        let [lost, kept] = ["nowhere/a.html", "a.csv"].map(|name| directory.path().join(name));
        let sinks = Sinks(vec![
            (LoadFormat::Html, lost),
            (LoadFormat::Csv, kept.clone()),
        ]);
        let (written, failures) = sinks.write_files(&LoadRun::default());
        assert_eq!(written, [kept.as_path()]);
        assert!(kept.is_file());
        let said: Vec<String> = failures.iter().map(ToString::to_string).collect();
        assert!(
            matches!(&said[..], [one] if one.contains("a.html")),
            "{said:?}"
        );
    }
}
