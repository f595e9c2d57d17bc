//! `--access-log`: what real visitors asked for, and how fast.

use crate::args::LoadArgs;
use anyhow::{Context as _, Result, bail};
use kneepoint_access_log::{LearnOptions, Learned, learn};
use kneepoint_load::Mode;
use kneepoint_model::{Arrivals, Request, Workload};
use std::fs::File;
use std::io::BufReader;

/// Learns from the log that was named; `None` when none was.
pub(super) fn learned(args: &LoadArgs) -> Result<Option<Learned>> {
    let Some(path) = &args.access_log else {
        return Ok(None);
    };
    let named = || format!("--access-log {}", path.display());
    let options = LearnOptions {
        format: args.log_format.clone(),
        ..LearnOptions::default()
    };
    let file = File::open(path).with_context(named)?;
    let learned = learn(BufReader::with_capacity(64 << 10, file), &options).with_context(named)?;
    Ok(Some(learned))
}

/// What was learned, a sentence each.
pub(super) fn told(learned: &Learned) -> Vec<String> {
    let mut told = vec![format!(
        "{} lines, {} not understood; {} routes, {} requests",
        learned.lines,
        learned.bad_lines,
        learned.folded.len(),
        learned.workload.requests.len()
    )];
    told.extend(learned.notes.iter().cloned());
    told
}

/// The rate of the log over time, so many times as fast; `None` when another rate is asked for.
pub(super) fn mode(args: &LoadArgs, learned: &Learned) -> Result<Option<Mode>> {
    let Some(text) = &args.replay else {
        return Ok(None);
    };
    let times = text.strip_suffix(['x', 'X']).unwrap_or(text).parse::<f64>();
    let times = match times {
        Ok(times) if times.is_finite() && times > 0.0 => times,
        _ => bail!("--replay {text}: write how many times as fast, such as 1x or 2.5x"),
    };
    Ok(Some(Mode::Open {
        schedule: learned.schedule_at(times),
        arrivals: Arrivals::Poisson { seed: args.seed },
    }))
}

/// The learned requests with what the arguments say of every request. Where a log knows what it got, a status other
/// than a good one is what is expected.
pub(super) fn workload(args: &LoadArgs, template: &Request, learned: &Learned) -> Workload {
    let mut workload = learned.workload.clone();
    for request in &mut workload.requests {
        request.headers.clone_from(&template.headers);
        if !template.expect.status.is_empty() {
            request.expect.status.clone_from(&template.expect.status);
        }
        request
            .expect
            .body_contains
            .clone_from(&template.expect.body_contains);
        request
            .expect
            .body_lacks
            .clone_from(&template.expect.body_lacks);
    }
    workload.users = args.users.unwrap_or(workload.users);
    // With a rate of requests, every request stands for itself: the log's visits belong to its own rate.
    if args.replay.is_none() && args.connections.is_none() {
        workload.sessions = None;
    }
    workload
}
