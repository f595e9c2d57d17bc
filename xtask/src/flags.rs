//! What the benches share at the command line: flags that each take a value, and an orderly end by a signal.

use anyhow::{Context as _, bail, ensure};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Hands every flag that stands in the usage to `take`, with its value. Tells whether help was asked for.
///
/// # Errors
/// A flag that is not in the usage or has no value, or what `take` says of one.
pub(crate) fn each(
    command: &str,
    usage: &str,
    args: impl IntoIterator<Item = OsString>,
    mut take: impl FnMut(&str, OsString) -> anyhow::Result<()>,
) -> anyhow::Result<bool> {
    let mut help = false;
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let name = arg.to_string_lossy().into_owned();
        if ["-h", "--help"].contains(&name.as_str()) {
            help = true;
            continue;
        }
        let known = !name.contains(char::is_whitespace) && usage.contains(&format!("\n  {name} "));
        ensure!(
            name.starts_with("--") && known,
            "`{name}` is not an option of {command}\n\n{usage}"
        );
        let value = args
            .next()
            .with_context(|| format!("`{name}` needs a value\n\n{usage}"))?;
        take(&name, value)?;
    }
    Ok(help)
}

/// Takes a flag without a value out of the arguments; tells whether it was there.
pub(crate) fn switch(
    args: impl IntoIterator<Item = OsString>,
    name: &str,
) -> (bool, Vec<OsString>) {
    let (found, rest): (Vec<_>, Vec<_>) = args.into_iter().partition(|arg| arg == name);
    (!found.is_empty(), rest)
}

/// The time that is the value of a flag, such as `90s`.
///
/// # Errors
/// It is none.
pub(crate) fn time(name: &str, text: &str) -> anyhow::Result<Duration> {
    kneepoint_model::units::parse_duration(text).with_context(|| format!("{name} {text}"))
}

/// The whole number that is the value of a flag.
///
/// # Errors
/// It is none, or not within the bounds.
pub(crate) fn number(name: &str, text: &str, within: RangeInclusive<u64>) -> anyhow::Result<u64> {
    match text.parse() {
        Ok(number) if within.contains(&number) => Ok(number),
        _ => bail!(
            "`{name} {text}`: write a number from {} to {}",
            within.start(),
            within.end()
        ),
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
