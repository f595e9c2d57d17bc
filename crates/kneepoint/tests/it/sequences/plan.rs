//! A plan on a real stack, whose true limit follows from how it is made.

use crate::support::company::long_among_waiting;
use crate::support::{kneepoint, start, text, wait, waiting_site};
use serde_json::Value;
use std::time::Duration;

/// Two workers that wait 20 ms for each request bear 100 requests per second at most, whatever the machine.
#[test]
fn what_two_workers_bear_is_predicted_from_half_of_it() {
    let _place = long_among_waiting();
    let directory = tempfile::tempdir().expect("temp dir");
    let runs = directory.path().join("runs");
    let root = waiting_site(directory.path(), "site", 20);
    let output = wait(
        start(
            kneepoint()
                .arg("plan")
                .arg(root.join("kneepoint.toml"))
                .args(["--set", "php.pm=static", "--set", "php.pm.max_children=2"])
                .args([
                    "--loopback",
                    "--no-report",
                    "--json",
                    "-",
                    "--budget",
                    "60s",
                ])
                .args(["--users", "3000", "--think", "10s", "--runs"])
                .arg(&runs),
        ),
        Duration::from_secs(240),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let plan = &run["run"]["capacity"];
    let number = |value: &Value| {
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{value} in {plan}"))
    };
    assert_eq!(plan["bound_by"], "the workers", "{plan}");
    let limit_hz = number(&plan["limit_hz"]["estimate"]);
    assert!((75.0..101.0).contains(&limit_hz), "{limit_hz}: {plan}");
    assert!(number(&plan["measured_up_to"]) < 0.65, "{plan}");
    // Some 300/s, at 80 % of the lower end each.
    let need = &plan["need"];
    assert!((280.0..301.0).contains(&number(&need["rate_hz"])), "{need}");
    assert!((4.0..=7.0).contains(&number(&need["hosts"])), "{need}");
}
