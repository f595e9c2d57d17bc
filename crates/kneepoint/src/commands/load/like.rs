//! `--like`: the command line of another tool, taken over as if it had been written with our flags.

use crate::args::{Interarrival, LoadArgs};
use anyhow::{Result, bail};
use kneepoint_load::Mode;
use kneepoint_model::{Arrivals, FirstArrival, Schedule};
use kneepoint_schedules::{self as schedules, Imported, ImportedBody, ImportedLoad};

/// Fills in what the other command line says and ours leaves open; what it, or another tool's schedule, would do
/// differently is returned.
pub(super) fn fill(args: &mut LoadArgs) -> Result<Vec<String>> {
    // The engine decides about connections: the header by itself would change nothing.
    let all = args.header.len();
    args.header.retain(|header| !closes(header));
    args.close |= args.header.len() < all;
    let Some(text) = &args.like else {
        return match &args.schedule {
            Some(text) if is_foreign(text) => Ok(parse("--schedule", text)?.notes),
            _ => Ok(Vec::new()),
        };
    };
    let other = parse("--like", text)?;
    if args.urls.is_empty() {
        args.urls.extend(other.url);
    }
    let headers = other.headers.iter();
    let headers = headers.map(|(name, value)| format!("{name}: {value}"));
    args.header.splice(0..0, headers.collect::<Vec<_>>());
    if args.data.is_empty() {
        args.data.extend(other.body.map(|body| match body {
            ImportedBody::Text(text) => text,
            ImportedBody::File(path) => format!("@{path}"),
        }));
    }
    args.method = args.method.take().or(other.method.map(|method| method.0));
    let connections = other.connections.and_then(|most| u32::try_from(most).ok());
    args.connections = args.connections.or(connections);
    args.threads = other.threads.unwrap_or(args.threads).max(args.threads);
    args.close |= other.keep_alive == Some(false);
    let timeout = other.timeout;
    let timeout = timeout.map(|timeout| format!("{}us", timeout.as_micros()));
    args.timeout = args.timeout.take().or(timeout);
    Ok(other.notes)
}

/// Whether a header asks for its connection to be closed.
fn closes(header: &str) -> bool {
    let parts = header.split_once(':');
    parts.is_some_and(|(name, value)| schedules::asks_to_close(name, value))
}

/// Whether a schedule is another tool's, and not in the pieces that are ours too.
pub(super) fn is_foreign(text: &str) -> bool {
    let known = schedules::detect(text);
    text.parse::<Schedule>().is_err()
        && known.is_some_and(|syntax| syntax.name != "yandex.tank schedule")
}

/// A load profile in any syntax that is known, as the argument `flag` gave it.
pub(super) fn parse(flag: &str, text: &str) -> Result<Imported> {
    match schedules::parse(text) {
        Ok(imported) => Ok(imported),
        Err(error) => bail!("{flag}: {error}"),
    }
}

/// Where the first of evenly spaced arrivals lies, as the tool has it whose schedule or command line was given.
pub(super) fn first(args: &LoadArgs) -> FirstArrival {
    let text = args.like.as_ref().or(args.schedule.as_ref());
    match text.map(|text| schedules::parse(text)) {
        Some(Ok(Imported {
            load: ImportedLoad::Open { first, .. },
            ..
        })) => first,
        // What cannot be read was refused before; without a text, the schedule is ours.
        _ => FirstArrival::AtStart,
    }
}

/// Who decides when requests start, as a profile has it; how arrivals are spread is ours to say where we do.
pub(super) fn mode(profile: ImportedLoad, args: &LoadArgs) -> Mode {
    match profile {
        ImportedLoad::Closed(closed) => Mode::Closed(closed),
        ImportedLoad::Open {
            schedule, arrivals, ..
        } => Mode::Open {
            schedule,
            arrivals: match args.arrivals {
                None => arrivals,
                Some(Interarrival::Even) => Arrivals::Even,
                Some(Interarrival::Poisson) => Arrivals::Poisson { seed: args.seed },
            },
        },
    }
}
