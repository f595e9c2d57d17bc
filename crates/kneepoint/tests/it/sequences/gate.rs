//! The gate of a pipeline, on a real stack: what got slower fails, what did not does not.

use crate::support::company::long_among_waiting;
use crate::support::{kneepoint, start, text, wait, waiting_site as site};
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

fn limit(root: &Path, runs: &Path, budget: &str, more: &[&str]) -> Output {
    wait(
        start(
            kneepoint()
                .arg("limit")
                .arg(root.join("kneepoint.toml"))
                .args(["--set", "php.pm=static", "--set", "php.pm.max_children=2"])
                .args(["--loopback", "--no-report", "--json", "-"])
                .args(["--budget", budget, "--runs"])
                .arg(runs)
                .args(more),
        ),
        Duration::from_secs(300),
    )
}

fn at_once<A: Send, B: Send>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    std::thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().expect("the other run"), other)
    })
}

fn passes_or_cannot_tell(output: &Output) {
    let code = output.status.code();
    assert!(
        code == Some(0) || code == Some(3),
        "{}",
        text(&output.stderr)
    );
}

fn run_of(output: &Output) -> Value {
    let mut document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    document["run"].take()
}

#[test]
fn side_by_side_a_slower_application_fails_and_the_same_does_not() {
    let _place = long_among_waiting();
    let directory = tempfile::tempdir().expect("temp dir");
    let runs = directory.path().join("runs");
    let main = site(directory.path(), "main", 20);
    let same = site(directory.path(), "same", 20);
    let slower = site(directory.path(), "slower", 50);
    let junit = directory.path().join("kneepoint.xml");
    let junit = junit.to_str().expect("a path in UTF-8");
    let main = main.to_str().expect("UTF-8");
    let against_main = ["--ci", "--baseline-app", main, "--max-loss", "20%"];

    // The pages wait: two gates beside each other take nothing from one another.
    let with_junit = [&against_main[..], &["--junit", junit]].concat();
    let (output, of_same) = at_once(
        || limit(&slower, &runs.join("slower"), "30s", &with_junit),
        || limit(&same, &runs.join("same"), "30s", &against_main),
    );
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let run = run_of(&output);
    assert_eq!(run["gate"]["verdict"], "fail");
    let claim = &run["gate"]["claims"][0];
    let lost = &claim["loss"];
    let ends = ["low", "high"].map(|end| lost[end].as_f64().expect("a number"));
    assert!(ends[0] > 0.2 && ends[1] < 0.95, "{lost}");
    // Its raw counts are in the run, a trial for each step of each pair.
    let trials = run["trials"].as_array().expect("trials");
    let steps = trials.iter().filter(|trial| {
        let purpose = trial["purpose"].as_str().unwrap_or("");
        purpose.starts_with("gate: pair") && trial["load"]["arrivals"].as_u64() > Some(0)
    });
    let pairs = claim["conditions"].as_str().expect("words");
    let pairs: usize = pairs
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a count");
    assert!(steps.count() >= 2 * pairs && pairs >= 3, "{claim}");
    let written = std::fs::read_to_string(junit).expect("JUnit was written");
    assert!(written.contains("<failure"), "{written}");

    passes_or_cannot_tell(&of_same);
    assert_ne!(run_of(&of_same)["gate"]["verdict"], "fail");
}

#[test]
fn against_a_stored_run_a_slower_application_fails_and_the_same_does_not() {
    let _place = long_among_waiting();
    let directory = tempfile::tempdir().expect("temp dir");
    let runs = directory.path().join("runs");
    let main = site(directory.path(), "main", 20);
    let slower = site(directory.path(), "slower", 80);
    // On a machine that others disturb all the time it says that it cannot tell, and is asked again with more time, as it
    // says.
    let (mut baseline, mut output) = (String::new(), None);
    for budget in ["40s", "100s"] {
        let before = limit(&main, &runs, budget, &[]);
        assert!(before.status.success(), "{}", text(&before.stderr));
        baseline = run_of(&before)["id"].as_str().expect("an id").to_owned();
        let against = ["--ci", "--baseline", &baseline, "--max-loss", "20%"];
        let now = output.insert(limit(&slower, &runs, budget, &against));
        if now.status.code() != Some(3) {
            break;
        }
    }
    let output = output.expect("asked");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert_eq!(run_of(&output)["gate"]["claims"][0]["quantity"], "R*");
    let against = ["--ci", "--baseline", &baseline, "--max-loss", "20%"];

    passes_or_cannot_tell(&limit(&main, &runs, "20s", &against));

    // Another question is no baseline for this one, and nothing is measured to find that out.
    let changed = std::fs::read_to_string(main.join("kneepoint.toml")).expect("scenario");
    std::fs::write(
        main.join("kneepoint.toml"),
        changed.replace("250ms", "400ms"),
    )
    .expect("written");
    let output = limit(&main, &runs, "20s", &against);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("the SLO was p95 <= 250 ms"),
        "{}",
        text(&output.stderr)
    );
}
