//! `kneepoint profile` on a PHP-FPM started by hand.

use crate::support::by_hand::{ByHand, end};
use crate::support::company::among_others;
use crate::support::{kneepoint, needs_root, start, text, wait};
use std::fs;
use std::process::Output;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn profile(pid: u32, arguments: &[&str]) -> Output {
    let mut command = kneepoint();
    command.args(["profile", "--pid", &pid.to_string()]);
    wait(start(command.args(arguments)), LIMIT)
}

#[test]
fn the_workers_of_a_master_are_profiled_under_load() {
    if !needs_root("a profile") {
        return;
    }
    let _place = among_others();
    let servers = ByHand::start();
    let graph = servers.directory.path().join("flame.svg");
    let scope = servers.directory.path().join("profile.json");
    let load = start(&mut servers.load(&["-z", "30s"]));
    let [svg, json] = [&graph, &scope].map(|path| path.display().to_string());
    let arguments: [&str; 8] = [
        "-z",
        "2s",
        "--rate",
        "499",
        "--svg",
        &svg,
        "--speedscope",
        &json,
    ];
    let table = profile(servers.fpm(), &arguments);
    let said = text(&table.stdout);
    assert!(table.status.success(), "{said}{}", text(&table.stderr));
    for words in [
        "(fpm-fcgi), 2 workers",
        "at 499 Hz",
        "salvaged",
        "plain/public/index.php",
        "GET /",
    ] {
        assert!(said.contains(words), "expected `{words}` in:\n{said}");
    }
    assert!(
        fs::read_to_string(&graph)
            .expect("the flame graph")
            .contains("index.php")
    );
    let scope: serde_json::Value =
        serde_json::from_slice(&fs::read(&scope).expect("the profile")).expect("JSON");
    assert!(
        scope["profiles"][0]["samples"]
            .as_array()
            .is_some_and(|samples| !samples.is_empty())
    );
    let folded = profile(servers.fpm(), &["-z", "2s", "--folded", "--by-request"]);
    assert!(folded.status.success(), "{}", text(&folded.stderr));
    let lines = text(&folded.stdout);
    let is_stack = |line: &str| {
        line.rsplit_once(' ')
            .is_some_and(|(_, count)| count.parse::<u64>().is_ok())
    };
    assert!(
        lines.lines().all(is_stack) && lines.contains("GET /;main "),
        "{lines}"
    );
    assert!(
        text(&folded.stderr).contains("ok "),
        "how it went goes to standard error"
    );
    end(load);
}

#[test]
fn what_requests_do_is_told_call_by_call() {
    if !needs_root("a trace") {
        return;
    }
    let _place = among_others();
    let servers = ByHand::start();
    let load = start(&mut servers.load(&["-z", "30s"]));
    let mut command = kneepoint();
    command.args([
        "profile",
        "--pool",
        &servers.pool(),
        "--calls",
        "--requests",
        "12",
    ]);
    let traced = wait(start(&mut command), LIMIT);
    let said = text(&traced.stdout);
    assert!(traced.status.success(), "{said}{}", text(&traced.stderr));
    for words in [
        "(fpm-fcgi), 12 requests traced from beginning to end: 12 GET /",
        "files opened",
        "Files opened",
        "plain/public/index.php",
    ] {
        assert!(said.contains(words), "expected `{words}` in:\n{said}");
    }
    end(load);
    let idle = profile(servers.fpm(), &["--calls", "-z", "1s"]);
    assert_eq!(idle.status.code(), Some(1), "{}", text(&idle.stderr));
    let mut other = kneepoint();
    let other = wait(
        start(other.args(["profile", "--pool", "no-such-pool"])),
        LIMIT,
    );
    assert_eq!(other.status.code(), Some(2));
    let why = text(&other.stderr);
    assert!(
        why.contains("no worker of a pool `no-such-pool`") && why.contains(&servers.pool()),
        "{why}"
    );
}

#[test]
fn what_cannot_be_profiled_is_said() {
    if !needs_root("a profile") {
        return;
    }
    let _place = among_others();
    let output = profile(std::process::id(), &["-z", "1s"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("is no PHP"),
        "{}",
        text(&output.stderr)
    );
    let servers = ByHand::start();
    let idle = profile(servers.fpm(), &["-z", "1s"]);
    assert_eq!(idle.status.code(), Some(1), "{}", text(&idle.stderr));
    assert!(
        text(&idle.stdout).contains("is there load?"),
        "{}",
        text(&idle.stdout)
    );
    let nowhere = profile(servers.fpm(), &["--svg", "/nowhere/flame.svg"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(text(&nowhere.stderr).contains("there is no directory /nowhere"));
}

#[test]
fn a_killed_profiler_leaves_the_workers_running_and_untraced() {
    if !needs_root("a profile") {
        return;
    }
    let _place = among_others();
    let servers = ByHand::start();
    let load = start(&mut servers.load(&["-z", "8s"]));
    let pid = servers.fpm().to_string();
    let passes: [&[&str]; 2] = [&["--rate", "997"], &["--calls", "--requests", "10000"]];
    for pass in passes {
        let mut command = kneepoint();
        command
            .args(["profile", "-z", "30s", "--pid", &pid])
            .args(pass);
        let mut profiler = start(&mut command);
        std::thread::sleep(Duration::from_secs(2));
        profiler.kill().expect("our own child");
        profiler.wait().expect("our own child");
        check_untraced(&servers);
    }
    let output = wait(load, LIMIT);
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Both workers live, and nobody traces them.
#[track_caller]
fn check_untraced(servers: &ByHand) {
    let children = format!("/proc/{0}/task/{0}/children", servers.fpm());
    let children = fs::read_to_string(children).expect("the master lives");
    let workers: Vec<&str> = children.split_ascii_whitespace().collect();
    assert_eq!(workers.len(), 2);
    let end = std::time::Instant::now() + LIMIT;
    for worker in workers {
        let status =
            || fs::read_to_string(format!("/proc/{worker}/status")).expect("the worker lives");
        while !status().contains("TracerPid:\t0\n") {
            assert!(std::time::Instant::now() < end, "{}", status());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
