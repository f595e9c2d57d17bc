//! `kneepoint watch`: the check as a live view, and as metrics.

mod listen;
mod plain;
mod view;

use crate::args::WatchArgs;
use crate::session::{print, stop_flag};
use crate::{FAILED, INTERRUPTED};
use anyhow::{Context as _, Result, bail};
use kneepoint_check::{Moment, StackWatch, WatchOptions};
use kneepoint_model::units::parse_duration;
use listen::Served;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two lines where nobody sits at a terminal.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
/// How long `--once` watches: rates need two looks.
const ONCE: Duration = Duration::from_secs(1);
/// How often the flag of Ctrl-C is looked at while nothing else is to do.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(in crate::commands) fn run(args: &WatchArgs) -> Result<ExitCode> {
    let options = WatchOptions {
        check: super::only(&args.only),
        every: parse_duration(&args.every).context("--every")?,
    };
    let lasting = args.lasting.as_deref().map(parse_duration);
    let lasting = lasting.transpose().context("--for")?;
    let stop = stop_flag()?;
    // An address that is taken is said before anything is looked at.
    let served = args.listen.as_deref().map(Served::at).transpose()?;
    if let Some(served) = &served {
        served.say();
    }
    let watch = StackWatch::begin(options);
    is_there(&watch, args)?;
    let mut session = Session {
        watch,
        served,
        stop: &stop,
        until: lasting.map(|lasting| Instant::now() + lasting),
    };
    if args.once {
        return once(&mut session);
    }
    let terminal = std::io::stdout().is_terminal() && std::io::stdin().is_terminal();
    match terminal {
        true => view::run(&mut session)?,
        false => lines(&mut session)?,
    }
    // A service manager ends it with a signal; that is its usual end, and no failure.
    Ok(match stop.load(Ordering::Relaxed) && terminal {
        true => ExitCode::from(INTERRUPTED),
        false => ExitCode::SUCCESS,
    })
}

/// What the options name is there. Without any, services may come while it watches.
///
/// # Errors
/// It is not there; the message says what is.
fn is_there(watch: &StackWatch, args: &WatchArgs) -> Result<()> {
    let only = &args.only;
    let names = [&only.pool, &only.container, &only.app];
    let is_narrow = names.iter().any(|name| name.is_some()) || !only.pid.is_empty();
    if is_narrow && watch.is_empty() {
        let unseen = watch.unseen();
        let told = unseen
            .iter()
            .map(|one| format!("{}: {}; {}", one.what, one.why, one.remedy));
        bail!(
            "there is nothing to watch: {}",
            told.collect::<Vec<_>>().join("; ")
        );
    }
    Ok(())
}

/// A watch with those who read it.
struct Session<'s> {
    watch: StackWatch,
    served: Option<Served>,
    stop: &'s AtomicBool,
    until: Option<Instant>,
}

impl Session<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.until.is_some_and(|until| Instant::now() >= until)
    }

    /// A new moment, where one is due.
    fn next(&mut self) -> Option<Moment> {
        if Instant::now() < self.watch.due() {
            return None;
        }
        let moment = self.watch.look();
        if let Some(served) = &self.served {
            served.tell(&moment);
        }
        Some(moment)
    }

    /// How long nothing is to do.
    fn pause(&self) -> Duration {
        let left = self.watch.due().saturating_duration_since(Instant::now());
        left.min(LOOK_EVERY)
    }
}

fn once(session: &mut Session<'_>) -> Result<ExitCode> {
    let first = session.watch.look();
    if first.services.is_empty() {
        print(
            "Nothing to watch: no server program was found. kneepoint check says what it could not see.",
        )?;
        return Ok(ExitCode::from(FAILED));
    }
    std::thread::sleep(ONCE);
    print(&plain::all(&session.watch.look()))?;
    Ok(ExitCode::SUCCESS)
}

fn lines(session: &mut Session<'_>) -> Result<()> {
    let mut told = plain::Told::default();
    let mut due = Instant::now();
    while !session.is_over() {
        if let Some(moment) = session.next()
            && Instant::now() >= due
        {
            due = Instant::now() + PLAIN_EVERY;
            print(&told.next(&moment))?;
        }
        std::thread::sleep(session.pause());
    }
    Ok(())
}
