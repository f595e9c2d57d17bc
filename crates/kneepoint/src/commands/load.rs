//! `kneepoint load`: drive load at URLs, a FastCGI listener, or both under one schedule.

mod extras;
mod form;
mod like;
mod live;
mod log;
mod moment;
mod output;
mod plain;
mod plan;
mod restraint;
mod target;
mod watch;

use crate::args::LoadArgs;
use crate::session::stop_flag;
use crate::{FOUND, INTERRUPTED};
use anyhow::Result;
use kneepoint_load::Engine;
use kneepoint_report::{LoadHop, LoadRun};
use output::Sinks;
use plan::Hop;
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
    if !args.quiet {
        notes.iter().for_each(|note| watch::line(note));
    }
    let stop = stop_flag()?;
    let mut run = LoadRun {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: jiff::Timestamp::now().to_string(),
        ..LoadRun::default()
    };
    for hop in &mut hops {
        if let Some(foreign) = &hop.foreign {
            let allowed = restraint::consented(foreign, &mut hop.plan)?;
            if !args.quiet {
                watch::line(&allowed);
            }
        }
        let mut loaded = drive(hop, args, &stop)?;
        let judged = thresholds.iter().map(|(written, threshold)| {
            let judgement = threshold.judge(&loaded.point);
            (written.clone(), judgement)
        });
        loaded.judgements = judged.collect();
        run.hops.push(loaded);
        if stop.load(Ordering::Relaxed) {
            run.interrupted = true;
            break;
        }
    }
    sinks.write(&run)?;
    Ok(exit_code(&run))
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

fn drive(hop: &Hop, args: &LoadArgs, stop: &AtomicBool) -> Result<LoadHop> {
    let watch = Watch::new(hop, args.quiet);
    let point = Engine::run(&hop.plan, &|progress| watch.tell(progress), stop);
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

fn exit_code(run: &LoadRun) -> ExitCode {
    let holds = |hop: &LoadHop| {
        hop.point.validity.is_valid()
            && hop.point.stopped_because.is_none()
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
