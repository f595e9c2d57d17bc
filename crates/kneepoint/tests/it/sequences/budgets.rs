//! A run keeps to the time that it was given, from its first moment to the end of the stack.

use crate::support::company::long_among_waiting;
use crate::support::{kneepoint, needs_root, start, text, wait, waiting_site};
use serde_json::Value;
use std::time::Duration;

/// Share of its budget that a run may take beyond it: a step that began is measured to its end.
const BEYOND: f64 = 0.2;

/// A minute is enough for a limit and all that a diagnosis looks at; what its pages cost is all waiting.
#[test]
fn a_diagnosis_ends_within_its_budget() {
    if !needs_root("a_diagnosis_ends_within_its_budget") {
        return;
    }
    let _place = long_among_waiting();
    let directory = tempfile::tempdir().expect("temp dir");
    let runs = directory.path().join("runs");
    let scenario = waiting_site(directory.path(), "site", 20).join("kneepoint.toml");
    let output = wait(
        start(
            kneepoint()
                .arg("diagnose")
                .arg(&scenario)
                .args(["--set", "php.pm=static", "--set", "php.pm.max_children=2"])
                .args(["--budget", "60s", "--no-report", "--json", "-", "--runs"])
                .arg(&runs),
        ),
        Duration::from_secs(240),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let looked = run["run"]["observations"].as_array().map_or(0, Vec::len);
    assert!(looked >= 3, "it looked at each phase: {looked}");
    let elapsed_s = run["run"]["elapsed_s"].as_f64().expect("a number");
    let most_s = 60.0 * (1.0 + BEYOND);
    assert!(elapsed_s <= most_s, "{elapsed_s}: {}", text(&output.stderr));
}
