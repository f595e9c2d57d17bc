//! The tracer of `profile --calls` is a process of its own, so that no worker stands still because of a terminal.
//!
//! Ctrl-Z stops this program, Ctrl-S and a stalled connection make it wait in the middle of a line: a worker that stood
//! still for it would not go on. So a helper traces, away from the terminal, and each of the two watches the other:
//!
//! - one that stands still is killed by the other, which lets all workers go on;
//! - the helper ends its trace when this program was stopped, and when it is gone.

use crate::INTERRUPTED;
use anyhow::{Context as _, Result, anyhow, bail};
use kneepoint_lab::Helper;
use kneepoint_model::CallTrace;
use kneepoint_profiler::{Pools, TraceOptions, TraceProgress, trace};
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The argument that makes this program the helper.
pub(crate) const ARGUMENT: &str = "__tracer";

/// Time between two signs of life, and between two looks for one.
const TICK: Duration = Duration::from_millis(100);
/// Looks in a row that find no sign of life before the other is taken for stuck: a second. Looks are counted, and not
/// time: who is stopped, or gets no CPU, looks less.
const SILENT_TICKS: u32 = 10;

/// What the helper is told on the first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) pid: u32,
    pub(super) pool: Option<String>,
    pub(super) requests: u64,
    pub(super) duration_ms: u64,
}

/// What the helper tells, a line each.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    /// It lives: its tracer's heartbeat, and how many requests there were.
    At { beats: u64, requests: u64 },
    /// The trace, at its end.
    Traced(Box<CallTrace>),
    /// Why there is none.
    Failed(String),
}

/// What is known of the helper.
#[derive(Debug, Default)]
struct News {
    /// Lines it told.
    heard: AtomicU64,
    beats: AtomicU64,
    requests: AtomicU64,
    over: AtomicBool,
    killed: AtomicBool,
}

/// Traces in a helper. `progress` is told how many requests there were, and may wait for as long as it likes.
///
/// # Errors
/// As [`trace`]; or the helper stood still and was killed.
pub(super) fn traced(task: &Task, progress: &dyn Fn(u64), stop: &AtomicBool) -> Result<CallTrace> {
    let (mut helper, mut socket) = Helper::start(ARGUMENT)?;
    // A helper that takes nothing is stuck, and must not make this wait.
    socket.set_write_timeout(Some(TICK))?;
    writeln!(socket, "{}", serde_json::to_string(task)?).context("the tracer was not reached")?;
    let from_helper = BufReader::new(socket.try_clone()?);
    let news = News::default();
    let ending = thread::scope(|scope| {
        let reader = scope.spawn(|| read(from_helper, &news));
        let watch = scope.spawn(|| watch(&mut helper, &socket, &news, stop));
        while !news.over.load(Ordering::Acquire) {
            progress(news.requests.load(Ordering::Relaxed));
            thread::sleep(TICK);
        }
        let ending = reader.join();
        // It has nothing to tell.
        let _ = watch.join();
        ending
    });
    match ending {
        Ok(Some(Told::Traced(trace))) => Ok(*trace),
        Ok(Some(Told::Failed(why))) => Err(anyhow!(why)),
        _ if news.killed.load(Ordering::Relaxed) => bail!(
            "the tracer stood still for a second and was killed, so that the workers go on: was it stopped (kill -STOP), or \
             does the machine swap? Try again with fewer requests"
        ),
        _ => bail!("the tracer was killed; the workers go on without it"),
    }
}

/// Takes up what the helper tells, to the end.
fn read(from: BufReader<UnixStream>, news: &News) -> Option<Told> {
    let mut last = None;
    for line in from.lines() {
        match line.ok().and_then(|line| serde_json::from_str(&line).ok()) {
            Some(Told::At { beats, requests }) => {
                news.heard.fetch_add(1, Ordering::Relaxed);
                news.beats.store(beats, Ordering::Relaxed);
                news.requests.store(requests, Ordering::Relaxed);
            }
            Some(ending) => last = Some(ending),
            None => break,
        }
    }
    news.over.store(true, Ordering::Release);
    last
}

/// Gives signs of life, passes on that the person wants the end, and kills a helper that stands still.
fn watch(helper: &mut Helper, mut socket: &UnixStream, news: &News, stop: &AtomicBool) {
    let (mut before, mut silent) = ((0, 0), 0);
    while !news.over.load(Ordering::Acquire) {
        if stop.load(Ordering::Relaxed) {
            // It hears the end of what is told. That it is gone already is as good.
            let _ = socket.shutdown(Shutdown::Write);
        } else {
            let _ = socket.write_all(b".");
        }
        let heard = news.heard.load(Ordering::Relaxed);
        let beats = news.beats.load(Ordering::Relaxed);
        // Nobody is traced before the first line, and its tracer is not at work before the first beat.
        let is_silent = heard > 0 && heard == before.0;
        let is_stuck = beats > 0 && beats == before.1;
        silent = if is_silent || is_stuck { silent + 1 } else { 0 };
        before = (heard, beats);
        if silent >= SILENT_TICKS && !stop.load(Ordering::Relaxed) || silent >= 3 * SILENT_TICKS {
            news.killed.store(true, Ordering::Relaxed);
            helper.kill();
            return;
        }
        thread::sleep(TICK);
    }
}

/// The helper's part: traces what the first line asks for, and tells how it goes.
///
/// # Errors
/// This program was not started as a helper.
pub(crate) fn help() -> Result<ExitCode> {
    let socket = Helper::settle().context("this is no command for people")?;
    let mut from_owner = BufReader::new(
        socket
            .try_clone()
            .context("this is no command for people")?,
    );
    let mut line = String::new();
    from_owner.read_line(&mut line)?;
    let task: Task = serde_json::from_str(&line).context("this is no command for people")?;
    let options = TraceOptions {
        pid: task.pid,
        pools: task.pool.map_or(Pools::All, Pools::Only),
        requests: task.requests,
        duration: Duration::from_millis(task.duration_ms),
    };
    let (progress, stop, over) = Default::default();
    socket.set_read_timeout(Some(TICK))?;
    // From here on the owner watches: before a worker is traced.
    tell(
        &socket,
        &Told::At {
            beats: 0,
            requests: 0,
        },
    )?;
    let told = thread::scope(|scope| {
        let tracer = scope.spawn(|| trace(&options, &progress, &stop));
        let beating = scope.spawn(|| beat(&socket, &progress, &over));
        let left = listen(from_owner, &progress, &stop, || tracer.is_finished());
        let traced = tracer.join();
        over.store(true, Ordering::Release);
        // What it could not tell is told by the end.
        let _ = beating.join();
        match traced {
            Ok(Ok(trace)) => Told::Traced(Box::new(noted(trace, left))),
            Ok(Err(error)) => Told::Failed(error.to_string()),
            Err(_) => Told::Failed("the tracer failed".to_owned()),
        }
    });
    tell(&socket, &told)?;
    Ok(ExitCode::SUCCESS)
}

fn noted(mut trace: CallTrace, left: bool) -> CallTrace {
    if left {
        let why = "kneepoint was stopped (Ctrl-Z), which ended the trace early: no worker is to stand still for it";
        trace.notes.push(why.to_owned());
    }
    trace
}

fn tell(mut socket: &UnixStream, told: &Told) -> Result<()> {
    let line = format!("{}\n", serde_json::to_string(told)?);
    Ok(socket.write_all(line.as_bytes())?)
}

/// Gives signs of life of the tracer. It may wait for an owner that reads nothing: no worker waits for it.
fn beat(socket: &UnixStream, progress: &TraceProgress, over: &AtomicBool) {
    while !over.load(Ordering::Acquire) {
        let told = Told::At {
            beats: progress.beats(),
            requests: progress.requests(),
        };
        if tell(socket, &told).is_err() {
            // The owner is gone, which the other thread hears.
            return;
        }
        thread::sleep(TICK);
    }
}

/// Listens to the owner until the trace is over, and raises `stop` when that wants the end, is gone or gives no sign of
/// life. Says whether it was the last. Ends this process when the tracer itself gives none: what it traces goes on then.
fn listen(
    mut owner: BufReader<UnixStream>,
    progress: &TraceProgress,
    stop: &AtomicBool,
    over: impl Fn() -> bool,
) -> bool {
    let (mut left, mut silent) = (false, 0);
    let (mut beats, mut stuck) = (0, 0);
    let mut heard = [0; 64];
    while !over() {
        match owner.read(&mut heard) {
            Ok(0) => {
                stop.store(true, Ordering::Relaxed);
                thread::sleep(TICK);
            }
            Ok(_) => {
                silent = 0;
                thread::sleep(TICK / 2);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                silent += 1;
            }
            Err(_) => stop.store(true, Ordering::Relaxed),
        }
        if silent >= SILENT_TICKS && !stop.swap(true, Ordering::Relaxed) {
            left = true;
        }
        let now = progress.beats();
        stuck = if now > 0 && now == beats {
            stuck + 1
        } else {
            0
        };
        beats = now;
        if stuck >= 2 * SILENT_TICKS {
            std::process::exit(i32::from(INTERRUPTED));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An owner that says nothing is one that was stopped; one that hangs up wants the end.
    #[test]
    fn an_owner_that_is_silent_or_gone_ends_the_trace() {
        let check = |hangs_up: bool| {
            let (owner, helper) = UnixStream::pair().expect("a pair");
            helper
                .set_read_timeout(Some(Duration::from_millis(1)))
                .expect("set");
            if hangs_up {
                owner.shutdown(Shutdown::Write).expect("ours");
            }
            let (progress, stop) = <(TraceProgress, AtomicBool)>::default();
            let ended = || stop.load(Ordering::Relaxed);
            listen(BufReader::new(helper), &progress, &stop, ended)
        };
        assert!(check(false), "it was stopped");
        assert!(!check(true), "it wants the end");
    }

    #[test]
    fn the_last_line_is_what_it_comes_to() {
        let (mut owner, helper) = UnixStream::pair().expect("a pair");
        let news = News::default();
        let at = Told::At {
            beats: 3,
            requests: 7,
        };
        tell(&owner, &at).expect("told");
        tell(&owner, &Told::Failed("no".into())).expect("told");
        owner.flush().expect("ours");
        drop(owner);
        let last = read(BufReader::new(helper), &news);
        assert!(matches!(last, Some(Told::Failed(why)) if why == "no"));
        assert_eq!(news.requests.load(Ordering::Relaxed), 7);
        assert!(news.over.load(Ordering::Relaxed));
    }
}
