//! Where visitors make several requests each, a limit is in visits; a budget is kept.

use crate::support::company::among_waiting;
use crate::support::{kneepoint, start, text, wait, waiting_site};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

const BUDGET: &str = "40s";
const BUDGET_S: f64 = 40.0;

/// A page that waits, asked twice: each request for itself, or one after the other in a visit.
fn scenario(directory: &Path, name: &str, sessions: &str) -> PathBuf {
    let site = waiting_site(directory, name, 20);
    let path = site.join("kneepoint.toml");
    let text = format!(
        r#"
[app]
root = "."

[stack]
web = {{ server = "nginx" }}
php = {{ runtime = "fpm", settings = {{ "pm" = "static", "pm.max_children" = 2 }} }}

[[request]]
name = "first"
path = "/"
expect = {{ status = 200, body_contains = "served" }}

[[request]]
name = "second"
path = "/?again"
expect = {{ status = 200, body_contains = "served" }}

{sessions}
[slo]
timeout = "2s"
response_time = {{ p95 = "200ms" }}
"#
    );
    std::fs::write(&path, text).expect("the scenario is written");
    path
}

/// A directory beside the site.
fn runs_of(scenario: &Path) -> PathBuf {
    scenario.parent().expect("a site").with_extension("runs")
}

fn limit(runs: &Path, scenario: &Path) -> Value {
    let output = wait(
        start(
            kneepoint()
                .arg("limit")
                .arg(scenario)
                .args(["--loopback", "--budget", BUDGET, "--json", "-", "--runs"])
                .arg(runs),
        ),
        Duration::from_secs(180),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let mut document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    document["run"].take()
}

fn steps<'r>(run: &'r Value, purpose: &'r str) -> impl Iterator<Item = &'r Value> {
    let trials = run["trials"].as_array().expect("trials").iter();
    trials
        .filter(move |trial| trial["purpose"] == purpose)
        .map(|trial| &trial["load"])
}

#[test]
fn a_limit_of_visits_of_two_requests_is_half_of_that_of_requests() {
    let _place = among_waiting();
    let directory = tempfile::tempdir().expect("temp dir");
    let session = "[[session]]\nrequests = [\"first\", \"second\"]\n";
    let scenarios = [("visits", session), ("requests", "")]
        .map(|(name, sessions)| scenario(directory.path(), name, sessions));
    // Their pages wait: they take nothing from one another.
    let [visits, requests] = std::thread::scope(|scope| {
        let both = scenarios
            .each_ref()
            .map(|path| scope.spawn(move || limit(&runs_of(path), path)));
        both.map(|one| one.join().expect("it has a limit"))
    });
    let found = &visits["limits"][0];
    let number = |value: &Value| value.as_f64().expect("a number");
    let each = number(&found["requests_a_visit"]);
    assert!((1.9..2.1).contains(&each), "{found}");
    assert!(number(&found["visit_s"]) > 0.0, "{found}");
    // The same machine at the same time: about as many requests, and neither half nor twice as many.
    let ratio = number(&found["rate_hz"]["estimate"]) * each
        / number(&requests["limits"][0]["rate_hz"]["estimate"]);
    assert!((0.6..1.7).contains(&ratio), "{ratio}: {found}");
    assert!(requests["limits"][0]["requests_a_visit"].is_null());
    // The search starts below what a closed loop serves, in one unit.
    let saturating = steps(&visits, "limit: saturate").next().expect("a step");
    let served_hz =
        number(&saturating["outcomes"]["by_outcome"]["ok"]) / number(&saturating["window_s"]);
    let saturation_hz = number(&found["saturation_hz"]);
    assert!(
        (saturation_hz * 2.0 / served_hz - 1.0).abs() < 0.2,
        "{saturation_hz} {served_hz}"
    );
    let first = steps(&visits, "limit: step").next().expect("a step");
    assert!(
        number(&first["visits_offered_hz"]) <= saturation_hz,
        "{first}"
    );
    // Everything is in the budget; how late a busy machine may be in stopping the stack is generous.
    for run in [&visits, &requests] {
        let share = number(&run["elapsed_s"]) / BUDGET_S;
        assert!(share < 1.5, "{share} of the budget: {}", run["journal"]);
    }
}
