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
use kneepoint_load::Engine;
use kneepoint_model::LoadPoint;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

const RUN: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(2);
/// The machine may be busy, and a signal takes its time.
const TOLERANCE: f64 = 0.05;

/// Stops a process for a while, some time from now; tells for how long it stood.
fn stall(worker: Pid, after: Duration) -> thread::JoinHandle<Duration> {
    thread::spawn(move || {
        thread::sleep(after);
        kill_process(worker, Signal::STOP).expect("stopped");
        let stopped = Instant::now();
        thread::sleep(STALL);
        kill_process(worker, Signal::CONT).expect("continued");
        stopped.elapsed()
    })
}

/// 200 requests a second, evenly, with connections enough for all that a stall holds up.
fn drive(nginx: &Nginx) -> LoadPoint {
    let mut plan = even(nginx.target(), "const(200,10s)");
    "/page.html".clone_into(&mut plan.workload.requests[0].path);
    plan.slo.timeout = Duration::from_secs(8);
    plan.max_connections = 1000;
    let point = Engine::run(&plan, &|_| {}, &AtomicBool::new(false)).expect("the load runs");
    hold_invariants(&plan, &point);
    assert_eq!(point.outcomes.failed(), 0, "{:?}", point.outcomes);
    point
}

fn check(what: &str, expected_s: f64, measured_ms: Option<f64>) {
    let measured_s = measured_ms.expect("responses") / 1e3;
    assert!(
        (measured_s / expected_s - 1.0).abs() < TOLERANCE,
        "{what}: {measured_s} s measured, {expected_s} s expected"
    );
}

#[test]
fn a_stall_shows_in_the_quantiles_as_the_closed_form_says() {
    let nginx = Nginx::start("worker_connections 4096;", "");
    let stalling = stall(nginx.worker(), RUN / 3);
    let point = drive(&nginx);
    let stood = stalling.join().expect("stalled").as_secs_f64();
    for quantile in [0.9, 0.95, 0.99] {
        let expected = stood - (1.0 - quantile) * RUN.as_secs_f64();
        let what = format!("p{}", quantile * 100.0);
        check(&what, expected, point.response.quantile_ms(quantile));
    }
    check("max", stood, point.response.max_ms());
}

/// What wrk says of the same server and the same stall: a time in seconds after a word of its output.
fn wrk_says(output: &str, word: &str) -> f64 {
    let value = output
        .lines()
        .find_map(|line| line.trim().strip_prefix(word))
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_else(|| panic!("no {word} in {output}"));
    let (number, unit) = value.split_at(value.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0));
    let number: f64 = number.parse().expect("a number");
    number
        * match unit {
            "us" => 1e-6,
            "ms" => 1e-3,
            _ => 1.0,
        }
}

/// wrk drops what is under way when its time is over, so a server that stands still at the end of a run is in no
/// quantile. (In the middle of a run wrk fills in, from the mean interval of its own closed loop, what it believes it
/// would have sent: there its p99 comes near.)
#[test]
fn wrk_does_not_show_a_stall_at_the_end() {
    let nginx = Nginx::start("worker_connections 4096;", "");
    let stalling = stall(nginx.worker(), RUN - STALL + STALL / 8);
    let output = Command::new("wrk")
        .args(["-t1", "-c8", "-d10s", "--timeout", "8s", "--latency"])
        .arg(format!("http://{}/page.html", nginx.address))
        .output()
        .unwrap_or_else(|error| panic!("wrk: {error}; run scripts/install-deps"));
    let stood = stalling.join().expect("stalled").as_secs_f64();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    // What had been asked for since the stall began was not answered when wrk ended.
    let expected = stood * 7.0 / 8.0 - 0.01 * RUN.as_secs_f64();
    let p99 = wrk_says(&output, "99%");
    assert!(
        p99 < 0.5 * expected,
        "wrk: p99 {p99:.4} s where users saw at least {expected:.3} s\n{output}"
    );
}

/// The same stall, as it shows here: every request that was intended ends in the record.
#[test]
fn a_stall_at_the_end_is_not_lost() {
    let nginx = Nginx::start("worker_connections 4096;", "");
    let stalling = stall(nginx.worker(), RUN - STALL + STALL / 8);
    let point = drive(&nginx);
    let stood = stalling.join().expect("stalled").as_secs_f64();
    check("max", stood, point.response.max_ms());
    // The load ends an eighth before the stall does: as many requests as in seven eighths find it standing.
    let expected = stood - 0.01 * RUN.as_secs_f64();
    check("p99", expected, point.response.quantile_ms(0.99));
}
