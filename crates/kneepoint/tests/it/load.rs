//! `kneepoint load` on servers started by hand.

mod consent;

use crate::support::by_hand::ByHand;
use crate::support::company::{among_others, briefly_among_others};
use crate::support::{apps, kneepoint, start, text, wait};
use serde_json::Value;
use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn script() -> String {
    apps()
        .join("plain/public/index.php")
        .canonicalize()
        .expect("apps/plain")
        .display()
        .to_string()
}

/// Runs `kneepoint load` with these arguments. The tests here are about what is sent and told, not about time: on a
/// machine that stops the generator for a moment, the usual 200 ms would call a load invalid that kept its schedule
/// well enough to count by.
fn load(arguments: &[&str]) -> Output {
    kneepoint()
        .args(["load", "--good", "20s", "--timeout", "20s"])
        .args(arguments)
        .output()
        .expect("load")
}

/// Runs a load whose numbers must hold, and reads its JSON.
fn results(arguments: &[&str]) -> Vec<Value> {
    let output = load(&[arguments, &["--json"]].concat());
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn ok_of(result: &Value) -> u64 {
    result["result"]["outcomes"]["by_outcome"]["ok"]
        .as_u64()
        .unwrap_or(0)
}

fn arrivals_of(result: &Value) -> u64 {
    result["result"]["arrivals"].as_u64().expect("arrivals")
}

#[track_caller]
fn says(text: &str, expected: &[&str]) {
    for words in expected {
        assert!(text.contains(words), "expected `{words}` in:\n{text}");
    }
}

#[test]
fn one_command_measures_both_hops_under_one_schedule() {
    let _place = among_others();
    let servers = ByHand::start();
    let fastcgi = format!("unix:{}", servers.socket().display());
    let hops: [&str; 5] = [
        &servers.url("/"),
        "--fastcgi",
        &fastcgi,
        "--script",
        &script(),
    ];
    let both = results(&[&hops[..], &["--schedule", "const(200,3s)"]].concat());
    assert_eq!(both.len(), 2);
    assert_eq!(
        arrivals_of(&both[0]),
        arrivals_of(&both[1]),
        "the same schedule and seed give the same arrivals"
    );
    for hop in &both {
        assert_eq!(ok_of(hop), arrivals_of(hop), "{hop}");
    }
    let output = load(&[&hops[..], &["-q", "50", "-z", "1s"]].concat());
    let table = text(&output.stdout);
    says(
        &table,
        &["p95", "response", "service", "outcomes of fastcgi"],
    );
    let offered = table.lines().find(|line| line.starts_with("offered"));
    assert_eq!(
        offered.expect("offered").matches("/s").count(),
        2,
        "side by side: {table}"
    );
}

#[test]
fn each_hop_can_be_loaded_alone() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let schedule = ["--schedule", "line(10,100,2s) const(100,1s)"];
    let one = results(&[&[servers.url("/").as_str()][..], &schedule].concat());
    assert!(ok_of(&one[0]) > 100, "{}", one[0]);
    let fastcgi = format!("unix:{}", servers.socket().display());
    let straight: [&str; 5] = ["--fastcgi", &fastcgi, "--script", &script(), "--keep-conn"];
    let other = results(&[&straight[..], &["-s", "const(100,2s)"]].concat());
    assert!(ok_of(&other[0]) > 100, "{}", other[0]);
}

#[test]
fn a_web_server_is_reached_through_its_unix_socket() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let socket = servers.directory.path().join("web.sock");
    let socket = socket.display().to_string();
    let got = results(&["--unix-socket", &socket, "-q", "100", "-z", "1s"]);
    assert!(ok_of(&got[0]) > 50, "{}", got[0]);
}

#[test]
fn requests_are_written_as_with_curl() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let got = results(&[
        &servers.url("/echo"),
        "-d",
        "a=1",
        "-H",
        "X-A: yes",
        "--contains",
        "POST application/x-www-form-urlencoded yes",
        "--users",
        "3",
        "-q",
        "50",
        "-n",
        "20",
    ]);
    assert_eq!(arrivals_of(&got[0]), 20, "-n is exact");
    assert_eq!(ok_of(&got[0]), 20, "{}", got[0]);
}

#[test]
fn values_come_from_a_table() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let table = servers.directory.path().join("products.csv");
    fs::write(&table, "id,colour\n1,dark-red\n2,dark-blue\n").expect("a table");
    let feed = format!("p={}", table.display());
    let colour = ["-H", "X-A: {{p.colour}}", "--contains", " dark-"];
    let usual = ["--feed", &feed, "-q", "50", "-n", "10"];
    let echo = servers.url("/echo?{{p.id}}");
    let got = results(&[&[echo.as_str()][..], &colour, &usual].concat());
    assert_eq!(ok_of(&got[0]), 10, "{}", got[0]);

    fs::write(&table, "id,id\n").expect("a table");
    let output = load(&[&[echo.as_str()][..], &usual].concat());
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    says(&said, &["--feed", "`id` is there twice", "no row"]);
}

#[test]
fn connections_alone_make_a_closed_loop() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let output = load(&[&servers.url("/"), "-c", "2", "-z", "1s", "--json"]);
    let got: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(got[0]["result"]["closed_workers"], 2);
    assert!(ok_of(&got[0]) > 10, "{got}");
}

/// The columns of a CSV file by name, its last one (the target) left out.
fn column(csv: &str, name: &str) -> Vec<f64> {
    let mut lines = csv.lines();
    let header = lines.next().expect("a header");
    let at = header
        .split(',')
        .position(|column| column == name)
        .unwrap_or_else(|| panic!("no column {name} in {header}"));
    lines
        .map(|line| {
            let field = line.split(',').nth(at).expect("a field");
            field.parse().unwrap_or(0.0)
        })
        .collect()
}

#[test]
fn every_file_tells_the_same_load() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let at = tempfile::tempdir().expect("temp dir");
    let file = |name: &str| at.path().join(name).display().to_string();
    let (json, csv, html, hdr) = (
        file("l.json"),
        file("l.csv"),
        file("l.html"),
        file("l.hgrm"),
    );
    let output = load(&[
        &servers.url("/"),
        "--path",
        "3 /",
        "--path",
        "/nowhere",
        "-q",
        "100",
        "-z",
        "3s",
        "--json",
        &json,
        "--csv",
        &csv,
        "--html",
        &html,
        "--hdr",
        &hdr,
    ]);
    let summary = text(&output.stdout);
    assert!(output.status.success(), "{summary}{}", text(&output.stderr));
    let read = |path: &str| fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let told: Value = serde_json::from_str(&read(&json)).expect("JSON");
    let (arrivals, ok) = (arrivals_of(&told[0]), ok_of(&told[0]));
    assert!(ok > 0 && arrivals > ok, "both pages are asked for: {told}");

    let csv = read(&csv);
    let sum = |name: &str| column(&csv, name).iter().sum::<f64>();
    assert_eq!(sum("offered") as u64, arrivals);
    assert_eq!(sum("ok") as u64, ok);
    assert_eq!(sum("http_error") as u64, arrivals - ok);
    assert_eq!(told[0]["summary"]["good"], sum("good") as u64);
    assert_eq!(column(&csv, "second"), [0.0, 1.0, 2.0]);
    let most = column(&csv, "max_ms").into_iter().fold(0.0, f64::max);
    let max = told[0]["summary"]["response_max_ms"]
        .as_f64()
        .expect("a max");
    assert!((most - max).abs() < 0.001, "{most} is not {max}");

    let page = read(&html).replace('\u{a0}', " ");
    says(
        &page,
        &[
            "<!DOCTYPE html>",
            "GET /nowhere",
            "status 404",
            "http error",
        ],
    );
    says(&page, &[&format!("<td class=\"num\">{ok}</td>")]);
    says(&read(&hdr), &[&format!("{ok:>12}]")]);
    says(&summary, &["status 404", "written: ", "example:"]);
    says(&summary, &[&format!("{arrivals} requests in 3.0 s")]);
}

#[test]
fn a_log_gets_a_line_a_second_and_quiet_means_quiet() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let arguments: [&str; 5] = [&servers.url("/"), "-q", "100", "-z", "3s"];
    let output = load(&arguments);
    let said = text(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    says(
        lines[1],
        &[
            "second",
            "offered/s",
            "ok/s",
            "good/s",
            "p50",
            "p95",
            "p99",
            "errors",
        ],
    );
    assert!(
        (4..=6).contains(&lines.len()),
        "two lines and one a second:\n{said}"
    );
    assert!(lines[2].trim_start().starts_with("1 "), "{said}");
    assert!(lines[3].ends_with("none"), "{said}");
    assert!(!said.contains('\u{1b}'), "no escape sequence:\n{said}");
    let quiet = load(&[&arguments[..], &["--quiet"]].concat());
    assert_eq!(text(&quiet.stderr), "");
    says(&text(&quiet.stdout), &["p95"]);
}

#[test]
fn load_goes_nowhere_by_accident() {
    let refused = |arguments: &[&str], words: &[&str]| {
        let output = load(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(text(&output.stdout), "");
        says(&text(&output.stderr), words);
    };
    refused(&["http://192.0.2.1/"], &["--i-own 192.0.2.1"]);
    let closed = ["http://192.0.2.1/", "--i-own", "192.0.2.1", "-c", "5"];
    refused(&closed, &["at most 1000/s", "--max-rate none"]);
    refused(
        &["127.0.0.1:1", "-c", "5", "--max-rate", "50"],
        &["at most 50.0/s"],
    );
    refused(
        &["--fastcgi", "192.0.2.1:9000", "--script", "/i.php"],
        &["--i-own 192.0.2.1"],
    );
    refused(
        &["--fastcgi", "unix:/x.sock", "--script", "index.php"],
        &["absolute"],
    );
    refused(&[], &["nothing to load", "http://127.0.0.1:8080/"]);
    refused(&["ftp://127.0.0.1/"], &["the scheme `ftp`"]);
    refused(&["127.0.0.1:1", "-c", "0"], &["at least 1"]);
    refused(&["127.0.0.1:1", "-q", "many"], &["-q many", "such as 500"]);
    refused(
        &["127.0.0.1:1", "--csv", "/nowhere/l.csv"],
        &["--csv /nowhere/l.csv", "make it first"],
    );
    refused(
        &["127.0.0.1:1", "--csv", "-", "--html", "-"],
        &["one format only"],
    );
    refused(
        &["127.0.0.1:1", "127.0.0.2:1", "--hdr", "x"],
        &["one target"],
    );
    refused(&["127.0.0.1:1", "--path", "no slash"], &["--path"]);
}

#[test]
fn exit_codes_tell_numbers_that_hold_from_numbers_that_do_not() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let nowhere = load(&[&servers.url("/nowhere"), "-q", "50", "-z", "1s"]);
    assert_eq!(
        nowhere.status.code(),
        Some(0),
        "a server that errs is measured"
    );
    says(&text(&nowhere.stdout), &["http error", "status 404"]);
    let expected = load(&[
        &servers.url("/nowhere"),
        "-q",
        "50",
        "-z",
        "1s",
        "--status",
        "404",
    ]);
    assert!(!text(&expected.stdout).contains("http error"));
    let empty = load(&[&servers.url("/"), "-s", "const(0,1s)"]);
    assert_eq!(empty.status.code(), Some(1), "no request, no numbers");
    says(&text(&empty.stdout), &["INVALID", "offer a higher rate"]);
    let as_json = load(&["--json", &servers.url("/"), "-s", "const(0,1s)"]);
    assert_eq!(as_json.status.code(), Some(1));
    says(&text(&as_json.stderr), &["INVALID", "offer a higher rate"]);
    serde_json::from_slice::<Value>(&as_json.stdout).expect("JSON and nothing else");
}

#[test]
fn thresholds_decide_the_exit_code() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let arguments: [&str; 5] = [&servers.url("/nowhere"), "-q", "50", "-z", "1s"];
    let with = |thresholds: &[&str]| {
        let flags = thresholds.iter().flat_map(|text| ["--threshold", text]);
        load(&[&arguments[..], &flags.collect::<Vec<_>>()].concat())
    };
    let held = with(&["errors<=100%", "rate<1000/s"]);
    assert_eq!(held.status.code(), Some(0), "{}", text(&held.stdout));
    says(&text(&held.stdout), &["thresholds", "  held "]);
    let broken = with(&["rate<1000/s", "errors<1%"]);
    assert_eq!(broken.status.code(), Some(1), "{}", text(&broken.stdout));
    says(&text(&broken.stdout), &["  held ", "  BROKEN "]);
    let nonsense = with(&["p95~3"]);
    assert_eq!(nonsense.status.code(), Some(2));
    says(&text(&nonsense.stderr), &["--threshold", "p95~3"]);
}

#[test]
fn a_condition_ends_the_load_early() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let output = load(&[
        &servers.url("/nowhere"),
        "-q",
        "50",
        "-z",
        "30s",
        "--autostop",
        "http(4xx,50%,1s)",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    says(&text(&output.stdout), &["ended early: ", "status 404"]);
}

#[test]
fn a_closed_loop_counts_and_pauses() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let url = servers.url("/");
    let output = load(&[
        &url, "-c2", "-n20", "--think", "10ms", "--ramp", "50ms", "--json",
    ]);
    let got: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(arrivals_of(&got[0]), 20);
    assert!(
        got[0]["result"]["window_s"].as_f64().expect("a window") >= 0.09,
        "nine pauses of 10 ms each: {got}"
    );
}

#[test]
fn https_and_http2_are_a_matter_of_flags() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let url = format!("https://localhost:{}/echo", servers.tls_port);
    let certificate = servers.directory.path().join("cert.pem");
    let certificate = certificate.display().to_string();
    let check = |flags: &[&str], ok: bool, expected: &[&str]| {
        let mut arguments = vec![url.as_str(), "-q", "50", "-n", "20", "--quiet"];
        arguments.extend(flags);
        let output = load(&arguments);
        let said = text(&output.stdout);
        says(&said, expected);
        assert_eq!(said.contains("tls error"), !ok, "{said}");
    };
    check(
        &["--cacert", &certificate, "--contains", "HTTP/1.1"],
        true,
        &["20"],
    );
    let over_http2 = [
        "--cacert",
        &certificate,
        "--http2",
        "--contains",
        "HTTP/2.0",
    ];
    check(&over_http2, true, &["20"]);
    // Nobody on this machine vouches for it.
    check(&[], false, &["tls error"]);
    check(&["-k"], true, &["doubt: ", "certificate"]);
}

#[test]
fn a_form_is_sent_as_a_browser_sends_it() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let url = servers.url("/echo");
    let file = servers.directory.path().join("cert.pem");
    let file = format!("up=@{}", file.display());
    for (field, kind) in [
        ("name=ann", "POST application/x-www-form-urlencoded"),
        (file.as_str(), "POST multipart/form-data; boundary="),
    ] {
        let arguments = [
            url.as_str(),
            "-n",
            "5",
            "-F",
            field,
            "--contains",
            kind,
            "--lacks",
            "GET",
        ];
        let result = results(&arguments);
        assert_eq!(ok_of(&result[0]), 5, "{field}: {result:?}");
    }
}

#[test]
fn what_a_log_holds_is_asked_for_again() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let url = servers.url("/echo");
    let paths = ["--path", "3 /echo?page=1", "--path", "1 /echo?page=2"];
    let first = [&[url.as_str(), "-q", "100", "-n", "200"][..], &paths].concat();
    assert_eq!(ok_of(&results(&first)[0]), 200);
    let log = servers
        .directory
        .path()
        .join("access.log")
        .display()
        .to_string();
    let again = [url.as_str(), "--access-log", &log, "--replay", "2x"];
    let again = results(&again);
    let asked = &again[0]["requests"];
    let asked: Vec<&str> = asked
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[0].starts_with("GET /echo?page=1"), "{asked:?}");
    assert_eq!(ok_of(&again[0]), arrivals_of(&again[0]));
    let slow = load(&[url.as_str(), "--access-log", &log, "--replay", "0x"]);
    says(&text(&slow.stderr), &["--replay 0x", "2.5x"]);
}

#[test]
fn ctrl_c_prints_what_was_measured() {
    let _place = briefly_among_others();
    let servers = ByHand::start();
    let child = start(
        kneepoint()
            .arg("load")
            .arg(servers.url("/"))
            .args(["-q", "100", "-z", "60s"]),
    );
    let answered = servers.directory.path().join("access.log");
    let began = Instant::now();
    while fs::metadata(&answered).map_or(0, |log| log.len()) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "no request came");
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_secs(1));
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupted.expect("kill runs").success());
    let output = wait(child, Duration::from_secs(20));
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    says(
        &text(&output.stdout),
        &["ended by you", "status 200", "p95"],
    );
}

#[test]
fn help_is_grouped_and_ends_with_examples_and_exit_codes() {
    let help = text(&load(&["--help"]).stdout);
    says(
        &help,
        &[
            "Target:",
            "Load:",
            "Request:",
            "Assertions:",
            "Output:",
            "Examples:",
            "Exit codes:",
        ],
    );
    for example in help
        .lines()
        .filter(|line| line.starts_with("    kneepoint load "))
    {
        for flag in example
            .split_whitespace()
            .filter(|word| word.starts_with('-'))
        {
            let listed = help
                .lines()
                .filter(|line| line.trim_start().starts_with('-'))
                .any(|line| line.contains(flag));
            assert!(listed, "{flag} of `{example}` is not in the help");
        }
    }
}
