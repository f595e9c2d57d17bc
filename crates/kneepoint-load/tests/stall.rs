//! A server that stands still for two seconds: an honest generator shows it as the users saw it.
//!
//! With an even rate over T seconds and a stall of D, the share of requests that find the server standing is D / T,
//! and their response times from the intended start are spread evenly from 0 to D. So the quantile q of all is
//! D - (1 - q) T as long as that is positive, and the largest is D.

#![expect(
    clippy::disallowed_methods,
    reason = "a test starts its own servers and peers and ends them by their process id"
)]

mod common;

use common::nginx::Nginx;
use common::{even, hold_invariants};
use kneepoint_load::{Engine, LoadPlan};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

const RUN: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(2);
/// The machine may be busy, and a signal takes its time.
const TOLERANCE: f64 = 0.05;

/// Stops a process for a while, some time into the run; tells for how long it stood.
fn stall(worker: Pid) -> thread::JoinHandle<Duration> {
    thread::spawn(move || {
        thread::sleep(RUN / 3);
        kill_process(worker, Signal::STOP).expect("stopped");
        let stopped = Instant::now();
        thread::sleep(STALL);
        kill_process(worker, Signal::CONT).expect("continued");
        stopped.elapsed()
    })
}

#[test]
fn a_stall_shows_in_the_quantiles_as_the_closed_form_says() {
    let nginx = Nginx::start("worker_connections 4096;", "");
    let mut plan = even(nginx.target(), "const(200,10s)");
    "/page.html".clone_into(&mut plan.workload.requests[0].path);
    plan.slo.timeout = Duration::from_secs(8);
    plan.max_connections = 1000;
    let stalling = stall(nginx.worker());
    let point = Engine::run(&plan, &|_| {}, &AtomicBool::new(false)).expect("the load runs");
    let stood = stalling.join().expect("stalled").as_secs_f64();
    hold_invariants(&plan, &point);
    assert_eq!(point.outcomes.failed(), 0, "{:?}", point.outcomes);

    let check = |what: &str, expected_s: f64, measured_ms: Option<f64>| {
        let measured_s = measured_ms.expect("responses") / 1e3;
        assert!(
            (measured_s / expected_s - 1.0).abs() < TOLERANCE,
            "{what}: {measured_s} s measured, {expected_s} s expected"
        );
        eprintln!("{what}: {measured_s:.3} s measured, {expected_s:.3} s expected");
    };
    for quantile in [0.9, 0.95, 0.99] {
        let expected = stood - (1.0 - quantile) * RUN.as_secs_f64();
        check(
            &format!("p{}", quantile * 100.0),
            expected,
            point.response.quantile_ms(quantile),
        );
    }
    check("max", stood, point.response.max_ms());
}
