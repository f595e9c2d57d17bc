//! `kneepoint profile`: where the workers of a running PHP spend their time.

mod calls;
mod formats;
mod live;
mod table;
mod target;
mod tracer;

use crate::args::{ProfileArgs, is_stdout};
use crate::say::say;
use crate::session::results::check_places;
use crate::session::{print, stop_flag, write_text};
use crate::{FOUND, INTERRUPTED};
use anyhow::{Context as _, Result, bail};
use kneepoint_model::units;
use kneepoint_profiler::{PhpProfile, Pools, RecordOptions, record};
use kneepoint_telemetry::Waits;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) use tracer::{ARGUMENT, help};

/// Longest profile, in seconds: a day.
const LONGEST_S: u64 = 86_400;

pub(super) fn run(args: &ProfileArgs) -> Result<ExitCode> {
    let options = options(args)?;
    if args.calls {
        return calls::run(args, &options);
    }
    check_outputs(args)?;
    let stop = stop_flag()?;
    let live = live::Live::new(options.duration, args.quiet);
    let mut waits = Waits::beside(options.pid);
    let mut waits_for = |pid| waits.look(pid);
    let profile = record(
        &options,
        &mut waits_for,
        &|progress| live.tell(progress),
        &stop,
    );
    drop(live);
    let profile = profile?;
    write(args, &profile)?;
    Ok(if stop.load(Ordering::Relaxed) {
        ExitCode::from(INTERRUPTED)
    } else if profile.counts.busy() == 0 {
        ExitCode::from(FOUND)
    } else {
        ExitCode::SUCCESS
    })
}

fn options(args: &ProfileArgs) -> Result<RecordOptions> {
    let duration = units::parse_duration(&args.duration).context("--duration")?;
    if duration.is_zero() || duration > Duration::from_secs(LONGEST_S) {
        bail!(
            "--duration {}: give a time up to a day, such as 10s",
            args.duration
        );
    }
    Ok(RecordOptions {
        pid: target::find(args)?,
        pools: args.pool.clone().map_or(Pools::All, Pools::Only),
        rate_hz: args.rate,
        duration,
        by_request: args.by_request,
        by_id: false,
    })
}

/// Looked at before the profile, so that it is not lost to a misspelt directory.
fn check_outputs(args: &ProfileArgs) -> Result<()> {
    let stdout = args.folded.then_some(Path::new("-"));
    let asked = [
        ("svg", args.svg.as_deref()),
        ("speedscope", args.speedscope.as_deref()),
        ("folded", stdout),
    ];
    check_places(&asked, None)
}

/// Writes a profile down for another tool.
type Format = fn(&PhpProfile) -> Result<String>;

fn write(args: &ProfileArgs, profile: &PhpProfile) -> Result<()> {
    let mut written: Vec<&PathBuf> = Vec::new();
    let mut stdout_taken = args.folded;
    let formats: [(&Option<PathBuf>, Format); 2] = [
        (&args.svg, formats::svg),
        (&args.speedscope, formats::speedscope),
    ];
    for (path, text) in formats {
        let Some(path) = path else {
            continue;
        };
        stdout_taken |= is_stdout(path);
        write_text(path, &text(profile)?)?;
        written.push(path);
    }
    if args.folded {
        let lines: String = profile
            .folded()
            .iter()
            .map(|line| format!("{line}\n"))
            .collect();
        print(&lines)?;
    }
    let mut text = table::head(profile);
    if stdout_taken {
        tell(&text);
        return Ok(());
    }
    text.push_str(&table::functions(profile, args.top));
    text.push_str(&table::requests(profile));
    for path in written {
        text.push_str(&format!("\nwritten: {}\n", path.display()));
    }
    print(&text)
}

/// Says on standard error how far the profile is to be believed.
fn tell(text: &str) {
    say(text);
}
