//! What the benches share at the command line: numbers within bounds, and an orderly end by a signal.

use std::fmt::Display;
use std::ops::RangeInclusive;
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

/// The options of a command as its arguments say them, or why they are none.
#[cfg(test)]
pub(crate) fn read<T: clap::Args>(args: &[&str]) -> Result<T, String> {
    let command = T::augment_args(clap::Command::new("xtask").no_binary_name(true));
    let matches = command.try_get_matches_from(args);
    matches
        .and_then(|matches| T::from_arg_matches(&matches))
        .map_err(|error| error.to_string())
}
