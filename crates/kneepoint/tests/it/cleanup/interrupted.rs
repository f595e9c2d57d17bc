//! Ctrl-C ends a run cleanly with what there is.

use crate::support::company::among_others;
use crate::support::{kneepoint, needs_root, running_limit, text, wait};
use std::process::Command;
use std::time::Duration;

fn interrupt(pid: u32) {
    let status = Command::new("kill")
        .args(["-INT", &pid.to_string()])
        .status()
        .expect("kill runs");
    assert!(status.success());
}

#[test]
fn ctrl_c_keeps_what_was_measured() {
    if !needs_root("ctrl_c_keeps_what_was_measured") {
        return;
    }
    let _place = among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let child = running_limit(directory.path(), "2m");
    interrupt(child.id());
    let output = wait(child, Duration::from_secs(60));
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let listed = kneepoint()
        .arg("runs")
        .arg("--runs")
        .arg(directory.path())
        .output()
        .expect("runs");
    assert!(
        text(&listed.stdout).contains("interrupted"),
        "{}",
        text(&listed.stdout)
    );
    let json = kneepoint()
        .args(["report", "--format", "json", "--runs"])
        .arg(directory.path())
        .output()
        .expect("report");
    let run: serde_json::Value =
        serde_json::from_slice(&json.stdout).expect("the stored run is JSON");
    let trials = run["run"]["trials"].as_array().expect("trials").len();
    assert!(trials >= 1, "what was measured is kept: {trials} trials");
}
