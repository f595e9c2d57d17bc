//! `kneepoint compare`: several configurations on one bench.

use crate::args::{CompareArgs, GroundArgs, OutputArgs, RunArgs};
use crate::session::{self, results};
use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::sequences::compare::variants::on_runtime;
use kneepoint_experiment::sequences::compare::{Entry, contest};
use kneepoint_model::{Scenario, SettingKey, units};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

pub(super) fn run(args: &CompareArgs) -> Result<ExitCode> {
    // Before the tuning, which comes first.
    results::check(&args.output)?;
    let budget = units::parse_duration(&args.budget).context("--budget")?;
    let (mut entries, mut notes) = entries(args)?;
    check(&entries)?;
    if !args.as_is {
        let each = units::parse_duration(&args.tune_budget).context("--tune-budget")?;
        for entry in &mut entries {
            let outcome = tune(args, entry, each)?;
            if outcome == ExitCode::from(crate::UNDECIDED) {
                notes.push(format!(
                    "tuning of {} left changes that could not be judged: it is compared without them",
                    entry.name
                ));
            } else if outcome != ExitCode::SUCCESS {
                return Ok(outcome);
            }
        }
    }
    let first = entries[0].scenario.clone();
    session::run(
        "compare",
        &first,
        &args.ground,
        &args.output,
        |testbed, recorder| {
            notes.into_iter().for_each(|note| recorder.warn(note));
            contest(testbed, recorder, entries, budget)
        },
    )
}

/// Who is compared, as the arguments say: scenarios, then runtimes or settings on the first of them; and what a reader
/// must know of them.
fn entries(args: &CompareArgs) -> Result<(Vec<Entry>, Vec<String>)> {
    let mut entries: Vec<Entry> = Vec::new();
    for (own, scenario) in own_names(&args.scenarios)? {
        let name = name_for(&own, &entries);
        entries.push(Entry::as_configured(name, scenario));
    }
    let base = entries[0].scenario.clone();
    let mut runtimes = Vec::new();
    let mut notes = Vec::new();
    for runtime in &args.runtime {
        let (scenario, lost) = on_runtime(&base, runtime)?;
        notes.extend(lost.iter().map(|name| {
            format!("{runtime} has no setting php.{name}, so it is compared without it")
        }));
        runtimes.push(Entry::as_configured(runtime.clone(), scenario));
    }
    // The scenario itself is one of its runtimes.
    if !runtimes.is_empty() {
        entries.splice(0..1, runtimes);
    }
    for text in &args.with {
        let (name, settings) = text.split_once(':').with_context(|| {
            format!(
                "--with {text}: write NAME:TIER.NAME=VALUE, such as jit:php.opcache.jit=tracing"
            )
        })?;
        let settings = each_setting(settings);
        let scenario =
            read(&args.scenarios[0], &settings).with_context(|| format!("--with {text}"))?;
        entries.push(Entry::as_configured(name.to_owned(), scenario));
    }
    Ok((entries, notes))
}

/// The settings of `--with`, between commas. A comma within a value, as in a statement for the database, stays: what follows it
/// is no TIER.NAME=VALUE.
fn each_setting(text: &str) -> Vec<String> {
    let begins = |piece: &str| {
        let key = piece.split_once('=').map(|(key, _)| key.trim());
        key.is_some_and(|key| key.parse::<SettingKey>().is_ok())
    };
    let mut settings: Vec<String> = Vec::new();
    for piece in text.split(',') {
        match settings.last_mut() {
            Some(last) if !begins(piece) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => settings.push(piece.to_owned()),
        }
    }
    settings
}

/// The scenarios, each with the name of its application; with that of its file where several are of one application.
fn own_names(paths: &[PathBuf]) -> Result<Vec<(String, Scenario)>> {
    let scenarios = paths.iter().map(|path| read(path, &[]));
    let scenarios = scenarios.collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = scenarios.iter().map(Scenario::slug).collect();
    let named = scenarios.into_iter().zip(paths).zip(&names);
    let named = named.map(|((scenario, path), name)| {
        let of_one = names.iter().filter(|other| *other == name).count() > 1;
        let stem = path
            .file_stem()
            .filter(|stem| of_one && *stem != "kneepoint");
        let stem = stem.map(|stem| stem.to_string_lossy().into_owned());
        (stem.unwrap_or_else(|| name.clone()), scenario)
    });
    Ok(named.collect())
}

/// A name; with a number where another has it already, since a scenario may be compared with itself.
fn name_for(own: &str, others: &[Entry]) -> String {
    let is_free = |name: &String| others.iter().all(|other| other.name != *name);
    let numbered = (2..).map(|nth| format!("{own}-{nth}"));
    let mut names = std::iter::once(own.to_owned()).chain(numbered);
    names.find(is_free).unwrap_or_default()
}

fn read(path: &Path, set: &[String]) -> Result<Scenario> {
    session::read_scenario(&RunArgs {
        scenario: path.to_owned(),
        overlay: Vec::new(),
        set: set.to_vec(),
        budget: None,
        ground: GroundArgs::default(),
        output: OutputArgs::nowhere(),
    })
}

/// What can be compared: at least two, by names of their own, under the same load and judged alike.
fn check(entries: &[Entry]) -> Result<()> {
    if entries.len() < 2 {
        bail!(
            "there is nothing to compare with: name a second scenario, a --runtime, or settings after --with"
        );
    }
    let first = &entries[0];
    for (at, entry) in entries.iter().enumerate() {
        if entries[..at].iter().any(|other| other.name == entry.name) {
            bail!(
                "two are called `{}`: give each a name of its own",
                entry.name
            );
        }
        let named = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if entry.name.is_empty() || !entry.name.chars().all(named) {
            bail!(
                "`{}` cannot be a name: use letters, digits, `-`, `_` and `.`",
                entry.name
            );
        }
        if entry.scenario.workload != first.scenario.workload {
            bail!(
                "{} and {} ask for different requests, so nothing about them can be compared: give both the same \
                 [[request]] tables",
                first.name,
                entry.name
            );
        }
        if entry.scenario.slo != first.scenario.slo {
            bail!(
                "{} and {} have different SLOs: give both the same [slo]",
                first.name,
                entry.name
            );
        }
    }
    Ok(())
}

/// Where the results of a run before the comparison go: standard output is the comparison's, where a format of it goes there.
fn beside(output: &OutputArgs) -> OutputArgs {
    OutputArgs {
        runs: output.runs.clone(),
        aside: output.takes_stdout(),
        ..OutputArgs::nowhere()
    }
}

/// Tunes an entry in a run of its own. Says how the run ended.
fn tune(args: &CompareArgs, entry: &mut Entry, budget: Duration) -> Result<ExitCode> {
    let output = beside(&args.output);
    let scenario = entry.to_tune(budget);
    session::run(
        "tune",
        &scenario,
        &args.ground,
        &output,
        |testbed, recorder| entry.tune(testbed, recorder),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_output_is_the_comparisons_where_it_asks_for_it() {
        let aside = |json: &str| {
            let output = beside(&OutputArgs {
                json: Some(json.into()),
                ..OutputArgs::nowhere()
            });
            assert_eq!(output.json, None);
            output.aside
        };
        assert!(aside("-"));
        assert!(!aside("a.json"));
    }

    #[test]
    fn a_comma_within_a_value_begins_no_setting() {
        let check = |text: &str, expected: &[&str]| assert_eq!(each_setting(text), expected);
        let two = ["php.pm=static", "php.pm.max_children=8"];
        check("php.pm=static,php.pm.max_children=8", &two);
        let index = "db.sql.x=CREATE INDEX x ON t (a, b)";
        check(index, &[index]);
        check(&format!("{index},php.pm=static"), &[index, "php.pm=static"]);
        check("nonsense", &["nonsense"]);
    }
}
