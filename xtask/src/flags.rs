//! What the benches share at the command line: numbers within bounds, an orderly end by a signal, and files of results.

use anyhow::Context as _;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Reads the number that is the value of a flag, and refuses one that is not within the bounds.
pub(crate) fn number<T>(
    within: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| match text.parse() {
        Ok(number) if within.contains(&number) => Ok(number),
        _ => Err(format!(
            "write a number from {} to {}",
            within.start(),
            within.end()
        )),
    }
}

/// A flag that Ctrl-C and SIGTERM raise from now on.
///
/// # Errors
/// The system refuses the handlers.
pub(crate) fn raised_by_signals() -> anyhow::Result<Arc<AtomicBool>> {
    let raised = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&raised))?;
    }
    Ok(raised)
}

/// That everything that is asked for by name is there; `what` says what it is.
///
/// # Errors
/// There is none of a name.
pub(crate) fn known(what: &str, names: &[&str], only: &[String]) -> anyhow::Result<()> {
    match only.iter().find(|name| !names.contains(&name.as_str())) {
        Some(unknown) => anyhow::bail!(
            "there is no {what} `{unknown}`; there are {}",
            names.join(", ")
        ),
        None => Ok(()),
    }
}

/// The things with these names, or all when no name is given; `what` says what they are.
///
/// # Errors
/// There is none of a name.
pub(crate) fn only<T>(
    all: Vec<T>,
    what: &str,
    names: &[String],
    name: impl Fn(&T) -> &str,
) -> anyhow::Result<Vec<T>> {
    known(what, &all.iter().map(&name).collect::<Vec<_>>(), names)?;
    let is_meant = |one: &T| names.is_empty() || names.iter().any(|it| it == name(one));
    Ok(all.into_iter().filter(is_meant).collect())
}

/// The rows that this bench kept in its file of results for the same program; none where there is no file, or it is about
/// another program.
///
/// # Errors
/// The file is there and is none of this bench's.
pub(crate) fn kept_rows<T: serde::de::DeserializeOwned>(
    path: Option<&Path>,
    schema: &str,
    build: &str,
) -> anyhow::Result<Vec<T>> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    let ours = || {
        format!(
            "`{}` holds no results of this bench: name another --json",
            path.display()
        )
    };
    let mut value: serde_json::Value = serde_json::from_str(&text).with_context(ours)?;
    anyhow::ensure!(value["schema"] == schema, ours());
    if value["build"] != build {
        return Ok(Vec::new());
    }
    serde_json::from_value(value["rows"].take()).with_context(ours)
}

/// Writes results as JSON, where a file is named for them.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_json(
    path: Option<&Path>,
    results: &impl serde::Serialize,
) -> anyhow::Result<()> {
    let Some(path) = path else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(results)? + "\n";
    std::fs::write(path, text)
        .with_context(|| format!("the results cannot be written to `{}`", path.display()))
}

/// The options of a command as its arguments say them, or why they are none.
#[cfg(test)]
pub(crate) fn read<T: clap::Args>(args: &[&str]) -> Result<T, String> {
    let command = T::augment_args(clap::Command::new("xtask").no_binary_name(true));
    let matches = command.try_get_matches_from(args);
    matches
        .and_then(|matches| T::from_arg_matches(&matches))
        .map_err(|error| error.to_string())
}
