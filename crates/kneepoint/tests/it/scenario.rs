//! Whole commands on real stacks.

use crate::support::company::{alone, among_others};
use crate::support::{kneepoint, needs_root, plain_scenario, start, text, wait};
use std::time::{Duration, Instant};

#[test]
fn limit_finds_a_rate_on_loopback_without_root() {
    let _place = among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(directory.path(), "");
    let output = wait(
        start(
            kneepoint()
                .arg("limit")
                .arg(&scenario)
                .args(["--loopback", "--budget", "20s", "--json", "-", "--runs"])
                .arg(directory.path()),
        ),
        Duration::from_secs(120),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rate = &run["run"]["limits"][0]["rate_hz"];
    let ends = ["low", "estimate", "high"].map(|end| rate[end].as_f64().expect("a number"));
    assert!(
        0.0 < ends[0] && ends[0] <= ends[1] && ends[1] <= ends[2],
        "{ends:?}"
    );
}

/// A dry run starts nothing, says what it is, and finds the limit that it says was true.
#[test]
fn limit_on_a_simulated_stack_is_a_dry_run_of_the_whole() {
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(directory.path(), "");
    let run = |extra: &[&str]| {
        let output = wait(
            start(
                kneepoint()
                    .arg("limit")
                    .arg(&scenario)
                    .args(["--simulate", "--budget", "5m", "--json", "-", "--runs"])
                    .arg(directory.path())
                    .args(extra),
            ),
            Duration::from_secs(120),
        );
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON")
    };
    let first = run(&[]);
    let journal = first["run"]["journal"].to_string();
    assert!(
        journal.contains("this is a dry run on a simulated stack"),
        "{journal}"
    );
    assert!(journal.contains("true R* at reference speed"), "{journal}");
    let limit = |run: &serde_json::Value| run["run"]["limits"][0]["reference_hz"].clone();
    assert!(
        limit(&first)["estimate"]
            .as_f64()
            .is_some_and(|rate| rate > 100.0),
        "{first}"
    );
    assert_eq!(limit(&first), limit(&run(&[])), "a seed is a run");
    assert_ne!(limit(&first), limit(&run(&["--seed", "2"])));
}

/// nginx has to name the scripts of the private copy, not of the original.
#[test]
fn an_application_with_changed_files_is_served_from_its_copy() {
    let _place = among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(
        directory.path(),
        r#"
[[app.file]]
path = "public/copied.php"
content = "<?php echo 'the copy at ' . basename(dirname(__DIR__));"

[stack]
web = { server = "nginx" }
php = { runtime = "fpm" }

[[request]]
path = "/copied.php"
expect = { status = 200, body_contains = "the copy at app" }
"#,
    );
    let output = wait(
        start(
            kneepoint()
                .arg("limit")
                .arg(&scenario)
                .args(["--loopback", "--budget", "10s", "--no-report", "--runs"])
                .arg(directory.path()),
        ),
        Duration::from_secs(120),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        !crate::support::apps()
            .join("plain/public/copied.php")
            .exists()
    );
}

#[test]
fn diagnose_names_opcache_off_on_the_laravel_application() {
    if !needs_root("diagnose_names_opcache_off_on_the_laravel_application") {
        return;
    }
    let _place = alone();
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = crate::support::apps().join("laravel/kneepoint.toml");
    let output = wait(
        start(
            kneepoint()
                .arg("diagnose")
                .arg(&scenario)
                .args(["--set", "php.opcache.enable=0", "--json", "-", "--runs"])
                .arg(directory.path()),
        ),
        Duration::from_secs(300),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let first = &run["run"]["findings"][0];
    assert_eq!(first["code"], "OPC-01", "{first}");
    assert_eq!(first["confidence"], "confirmed", "{first}");
}

#[test]
fn explain_and_rules_tell_of_every_rule() {
    let rules = kneepoint()
        .args(["rules", "--json"])
        .output()
        .expect("rules");
    let rules: serde_json::Value = serde_json::from_slice(&rules.stdout).expect("JSON");
    let rules = rules.as_array().expect("a list");
    assert!(rules.len() >= 24, "{}", rules.len());
    for rule in rules {
        let code = rule["code"].as_str().expect("a code");
        let told = kneepoint()
            .args(["explain", code])
            .output()
            .expect("explain");
        assert!(told.status.success());
        assert!(
            text(&told.stdout).len() > 400,
            "{code} is explained in a sentence"
        );
    }
    let unknown = kneepoint()
        .args(["explain", "NOPE-99"])
        .output()
        .expect("explain");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(unknown.stdout.is_empty());
}

/// What another program takes from the machine meanwhile is told with each step, and makes none of them void.
#[test]
fn a_neighbour_that_takes_the_cpu_is_seen_and_voids_no_step() {
    let _place = alone();
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(directory.path(), "");
    let child = start(
        kneepoint()
            .arg("limit")
            .arg(&scenario)
            .args(["--loopback", "--budget", "30s", "--no-report"])
            .args(["--json", "-", "--runs"])
            .arg(directory.path()),
    );
    // As many as a pool has workers: the kernel shares the cores out by thread.
    let hogs: Vec<_> = (0..12)
        .map(|_| {
            std::thread::spawn(|| {
                let began = Instant::now();
                while began.elapsed() < Duration::from_secs(24) {
                    if began.elapsed() < Duration::from_secs(10) {
                        std::thread::sleep(Duration::from_millis(100));
                    }
                }
            })
        })
        .collect();
    let output = wait(child, Duration::from_secs(240));
    hogs.into_iter().for_each(|hog| hog.join().expect("a loop"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trials = run["run"]["trials"].as_array().expect("trials");
    let others = |trial: &serde_json::Value| trial["load"]["health"]["foreign_share"].as_f64();
    let most = trials.iter().filter_map(others).fold(0.0, f64::max);
    assert!(most > 0.1, "{}", run["run"]["journal"]);
    for trial in trials {
        let why = trial["load"]["validity"]["because"].to_string();
        assert!(!why.contains("not part of this run"), "{why}");
    }
}
