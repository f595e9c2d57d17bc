//! Several configurations on one bench.

use crate::support::company::long_among_waiting;
use crate::support::{kneepoint, start, text, wait, waiting_site as site};
use serde_json::Value;
use std::time::Duration;

/// Compares with these arguments and returns the exit code, the run, and what was said.
fn compare(arguments: &[&str], runs: &std::path::Path) -> (Option<i32>, Value, String) {
    let output = wait(
        start(
            kneepoint()
                .arg("compare")
                .args(arguments)
                .args(["--no-report", "--json", "-", "--runs"])
                .arg(runs),
        ),
        Duration::from_secs(400),
    );
    let mut document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (
        output.status.code(),
        document["run"].take(),
        text(&output.stderr),
    )
}

#[test]
fn a_slower_application_is_told_apart_with_what_it_costs() {
    let _place = long_among_waiting();
    let directory = tempfile::tempdir().expect("temp dir");
    let runs = directory.path().join("runs");
    let slow = site(directory.path(), "slow", 90).join("kneepoint.toml");
    let fast = site(directory.path(), "fast", 30).join("kneepoint.toml");
    let [slow, fast] = [&slow, &fast].map(|path| path.to_str().expect("UTF-8"));
    // On a machine that others disturb all the time it says that it cannot tell, and is asked again with more time, as it
    // says.
    let (mut code, mut run, mut said) = (None, Value::Null, String::new());
    for budget in ["20s", "40s", "80s"] {
        (code, run, said) = compare(&[fast, slow, "--as-is", "--budget", budget], &runs);
        if !said.contains("too few rounds of") {
            break;
        }
    }
    assert_eq!(code, Some(0), "{said}");
    let contestants = run["contest"]["contestants"]
        .as_array()
        .expect("two")
        .clone();
    assert_eq!(contestants.len(), 2, "{run}");
    for it in &contestants {
        let limit = it["limit"]["estimate"].as_f64();
        assert!(limit.is_some_and(|limit| limit > 0.0), "{it}");
        let carried = it["carried"].as_array().expect("two profiles");
        let measured = carried.iter().filter(|carried| {
            carried["arrivals"].as_u64() > Some(0)
                && carried["cpu_s"].as_f64() > Some(0.0)
                && carried["memory_bytes"].as_f64() > Some(1e6)
        });
        assert!(measured.count() >= 1, "{it}");
        assert!(it["start_ms"].as_f64() > Some(0.0), "{it}");
        assert!(it["first_response_ms"].as_f64() > Some(0.0), "{it}");
    }
    let effect = &contestants[1]["against_first"];
    assert_eq!(effect["verdict"], "worse", "{effect}\n{said}");
}

#[test]
fn what_cannot_be_compared_is_said() {
    let directory = tempfile::tempdir().expect("temp dir");
    let runs = directory.path().join("runs");
    let site = site(directory.path(), "main", 10).join("kneepoint.toml");
    let site = site.to_str().expect("UTF-8");
    let check = |arguments: &[&str], words: &str| {
        let (code, _, said) = compare(arguments, &runs);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words), "expected `{words}` in:\n{said}");
    };
    check(&[site, "--as-is"], "there is nothing to compare with");
    check(&[site, "--runtime", "redis"], "redis is no PHP runtime");
    check(
        &[site, "--runtime", "iis"],
        "`iis` is not a server Kneepoint can run",
    );
    check(&[site, "--with", "jit"], "write NAME:TIER.NAME=VALUE");
    check(
        &[site, "--with", "main:php.pm=static"],
        "two are called `main`",
    );
}
