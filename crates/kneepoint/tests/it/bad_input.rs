//! What a person gets wrong, and what the program says: what failed, on what, what to do next.

use crate::support::company::{among_others, briefly_among_others};
use crate::support::{
    apps, descends, is_root, kneepoint, needs_root, plain_scenario, running_limit, start, text,
    wait,
};
use kneepoint_linux::process::all;
use std::path::Path;
use std::time::Duration;

/// Runs a command that must fail, and checks its words. Returns all that it printed.
fn check(arguments: &[&str], directory: &Path, expected: &[&str]) -> String {
    let _place = briefly_among_others();
    // Without root there is no closed lab, and what is tested here is what comes after that.
    let on_the_host = (!is_root()).then_some("--host-network");
    let output = wait(
        start(
            kneepoint()
                .args(arguments)
                .args(on_the_host)
                .arg("--runs")
                .arg(directory.join("runs")),
        ),
        Duration::from_secs(120),
    );
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in expected {
        assert!(said.contains(words), "expected `{words}` in:\n{said}");
    }
    assert!(!said.contains("panicked"), "{said}");
    said + &text(&output.stdout)
}

#[test]
fn an_unknown_key_is_shown_with_its_line_and_a_suggestion() {
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(directory.path(), "[slo]\ntimeuot = \"2s\"\n");
    check(
        &["limit", &scenario.display().to_string()],
        directory.path(),
        &["kneepoint.toml:5", "timeuot", "timeout"],
    );
}

#[test]
fn a_missing_scenario_is_named() {
    let directory = tempfile::tempdir().expect("temp dir");
    check(
        &["tune", "/nowhere/kneepoint.toml"],
        directory.path(),
        &["/nowhere/kneepoint.toml"],
    );
}

#[test]
fn an_application_that_answers_500_from_the_start_is_not_loaded() {
    let directory = tempfile::tempdir().expect("temp dir");
    let broken = "[[app.file]]\npath = \"public/index.php\"\ncontent = \"<?php http_response_code(500); echo 'no';\"\n\n\
                  [[request]]\npath = \"/db\"\n";
    let scenario = plain_scenario(directory.path(), broken);
    let printed = check(
        &["limit", &scenario.display().to_string()],
        directory.path(),
        &["/db", "status 500", "before any load"],
    );
    // The summary on standard output breaks its lines elsewhere.
    let words: Vec<&str> = printed.split_whitespace().collect();
    let reason = "with status 500 before any load";
    assert_eq!(words.join(" ").matches(reason).count(), 1, "{printed}");
}

#[test]
fn a_page_that_needs_a_tier_which_is_missing_says_which() {
    if !needs_root("a_page_that_needs_a_tier_which_is_missing_says_which") {
        return;
    }
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(directory.path(), "[[request]]\npath = \"/db\"\n");
    check(
        &["limit", &scenario.display().to_string()],
        directory.path(),
        &[
            "no load was sent",
            "127.0.0.1:5432, at src/Database.php:30 in PDO::__construct(), for GET /db",
            "a tier: db",
        ],
    );
}

#[test]
fn an_impossible_setting_is_refused_before_anything_starts() {
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(directory.path(), "");
    let path = scenario.display().to_string();
    check(
        &["limit", &path, "--set", "php.pm.max_children"],
        directory.path(),
        &["TIER.NAME=VALUE"],
    );
    check(
        &["limit", &path, "--set", "db.max_connections=5"],
        directory.path(),
        &["no db tier"],
    );
    check(
        &["limit", &path, "--set", "php.pm=sometimes"],
        directory.path(),
        &["pm", "sometimes"],
    );
}

#[test]
fn a_run_directory_that_cannot_be_made_is_named() {
    let _place = briefly_among_others();
    let scenario = apps().join("plain/kneepoint.toml");
    let output = kneepoint()
        .arg("limit")
        .arg(scenario)
        .args(["--runs", "/proc/nowhere"])
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("/proc/nowhere"),
        "{}",
        text(&output.stderr)
    );
}

/// A runs directory on a file system with next to no space: the measurement is kept and printed, the failure said.
#[test]
fn a_full_disk_does_not_lose_the_measurement() {
    if !needs_root("a_full_disk_does_not_lose_the_measurement") {
        return;
    }
    let _place = among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(directory.path(), "");
    let small = directory.path().join("small");
    std::fs::create_dir(&small).expect("mount point");
    let script = format!(
        "mount -t tmpfs -o size=96k none {small} && exec {program} limit {scenario} --budget 20s --runs {small}",
        small = small.display(),
        program = env!("CARGO_BIN_EXE_kneepoint"),
        scenario = scenario.display(),
    );
    // The mount lives in a mount namespace of its own and goes with it.
    let mut command = std::process::Command::new("unshare");
    let output = wait(
        start(command.args(["--mount", "--", "sh", "-c", &script])),
        Duration::from_secs(120),
    );
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("disk") && said.contains("in memory"),
        "{said}"
    );
    assert!(
        printed.contains("R*"),
        "the result is printed all the same:\n{printed}"
    );
}

#[test]
fn a_target_that_dies_in_the_middle_ends_the_run_in_words() {
    if !needs_root("a_target_that_dies_in_the_middle_ends_the_run_in_words") {
        return;
    }
    let _place = among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let child = running_limit(directory.path(), "2m");
    // Workers outlive a killed master and go on serving: all of them must go.
    let is_master = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        text(&command).contains("php-fpm: master") && descends(*pid, child.id())
    };
    let masters: Vec<u32> = all().into_iter().filter(is_master).collect();
    assert!(!masters.is_empty(), "PHP-FPM runs");
    for master in masters {
        let workers = std::fs::read_to_string(format!("/proc/{master}/task/{master}/children"))
            .expect("its workers");
        let mut kill = std::process::Command::new("kill");
        let status = kill
            .arg("-KILL")
            .arg(master.to_string())
            .args(workers.split_whitespace())
            .status()
            .expect("kill runs");
        assert!(status.success());
    }
    let output = wait(child, Duration::from_secs(90));
    let said = text(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
    assert!(
        said.contains("php") && (said.contains("died") || said.contains("ended")),
        "{said}"
    );
}

#[test]
fn a_gate_without_a_baseline_says_what_one_is() {
    let directory = tempfile::tempdir().expect("temp dir");
    let scenario = plain_scenario(directory.path(), "");
    let path = scenario.display().to_string();
    check(&["limit", &path, "--ci"], directory.path(), &["--baseline"]);
    check(
        &["limit", &path, "--ci", "--baseline", "nothing-yet"],
        directory.path(),
        &[
            "no run `nothing-yet`",
            "the run file that `kneepoint limit` wrote",
        ],
    );
    check(
        &["limit", &path, "--ci", "--baseline-app", "/nowhere"],
        directory.path(),
        &["--baseline-app /nowhere", "no such directory"],
    );
    let empty = directory.path().join("empty");
    std::fs::create_dir(&empty).expect("made");
    check(
        &[
            "limit",
            &path,
            "--ci",
            "--baseline-app",
            &empty.display().to_string(),
        ],
        directory.path(),
        &["neither kneepoint.toml nor public/index.php"],
    );
    check(
        &[
            "limit",
            &path,
            "--ci",
            "--baseline-app",
            &empty.display().to_string(),
            "--max-loss",
            "a lot",
        ],
        directory.path(),
        &["a lot"],
    );
}
