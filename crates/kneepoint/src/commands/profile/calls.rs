//! `kneepoint profile --calls`: what each request does, call by call.

use super::tracer::{Task, traced};
use crate::args::ProfileArgs;
use crate::session::{print, stop_flag};
use crate::{FOUND, INTERRUPTED};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kneepoint_profiler::RecordOptions;
use kneepoint_report::calls_text;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) fn run(args: &ProfileArgs, what: &RecordOptions) -> Result<ExitCode> {
    let task = Task {
        pid: what.pid,
        pool: args.pool.clone(),
        requests: args.requests,
        duration_ms: u64::try_from(what.duration.as_millis()).unwrap_or(u64::MAX),
    };
    let stop = stop_flag()?;
    let bar = bar(args, what.duration);
    let began = Instant::now();
    let told = |requests| {
        bar.set_position(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        bar.set_message(format!("{requests} of {} requests", args.requests));
    };
    let traced = traced(&task, &told, &stop);
    bar.finish_and_clear();
    let traced = traced?;
    print(&calls_text(&traced, crate::session::styles()))?;
    Ok(if stop.load(Ordering::Relaxed) {
        ExitCode::from(INTERRUPTED)
    } else if traced.requests() == 0 {
        ExitCode::from(FOUND)
    } else {
        ExitCode::SUCCESS
    })
}

fn bar(args: &ProfileArgs, duration: Duration) -> ProgressBar {
    let target = if args.quiet || !console::user_attended_stderr() {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr()
    };
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let bar = ProgressBar::with_draw_target(Some(millis), target);
    let style = ProgressStyle::with_template("{bar:24} {eta} left, {wide_msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
