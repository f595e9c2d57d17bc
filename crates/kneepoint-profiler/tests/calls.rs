//! The evidence pass on real workers: what a known script does is counted exactly, with its lines, and the workers go
//! on as if nothing had been.

mod rig;

use kneepoint_model::{CallKind, CallTrace};
use kneepoint_profiler::{Pools, ProfilerError, TraceOptions, TraceProgress, trace};
use rig::Rig;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

const SCRIPT: &str = include_str!("graph/calls.php");
const TWO_WORKERS: &str = "pm = static\npm.max_children = 2";

fn options(pid: u32, requests: u64) -> TraceOptions {
    TraceOptions {
        pid,
        pools: Pools::All,
        requests,
        duration: Duration::from_secs(30),
    }
}

/// The line of the script with this mark.
fn line(mark: &str) -> u32 {
    let marked = |text: &str| text.ends_with(&format!("//: {mark}"));
    let at = SCRIPT
        .lines()
        .position(marked)
        .expect("a mark of the script");
    u32::try_from(at + 1).expect("a short script")
}

/// How often each request did this, at the line with a mark, and how often that failed.
#[track_caller]
fn check(trace: &CallTrace, mark: &str, kind: CallKind, what: &str, each: u64, failed: u64) {
    let found = trace.of(kind).find(|call| {
        call.what.contains(what)
            && call.place.as_ref().and_then(|place| place.line) == Some(line(mark))
    });
    let Some(call) = found else {
        panic!("no {kind:?} of `{what}` at `{mark}` in {:#?}", trace.calls);
    };
    let requests = trace.requests();
    assert_eq!(
        (call.count, call.failed, call.most),
        (each * requests, failed * requests, each),
        "{mark} in {requests} requests: {call:#?}"
    );
}

#[test]
fn what_requests_do_is_counted_exactly_with_its_line() {
    let Some(rig) = Rig::start(TWO_WORKERS, &[]) else {
        return;
    };
    let rig = rig.serving("calls.php", SCRIPT);
    assert_eq!(rig.get("times=9"), "done");
    let load = rig.load(3, "times=9");
    let trace = trace(
        &options(rig.master(), 40),
        &TraceProgress::default(),
        &AtomicBool::new(false),
    )
    .expect("a trace");
    drop(load);
    assert!((40..44).contains(&trace.requests()), "{:?}", trace.routes);
    assert_eq!(trace.routes[0].route, "GET /known/route");
    assert!(
        trace.php.ends_with("(fpm-fcgi)") && trace.notes.is_empty(),
        "{:?}",
        trace.notes
    );
    check(&trace, "reads", CallKind::Open, "/part.php", 9, 0);
    check(&trace, "absent", CallKind::Open, "/absent.php", 1, 1);
    check(&trace, "looks", CallKind::Look, "/fpm.conf", 1, 0);
    check(&trace, "directory", CallKind::Open, "/tmp", 1, 0);
    check(&trace, "locks", CallKind::Lock, "/tmp", 1, 0);
    check(&trace, "sleeps", CallKind::Sleep, "2 ms", 1, 0);
    check(&trace, "connects", CallKind::Connect, "/php.sock", 1, 0);
    check(
        &trace,
        "greets",
        CallKind::Http,
        "GET http://peer.example/greeting/{n}",
        1,
        0,
    );
    let greeting = trace.of(CallKind::Http).next().expect("the greeting");
    assert_eq!(greeting.through, "fwrite");
    assert_eq!(
        greeting.place.as_ref().map(|place| place.function.as_str()),
        Some("Peer::greet")
    );
    assert!(greeting.peer.ends_with("/php.sock"), "{}", greeting.peer);
    // The engine opens the script itself.
    let script = trace
        .of(CallKind::Open)
        .find(|call| call.what.ends_with("calls.php"));
    assert!(
        script.is_some_and(|call| call.place.is_none()),
        "{script:?}"
    );
    for worker in rig.workers() {
        let status =
            fs::read_to_string(format!("/proc/{worker}/status")).expect("the worker lives");
        assert!(status.contains("TracerPid:\t0\n"), "{status}");
    }
    assert_eq!(rig.get("times=1"), "done");
}

#[test]
fn who_cannot_be_traced_is_said() {
    let Some(rig) = Rig::start(TWO_WORKERS, &[]) else {
        return;
    };
    let nobody = trace(
        &options(std::process::id(), 1),
        &TraceProgress::default(),
        &AtomicBool::new(false),
    );
    assert!(
        matches!(nobody, Err(ProfilerError::NotPhp { .. })),
        "{nobody:?}"
    );
    let mut idle = options(rig.workers()[0], 1);
    idle.duration = Duration::from_millis(300);
    let mut nowhere = idle.clone();
    (nowhere.pid, nowhere.pools) = (rig.master(), Pools::Only("other".to_owned()));
    let idle = trace(&idle, &TraceProgress::default(), &AtomicBool::new(false))
        .expect("a trace of nothing");
    assert_eq!((idle.requests(), idle.calls.len()), (0, 0));
    let nowhere = trace(&nowhere, &TraceProgress::default(), &AtomicBool::new(false));
    assert_eq!(nowhere.expect("a trace of nobody").requests(), 0);
}
