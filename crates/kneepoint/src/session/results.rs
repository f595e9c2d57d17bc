//! Where the results of a run go: files, and standard output.

use super::{print, rendered, styles, without_its_failure, write_new, write_text};
use crate::args::{OutputArgs, is_stdout};
use crate::in_plain_words;
use crate::progress::Terminal;
use crate::say::say_line;
use anyhow::{Error, Result, bail};
use kneepoint_model::Run;
use kneepoint_report::{Options, Styles};
use std::path::{Path, PathBuf};

/// Whether the results of a run can go where they are to go. Looked at before the run, so that it is not lost to a misspelt
/// directory.
pub(crate) fn check(output: &OutputArgs) -> Result<()> {
    check_places(&output.asked(), Some(&output.runs))
}

/// Whether there is a place for each format that was asked for, and no place is asked for twice. `made` is a directory that the
/// command makes by itself.
pub(crate) fn check_places(asked: &[(&str, Option<&Path>)], made: Option<&Path>) -> Result<()> {
    let mut to_stdout = 0;
    for (format, path) in asked {
        match path {
            Some(path) if is_stdout(path) => to_stdout += 1,
            Some(path) => check_file(format, path, made)?,
            None => {}
        }
    }
    if to_stdout > 1 {
        bail!("standard output can take one format only: write the others to files");
    }
    let files = asked
        .iter()
        .filter_map(|(format, path)| Some((format, (*path)?)));
    let mut known: Vec<(&str, PathBuf)> = Vec::new();
    for (format, path) in files.filter(|(_, path)| !is_stdout(path)) {
        let path = std::path::absolute(path)?;
        if let Some((other, _)) = known.iter().find(|(_, other)| *other == path) {
            bail!(
                "--{other} and --{format} name the same file: {}",
                path.display()
            );
        }
        known.push((format, path));
    }
    Ok(())
}

fn check_file(format: &str, path: &Path, made: Option<&Path>) -> Result<()> {
    if path.is_dir() {
        bail!(
            "--{format} {}: this is a directory; name a file in it",
            path.display()
        );
    }
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let will_be = |parent| made.is_some_and(|made| comes_with(parent, made));
    match parent {
        Some(parent) if !parent.is_dir() && !will_be(parent) => bail!(
            "--{format} {}: there is no directory {}; make it first",
            path.display(),
            parent.display()
        ),
        _ => Ok(()),
    }
}

/// Whether a directory is there once another was made: it is that one, or above it.
fn comes_with(directory: &Path, made: &Path) -> bool {
    match (std::path::absolute(directory), std::path::absolute(made)) {
        (Ok(directory), Ok(made)) => made.starts_with(directory),
        _ => false,
    }
}

/// Writes what was asked for, and the summary unless a format goes to standard output. What cannot be written is said, and takes
/// nothing else along. Whether all was written.
pub(super) fn write(
    run: &Run,
    output: &OutputArgs,
    path: Option<&Path>,
    terminal: &Terminal,
) -> bool {
    let mut files: Vec<(String, String)> = Vec::new();
    if let Some(path) = path {
        files.push(("run file".into(), path.display().to_string()));
    }
    if !output.no_report && output.html.is_none() {
        let page = output.runs.join(format!("{}.html", run.id));
        let text = rendered(run, "html", &Options::default());
        match text.and_then(|text| write_new(&page, &text).map_err(Error::from)) {
            Ok(()) => files.push(("report".into(), page.display().to_string())),
            Err(error) => terminal.line(&format!(
                "kneepoint: cannot write the report {}: {error}",
                page.display()
            )),
        }
    }
    let mut failures = write_asked(run, output, &mut files);
    if !output.takes_stdout() {
        failures.extend(summarise(run, output.aside, files).err());
    }
    for failure in &failures {
        let why = in_plain_words(&format!("{failure:#}"));
        terminal.line(&format!("kneepoint: {why}"));
    }
    failures.is_empty()
}

/// Prints the summary: to standard error where standard output is another run's.
fn summarise(run: &Run, aside: bool, files: Vec<(String, String)>) -> Result<()> {
    let options = Options {
        styles: if aside { Styles::Plain } else { styles() },
        files,
        against: None,
    };
    let text = rendered(&without_its_failure(run), "terminal", &options)?;
    if aside {
        say_line(text.trim_end());
        return Ok(());
    }
    print(&text)
}

/// Writes each format that was asked for, and says why some could not be written.
fn write_asked(run: &Run, output: &OutputArgs, files: &mut Vec<(String, String)>) -> Vec<Error> {
    let mut failures = Vec::new();
    for (format, target) in output.asked() {
        let Some(target) = target else { continue };
        let text = rendered(run, format, &Options::default());
        match text.and_then(|text| write_text(target, &text)) {
            Ok(()) if format == "html" && !is_stdout(target) => {
                files.push(("report".into(), target.display().to_string()));
            }
            Ok(()) => {}
            Err(error) => failures.push(error),
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_takes_no_other_along() {
        let directory = tempfile::tempdir().expect("temp dir");
        let place = |name: &str| Some(directory.path().join(name));
        let output = OutputArgs {
            markdown: place("nowhere/comment.md"),
            junit: place("kneepoint.xml"),
            html: place("page.html"),
            ..OutputArgs::nowhere()
        };
        let mut files = Vec::new();
        let failures = write_asked(&Run::default(), &output, &mut files);
        let said: Vec<String> = failures.iter().map(ToString::to_string).collect();
        assert!(
            matches!(&said[..], [one] if one.contains("comment.md")),
            "{said:?}"
        );
        assert!(directory.path().join("kneepoint.xml").is_file());
        assert_eq!(files.len(), 1, "the page is named");
    }

    /// What is said of results that are to go there before the run; nothing where they can.
    fn said(json: &Path, html: &Path, runs: &Path) -> String {
        let checked = check(&OutputArgs {
            runs: runs.to_owned(),
            json: Some(json.to_owned()),
            html: Some(html.to_owned()),
            ..OutputArgs::nowhere()
        });
        checked.map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn where_nothing_can_be_written_is_said_before_the_run() {
        let directory = tempfile::tempdir().expect("temp dir");
        let place = |name: &str| directory.path().join(name);
        let (runs, stdout) = (place("all/runs"), PathBuf::from("-"));
        for (json, html, words) in [
            (place("a.json"), stdout.clone(), ""),
            ("a.json".into(), place("a.html"), ""),
            // The command makes the directory of its runs.
            (place("all/a.json"), place("all/runs/a.html"), ""),
            (place("ci/a.json"), stdout.clone(), "/ci; make it first"),
            (place("a.json"), place(""), "this is a directory"),
            (
                place("a"),
                place("a"),
                "--json and --html name the same file",
            ),
            (stdout.clone(), stdout, "one format only"),
        ] {
            let said = said(&json, &html, &runs);
            assert_eq!(said.is_empty(), words.is_empty(), "{said}");
            assert!(said.contains(words), "{said}");
        }
    }
}
