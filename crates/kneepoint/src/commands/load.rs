//! `kneepoint load`: drive load at URLs, a FastCGI listener, or both under one schedule.

mod agent;
mod extras;
mod form;
mod like;
mod log;
mod output;
mod plan;
mod restraint;
mod senders;
mod target;
mod watch;

use crate::args::LoadArgs;
use crate::session::stop_flag;
use crate::{FOUND, INTERRUPTED, in_plain_words};
pub(super) use agent::run as run_agent;
use anyhow::Result;
use kneepoint_model::{LoadPoint, Outcome};
use kneepoint_report::{LoadHop, LoadRun};
use output::Sinks;
use plan::Hop;
use senders::Senders;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use watch::Watch;

pub(super) fn run(args: &LoadArgs) -> Result<ExitCode> {
    let mut args = untangled(args);
    let mut notes = like::fill(&mut args)?;
    let args = &args;
    let learned = log::learned(args)?;
    notes.extend(learned.iter().flat_map(log::told));
    let mut hops = plan::hops(args, learned.as_ref())?;
    let thresholds = plan::thresholds(args)?;
    let sinks = Sinks::of(args, hops.len())?;
    let stop = stop_flag()?;
    ask_early(args, &hops)?;
    let mut senders = Senders::of(args, &stop)?;
    if !args.quiet {
        notes.iter().for_each(|note| watch::line(note));
    }
    let mut run = LoadRun {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: jiff::Timestamp::now().to_string(),
        ..LoadRun::default()
    };
    let broken_off = one_by_one(&mut run, &mut hops, &stop, |hop| {
        if let Some(foreign) = &hop.foreign {
            let allowed = restraint::consented(args, foreign, &mut hop.plan)
                .inspect_err(|refused| senders.give_up(&format!("{refused:#}")))?;
            if !args.quiet {
                allowed.iter().for_each(|told| watch::line(told));
            }
        }
        let mut loaded = drive(hop, &mut senders, args, &stop)?;
        let judged = thresholds.iter().map(|(written, threshold)| {
            let judgement = threshold.judge(&loaded.point);
            (written.clone(), judgement)
        });
        loaded.judgements = judged.collect();
        Ok(loaded)
    });
    let mut failures = match run.hops.is_empty() {
        true => Vec::new(),
        false => sinks.write(&run),
    };
    let how = if run.interrupted {
        "interrupted"
    } else {
        "finished"
    };
    failures.extend(senders.end(how).err());
    failures.extend(broken_off.err());
    for hop in run.hops.iter().filter(|hop| is_dead(&hop.point)) {
        watch::line(&why_dead(&hop.name, &hop.point));
    }
    let Some(last) = failures.pop() else {
        return Ok(exit_code(&run));
    };
    for failure in failures {
        let why = in_plain_words(&format!("{failure:#}"));
        watch::line(&format!("kneepoint: {why}"));
    }
    Err(last)
}

/// Asks the targets behind the first before anything is sent: that one may not be loaded is not for the end of a long load. Each
/// is asked again when its turn comes.
fn ask_early(args: &LoadArgs, hops: &[Hop]) -> Result<()> {
    for hop in hops.iter().skip(1) {
        if let Some(foreign) = &hop.foreign {
            restraint::consented(args, foreign, &mut hop.plan.clone())?;
        }
    }
    Ok(())
}

/// Loads one target behind the other, until one cannot be loaded or somebody ends it. What was measured until then is kept.
fn one_by_one<T>(
    run: &mut LoadRun,
    targets: &mut [T],
    stop: &AtomicBool,
    mut load: impl FnMut(&mut T) -> Result<LoadHop>,
) -> Result<()> {
    for target in targets {
        run.hops.push(load(target)?);
        if stop.load(Ordering::Relaxed) {
            run.interrupted = true;
            break;
        }
    }
    Ok(())
}

/// A URL that was written behind `--json` is a URL and no file.
fn untangled(args: &LoadArgs) -> LoadArgs {
    let mut args = args.clone();
    if let Some(url) = args.json.as_deref().and_then(Path::to_str)
        && url.contains("://")
    {
        args.urls.push(url.to_owned());
        args.json = Some(PathBuf::from("-"));
    }
    args
}

fn drive(hop: &Hop, senders: &mut Senders, args: &LoadArgs, stop: &AtomicBool) -> Result<LoadHop> {
    let watch = Watch::new(hop, args.quiet);
    let point = senders.run(hop, &watch, stop);
    drop(watch);
    Ok(LoadHop {
        name: hop.name.clone(),
        requests: plan::asked(&hop.plan),
        plan: plan::described(&hop.plan),
        slo: hop.plan.slo.clone(),
        point: point?,
        judgements: Vec::new(),
    })
}

/// Whether nobody answered anything. A server that answers with errors is measured; thresholds judge it.
fn is_dead(point: &LoadPoint) -> bool {
    let answers = [Outcome::Ok, Outcome::HttpError, Outcome::WrongBody];
    let answered: u64 = answers.into_iter().map(|it| point.outcomes.of(it)).sum();
    point.outcomes.total() > 0 && answered == 0
}

/// Why a load is a failure, whatever was asked of it.
fn why_dead(name: &str, point: &LoadPoint) -> String {
    let refused = point.outcomes.of(Outcome::Refused);
    if refused == point.outcomes.total() {
        return format!(
            "nothing listens on {name}: every connection was refused; is the server started, and is that its port?"
        );
    }
    let most = point
        .outcomes
        .by_outcome
        .iter()
        .max_by_key(|(_, count)| **count);
    format!(
        "every request to {name} failed, most with: {}",
        most.map_or("nothing", |(outcome, _)| outcome.name())
    )
}

fn exit_code(run: &LoadRun) -> ExitCode {
    let holds = |hop: &LoadHop| {
        hop.point.validity.is_valid()
            && hop.point.stopped_because.is_none()
            && !is_dead(&hop.point)
            && hop.judgements.iter().all(|(_, judged)| judged.held)
    };
    if run.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if !run.hops.iter().all(holds) {
        ExitCode::from(FOUND)
    } else {
        ExitCode::SUCCESS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What so many of each outcome make of a load: its exit code, and what is said of it.
    fn check(outcomes: &[(Outcome, u64)], code: ExitCode, says: &str) {
        let mut point = LoadPoint::default();
        point.outcomes.by_outcome.extend(outcomes.iter().copied());
        assert!(why_dead("127.0.0.1:1", &point).contains(says));
        let mut run = LoadRun::default();
        run.hops.push(LoadHop {
            name: "127.0.0.1:1".into(),
            point,
            ..LoadHop::default()
        });
        assert_eq!(format!("{:?}", exit_code(&run)), format!("{code:?}"));
    }

    #[test]
    fn what_was_measured_before_a_failure_is_kept() {
        let load = |name: &mut &str| match *name {
            "down" => anyhow::bail!("it is down"),
            name => Ok(LoadHop {
                name: name.to_owned(),
                ..LoadHop::default()
            }),
        };
        let names = |run: &LoadRun| -> Vec<String> {
            run.hops.iter().map(|hop| hop.name.clone()).collect()
        };
        let mut run = LoadRun::default();
        let stop = AtomicBool::new(false);
        let ended = one_by_one(&mut run, &mut ["a", "down", "b"], &stop, load);
        assert!(ended.is_err());
        assert_eq!(names(&run), ["a"]);

        let mut run = LoadRun::default();
        stop.store(true, Ordering::Relaxed);
        one_by_one(&mut run, &mut ["a", "b"], &stop, load).expect("all are up");
        assert_eq!((run.interrupted, names(&run)), (true, vec!["a".into()]));
    }

    #[test]
    fn whoever_comes_later_is_asked_before_the_first_is_loaded() {
        use crate::args::{Args, Command};
        use clap::Parser as _;
        // It has no highest rate, which no other machine can allow.
        let line = ["", "load", "-c1", "127.0.0.1:1/", "192.0.2.1:1/"];
        let args = Args::try_parse_from(line).expect("arguments");
        let Command::Load(args) = args.command else {
            panic!("not load")
        };
        let hops = plan::hops(&args, None).expect("two targets");
        let said = ask_early(&args, &hops).expect_err("not ours").to_string();
        assert!(said.contains("192.0.2.1 is not this machine"), "{said}");
        assert!(ask_early(&args, &hops[..1]).is_ok());
    }

    #[test]
    fn a_load_that_nobody_answered_is_a_failure() {
        let found = ExitCode::from(FOUND);
        check(
            &[(Outcome::Refused, 9)],
            found,
            "nothing listens on 127.0.0.1:1",
        );
        let both = [(Outcome::Refused, 2), (Outcome::Timeout, 9)];
        check(&both, found, "failed, most with: timeout");
        check(
            &[(Outcome::Ok, 1), (Outcome::Refused, 9)],
            ExitCode::SUCCESS,
            "",
        );
        check(
            &[(Outcome::HttpError, 9), (Outcome::Timeout, 1)],
            ExitCode::SUCCESS,
            "",
        );
    }
}
