//! Whatever becomes of `kneepoint profile --calls` and of its terminal, the workers that it traces go on.

use crate::support::by_hand::{ByHand, end};
use crate::support::company::among_others;
use crate::support::{children, kneepoint, needs_root, start, text, wait};
use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// How many of the workers are traced now.
fn traced(servers: &ByHand) -> usize {
    let workers = children(servers.fpm());
    assert_eq!(workers.len(), 2, "the workers live: {}", servers.fpm_log());
    let status = |worker: &u32| fs::read_to_string(format!("/proc/{worker}/status"));
    let statuses = workers
        .iter()
        .map(|worker| status(worker).expect("it lives"));
    statuses
        .filter(|status| !status.contains("TracerPid:\t0\n"))
        .count()
}

#[track_caller]
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < end, "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(name: &str, pid: u32) {
    let status = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

/// Requests are answered, by workers that do not stand still.
#[track_caller]
fn check_served(servers: &ByHand) {
    let asked = wait(start(&mut servers.load(&["-n", "40"])), LIMIT);
    assert!(
        asked.status.success(),
        "{}{}",
        text(&asked.stdout),
        text(&asked.stderr)
    );
}

#[test]
fn a_trace_that_is_stopped_lets_go_of_the_workers_and_says_so() {
    if !needs_root("a trace") {
        return;
    }
    let _place = among_others();
    let servers = ByHand::start();
    let load = start(&mut servers.load(&["-z", "30s"]));
    let profiler = start(kneepoint().args(servers.long_trace()));
    eventually("the trace", || traced(&servers) == 2);
    signal("-STOP", profiler.id());
    eventually("their freedom", || traced(&servers) == 0);
    check_served(&servers);
    signal("-CONT", profiler.id());
    let output = wait(profiler, LIMIT);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(
        said.contains("was stopped (Ctrl-Z)") && said.contains("GET /"),
        "{said}"
    );
    end(load);
}

#[test]
fn a_terminal_that_takes_nothing_stops_no_worker() {
    if !needs_root("a trace") {
        return;
    }
    let _place = among_others();
    let servers = ByHand::start();
    let words = format!(
        "{} {}",
        env!("CARGO_BIN_EXE_kneepoint"),
        servers.long_trace().join(" ")
    );
    let mut terminal = Command::new("script")
        .args(["-qec", &words, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("script, of which every Debian has one");
    let mut keys = terminal.stdin.take().expect("a pipe");
    eventually("the trace", || traced(&servers) == 2);
    // Ctrl-S: the terminal takes nothing more, and the next line of progress waits.
    keys.write_all(b"\x13").expect("typed");
    std::thread::sleep(Duration::from_secs(1));
    check_served(&servers);
    assert_eq!(traced(&servers), 2, "it goes on");
    // Ctrl-Q and Ctrl-C.
    keys.write_all(b"\x11\x03").expect("typed");
    let ended = wait(terminal, LIMIT);
    assert_eq!(ended.status.code(), Some(130));
    assert_eq!(traced(&servers), 0);
}

/// Whether this program, and so what it starts, takes no notice of SIGHUP.
fn ignores_hangup() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("its own status");
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.expect("a mask") & 1 != 0
}

#[test]
fn a_tracer_that_stands_still_is_killed_and_one_without_an_owner_ends() {
    if !needs_root("a trace") {
        return;
    }
    let _place = among_others();
    let servers = ByHand::start();
    let load = start(&mut servers.load(&["-z", "30s"]));
    let profiler = start(kneepoint().args(servers.long_trace()));
    eventually("the trace", || traced(&servers) == 2);
    let [helper] = children(profiler.id())[..] else {
        panic!("one helper");
    };
    signal("-STOP", helper);
    let output = wait(profiler, LIMIT);
    assert_eq!(output.status.code(), Some(2));
    let why = text(&output.stderr);
    assert!(why.contains("the tracer stood still"), "{why}");
    assert_eq!(traced(&servers), 0);
    check_served(&servers);
    // Below nohup a hangup ends nobody.
    let names = if ignores_hangup() {
        &["-KILL"][..]
    } else {
        &["-KILL", "-HUP"]
    };
    for name in names {
        let profiler = start(kneepoint().args(servers.long_trace()));
        eventually("the trace", || traced(&servers) == 2);
        signal(name, profiler.id());
        wait(profiler, LIMIT);
        eventually("their freedom", || traced(&servers) == 0);
    }
    check_served(&servers);
    end(load);
}
