//! A report replayed: its stages in turns, its claims judged.

use crate::support::company::among_waiting;
use crate::support::{kneepoint, start, text, wait, waiting_site as site};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const REPORT: &str = r#"
report = "T1"
title = "One worker is too few"
told = "A page that waits was served by one worker; four served three times as much."
scenario = "main/kneepoint.toml"
differs = ["Nothing of it is true."]

[overlay.stack.php.settings]
"pm" = "static"
"pm.max_children" = "1"

[[load]]
name = "eight at a time"
text = "ab -n 500 -c 8"
rounds = 6
longest = "1s"

[[stage]]
name = "one worker"
did = "nothing"
reported = { throughput_hz = 10 }

[[stage]]
name = "four workers"
did = "pm.max_children = 4"
reported = { throughput_hz = 30 }
overlay.stack.php.settings = { "pm.max_children" = "4" }

[[stage]]
name = "unit"
did = "another runtime"
runtime = "unit"
settings = { processes = "4" }

[[claim]]
what = "four serve more than twice as much"
measure = "throughput_hz"
from = "one worker"
to = "four workers"
needs = { ratio_at_least = 2.0 }

[[claim]]
what = "four serve twenty times as much"
measure = "throughput_hz"
from = "one worker"
to = "four workers"
needs = { ratio_at_least = 20.0 }
"#;

fn replay(what: &str, runs: &Path) -> (Option<i32>, Value, String) {
    let output = wait(
        start(
            kneepoint()
                .env_remove("KNEEPOINT_UNITD")
                .args(["replay", what, "--no-report", "--json", "-", "--runs"])
                .arg(runs),
        ),
        Duration::from_secs(240),
    );
    let mut document: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (
        output.status.code(),
        document["run"].take(),
        text(&output.stderr),
    )
}

#[test]
fn a_claim_that_holds_here_is_told_from_one_that_does_not() {
    let _place = among_waiting();
    let directory = tempfile::tempdir().expect("temp dir");
    let runs = directory.path().join("runs");
    // Waiting takes no CPU: what four workers gain does not depend on the machine.
    site(directory.path(), "main", 30);
    let report = directory.path().join("T1.toml");
    std::fs::write(&report, REPORT).expect("report written");
    let (code, run, said) = replay(report.to_str().expect("UTF-8"), &runs);
    assert_eq!(code, Some(1), "{said}");
    let replayed = &run["replay"];
    let met = |nth: usize| replayed["claims"][nth]["is_met"].as_bool();
    assert_eq!((met(0), met(1)), (Some(true), Some(false)), "{replayed}");
    let ratio = &replayed["claims"][0]["measured_ratio"];
    let end = |end: &str| ratio[end].as_f64().expect("a number");
    assert!(end("low") <= end("estimate") && end("estimate") <= end("high"));
    assert_eq!(replayed["claims"][0]["reported_ratio"], 3.0);
    let mut stages = replayed["stages"].as_array().expect("stages").clone();
    let unitd = ["/usr/sbin/unitd", "/usr/local/sbin/unitd"];
    if !unitd.iter().any(|path| Path::new(path).exists()) {
        let unit = stages.pop().expect("the last stage");
        let words = unit["last_words"].as_str().unwrap_or_default();
        assert!(words.contains("unitd is not installed"), "{unit}");
        assert!(said.contains("unit is skipped"), "{said}");
    }
    for stage in &stages {
        assert!(
            stage["measured"]["throughput_hz"].as_f64() > Some(1.0),
            "{stage}"
        );
        assert!(
            stage["carried"][0]["arrivals"].as_u64() > Some(50),
            "{stage}"
        );
    }
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let directory = tempfile::tempdir().expect("temp dir");
    let runs = directory.path().join("runs");
    let check = |what: &str, words: &str| {
        let (code, _, said) = replay(what, &runs);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains(words), "expected `{words}` in:\n{said}");
    };
    check("S9", "there is no field report `S9`");
    check("missing.toml", "cannot read the field report missing.toml");
    let wrong = directory.path().join("wrong.toml");
    std::fs::write(&wrong, "report = \"W\"\n").expect("report written");
    check(wrong.to_str().expect("UTF-8"), "missing field");
}
