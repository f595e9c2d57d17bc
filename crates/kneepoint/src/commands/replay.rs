//! `kneepoint replay`: field reports, reported beside measured.

use crate::args::{OutputArgs, ReplayArgs, is_stdout};
use crate::{FOUND, field_report, session};
use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::sequences::replay::replay;
use kneepoint_model::replay::Replay;
use std::path::PathBuf;
use std::process::ExitCode;

const DIRECTORY: &str = "scenarios/field-reports";

pub(super) fn run(args: &ReplayArgs) -> Result<ExitCode> {
    let paths = paths(args)?;
    one_to_a_file(&args.output, paths.len())?;
    // All are read before the first is replayed: what is wrong in the last is known now and not in an hour.
    let played = paths
        .iter()
        .map(|path| field_report::read(path))
        .collect::<Result<Vec<_>>>()?;
    let mut code = ExitCode::SUCCESS;
    for (played, scenario) in &played {
        let mut is_right = true;
        let ended = session::run(
            "replay",
            scenario,
            &args.ground,
            &args.output,
            |testbed, recorder| {
                replay(testbed, recorder, played)?;
                is_right = recorder.run().replay.as_ref().is_some_and(is_as_reported);
                Ok(())
            },
        )?;
        if ended != ExitCode::SUCCESS {
            return Ok(ended);
        }
        if !is_right {
            code = ExitCode::from(FOUND);
        }
    }
    Ok(code)
}

/// Whether no report would be written over another.
fn one_to_a_file(output: &OutputArgs, reports: usize) -> Result<()> {
    for (format, target) in output.asked() {
        if let Some(target) = target.filter(|target| reports > 1 && !is_stdout(target)) {
            bail!(
                "--{format} {}: a file holds one report, and {reports} are to be replayed; replay them one by one",
                target.display()
            );
        }
    }
    Ok(())
}

/// Whether every claim is met and every cause was named first.
fn is_as_reported(replay: &Replay) -> bool {
    let mut claims = replay.claims.iter();
    let stages = replay.stages.iter();
    let mut diagnosed = stages.filter_map(|stage| stage.diagnosed.as_ref());
    claims.all(|claim| claim.is_met == Some(true))
        && diagnosed.all(|it| it.is_named_first() != Some(false) && it.missed().next().is_none())
}

fn paths(args: &ReplayArgs) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for report in &args.reports {
        if report.ends_with(".toml") {
            paths.push(report.into());
            continue;
        }
        let directory = directory(args)?;
        let mut known = known(&directory)?;
        known.retain(|(name, _)| report == "all" || name.eq_ignore_ascii_case(report));
        if known.is_empty() {
            let names: Vec<String> = self::known(&directory)?
                .into_iter()
                .map(|(name, _)| name)
                .collect();
            bail!(
                "there is no field report `{report}` in {}; there are: all, {}",
                directory.display(),
                names.join(", ")
            );
        }
        paths.extend(known.into_iter().map(|(_, path)| path));
    }
    Ok(paths)
}

/// The reports of a directory by the beginning of their names: `S2` of `S2-pool-and-opcache.toml`.
fn known(directory: &PathBuf) -> Result<Vec<(String, PathBuf)>> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot read the directory {}", directory.display()))?;
    let mut known = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let is_report = path.extension().is_some_and(|end| end == "toml");
        if let Some(stem) = stem.filter(|_| is_report) {
            let name = stem.split('-').next().unwrap_or(stem).to_owned();
            known.push((name, path));
        }
    }
    known.sort();
    Ok(known)
}

/// Where the reports are: in the directory given, below the current directory, or above the program.
fn directory(args: &ReplayArgs) -> Result<PathBuf> {
    if let Some(directory) = &args.dir {
        return Ok(directory.clone());
    }
    match session::bundled(DIRECTORY) {
        Some(directory) => Ok(directory),
        None => bail!(
            "cannot find {DIRECTORY}; run this in Kneepoint's source tree or name the directory with --dir DIR"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_reports_are_not_written_over_one_another() {
        let check = |junit: Option<&str>, reports| {
            let output = OutputArgs {
                junit: junit.map(PathBuf::from),
                ..OutputArgs::nowhere()
            };
            let checked = one_to_a_file(&output, reports);
            checked.map_err(|refused| refused.to_string())
        };
        assert_eq!(check(Some("k.xml"), 1), Ok(()));
        assert_eq!(check(None, 5), Ok(()));
        assert_eq!(check(Some("-"), 5), Ok(()));
        let said = check(Some("k.xml"), 5).expect_err("refused");
        assert!(said.starts_with("--junit k.xml: a file"), "{said}");
    }
}
