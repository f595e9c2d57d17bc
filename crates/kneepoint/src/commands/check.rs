//! `kneepoint check`.

mod fixes;
mod remote;
pub(super) mod watch;

use crate::args::{CheckArgs, OnlyArgs, is_stdout};
use crate::session::print;
use crate::{FAILED, FOUND};
use anyhow::{Context as _, Result};
use kneepoint_check::{CheckFormat, CheckOptions, Report, check, redacted, render};
use kneepoint_model::redact::shown::visible_lines;
use kneepoint_model::units::parse_duration;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(super) fn run(args: &CheckArgs) -> Result<ExitCode> {
    one_to_stdout(args)?;
    if let Some(url) = &args.host {
        return look_there(args, url);
    }
    let options = CheckOptions {
        budget: parse_duration(&args.budget).context("--budget")?,
        ..only(&args.only)
    };
    let (mut report, snapshot) = check(&options);
    if let Some(dir) = &args.fix {
        write_fixes(dir, &report)?;
    }
    if args.redact {
        report = redacted(&report, &snapshot);
    }
    let mut printed = false;
    for (_, path, format) in outputs(args) {
        let Some(path) = path else { continue };
        printed |= deliver(path, &render(&report, format))?;
    }
    if !printed {
        print(render(&report, CheckFormat::Terminal { all: args.all }).trim_end())?;
    }
    Ok(match () {
        () if report.is_blind() => ExitCode::from(FAILED),
        () if !report.is_clean() => ExitCode::from(FOUND),
        // What was not read may be what is wrong.
        () if report.is_partial() => ExitCode::from(FAILED),
        () => ExitCode::SUCCESS,
    })
}

/// What is to be looked at, within the usual time.
fn only(args: &OnlyArgs) -> CheckOptions {
    CheckOptions {
        pids: args.pid.clone(),
        pool: args.pool.clone(),
        container: args.container.clone(),
        app: args.app.clone(),
        ..CheckOptions::default()
    }
}

/// Where a result may be asked for: the option, its file, and the format.
fn outputs(args: &CheckArgs) -> [(&'static str, &Option<PathBuf>, CheckFormat); 4] {
    [
        ("--json", &args.json, CheckFormat::Json),
        ("--markdown", &args.markdown, CheckFormat::Markdown),
        ("--junit", &args.junit, CheckFormat::Junit),
        ("--sarif", &args.sarif, CheckFormat::Sarif),
    ]
}

/// Two results behind one another are none that a program can read.
fn one_to_stdout(args: &CheckArgs) -> Result<()> {
    let all = outputs(args).into_iter();
    let to_stdout = all.filter(|(_, path, _)| path.as_deref().is_some_and(is_stdout));
    let options: Vec<&str> = to_stdout.map(|(option, ..)| option).collect();
    anyhow::ensure!(
        options.len() < 2,
        "{} cannot all write to standard output: give all but one of them a file instead of `-`",
        options.join(", ")
    );
    Ok(())
}

/// Looks at another host: the program there does what it would do here, and its files come back.
fn look_there(args: &CheckArgs, url: &str) -> Result<ExitCode> {
    let mut there = vec!["--budget".to_owned(), args.budget.clone()];
    for (option, value) in [
        ("--pool", &args.only.pool),
        ("--container", &args.only.container),
        ("--app", &args.only.app),
    ] {
        // One word: a name that begins with a dash is a name there, too.
        there.extend(value.iter().map(|value| format!("{option}={value}")));
    }
    there.extend(
        args.only
            .pid
            .iter()
            .flat_map(|pid| ["--pid".to_owned(), pid.to_string()]),
    );
    for (option, asked) in [("--all", args.all), ("--redact", args.redact)] {
        there.extend(asked.then(|| option.to_owned()));
    }
    for (nth, (option, path, _)) in outputs(args).into_iter().enumerate() {
        if path.is_some() {
            there.extend([option.to_owned(), (nth + 1).to_string()]);
        }
    }
    let remote = remote::Remote {
        url,
        ssh_config: args.ssh_config.as_deref(),
        args: there,
        budget: parse_duration(&args.budget).context("--budget")?,
    };
    let found = remote.look()?;
    let mut printed = false;
    // Whoever owns that host may have answered in the program's place.
    for ((_, path, _), text) in outputs(args).into_iter().zip(&found.files[1..]) {
        let Some(path) = path else { continue };
        printed |= deliver(path, &visible_lines(text))?;
    }
    if !printed {
        print(visible_lines(&found.files[0]).trim_end())?;
    }
    Ok(ExitCode::from(found.code))
}

/// Writes a result where it was asked for. Whether that was standard output.
fn deliver(path: &Path, text: &str) -> Result<bool> {
    if is_stdout(path) {
        print(text.trim_end())?;
        return Ok(true);
    }
    std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(false)
}

/// Writes every file that findings propose into a new directory, and what to do with them.
fn write_fixes(dir: &Path, report: &Report) -> Result<()> {
    std::fs::create_dir(dir)
        .with_context(|| format!("cannot make the directory `{}`", dir.display()))?;
    for (name, content) in fixes::files(report) {
        std::fs::write(dir.join(&name), content)
            .with_context(|| format!("cannot write `{name}`"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser as _;

    fn outcome(options: &[&str]) -> Result<()> {
        let words = ["kneepoint", "check"].iter().chain(options);
        match Args::try_parse_from(words).expect("options").command {
            Command::Check(args) => one_to_stdout(&args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn standard_output_takes_one_result() {
        assert!(outcome(&["--json", "-", "--markdown", "x.md"]).is_ok());
        let error = outcome(&["--json", "-", "--sarif", "-"]).expect_err("two");
        let said = error.to_string();
        assert!(
            said.contains("--json, --sarif") && said.contains("a file"),
            "{said}"
        );
    }
}
