//! The runtimes that no distribution has, as the real programs see them. Each test runs where its program is: named by a
//! variable (`KNEEPOINT_UNITD`, `KNEEPOINT_FRANKENPHP`, `KNEEPOINT_SWOOLE`, `KNEEPOINT_ROADRUNNER`) or installed.

#[path = "../../../tests/skipped.rs"]
mod skip;
use crate::support::running::{Local, Running, app, http, real, temp_dir};
use crate::support::settings;
use kneepoint_model::{Endpoint, Layer, Sum};
use kneepoint_stack::{StackError, TierContext, server};
use skip::skipped;
use std::path::Path;

/// A script that keeps what it knows between requests.
const WORKER: &str = r"<?php
$served = 0;
return static function (array $server, array $get) use (&$served): array {
    $text = 'kept ' . ++$served . ' ' . $server['REQUEST_URI'] . ' ' . ($get['a'] ?? '') . ' ' . getenv('DB_HOST');
    return [200, ['X-Kept' => ['yes']], $text];
};
";

/// The tier on loopback; `None`, with the reason noted, where the program is not.
fn runtime(
    kind: &str,
    dir: &Path,
    set: &[(&str, &str)],
) -> Option<(&'static dyn kneepoint_stack::Server, TierContext)> {
    match server(kind).expect("a known server").find(&Local) {
        Ok(_) => {}
        Err(missing @ StackError::Missing { .. }) => {
            skipped(&format!("needs {kind}: {missing}"));
            return None;
        }
        Err(error) => panic!("{error}"),
    }
    let app = app(dir);
    std::fs::write(app.join("worker.php"), WORKER).expect("our own directory");
    let (server, mut context) = real(kind, Layer::Php, dir, &app);
    context.app.env = settings(&[("DB_HOST", "a \"b\" $c \\d")]);
    context.settings = settings(set);
    let common = [
        ("memory_limit", "64M"),
        ("opcache.memory_consumption", "32"),
    ];
    context.settings.extend(settings(&common));
    Some((server, context))
}

/// Each path answers 200 with these words, and PHP says what it runs with.
fn check(kind: &str, set: &[(&str, &str)], pages: &[(&str, &str)], interface: &str) {
    let dir = temp_dir();
    let Some((server, context)) = runtime(kind, dir.path(), set) else {
        return;
    };
    let running = Running::start(server, &context);
    let own = [
        ("/static.html", "a static page"),
        ("/.well-known/kneepoint", "0123abcd"),
    ];
    for (path, expected) in pages.iter().chain(&own) {
        let answer = http(&running.tier.listen, path);
        assert!(
            answer.starts_with("HTTP/1.")
                && answer[8..].starts_with(" 200")
                && answer.contains(expected),
            "{kind} {path}: {answer}"
        );
    }
    let Endpoint::PhpPage { address, path } = &running.tier.endpoints[0] else {
        panic!("{kind} has a page that answers for PHP");
    };
    let answer = http(address, path);
    let start = answer.find('{').unwrap_or_else(|| panic!("{answer}"));
    let end = answer.rfind('}').unwrap_or_else(|| panic!("{answer}"));
    let seen: serde_json::Value = serde_json::from_str(&answer[start..=end])
        .unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert_eq!(seen["sapi"], interface);
    assert_eq!(seen["ini"]["memory_limit"], "64M");
    assert_eq!(seen["ini"]["opcache.memory_consumption"], "32");
    assert_eq!(seen["opcache"]["opcache_enabled"], true, "{answer}");
    for endpoint in &running.tier.endpoints {
        if let Endpoint::Numbers {
            address,
            path,
            sums,
        } = endpoint
        {
            numbers(&http(address, path), sums);
        }
    }
    let workers = running.tier.tier.pool.as_ref().map(|pool| pool.max_workers);
    assert_eq!(workers, Some(3));
}

/// The runtime tells every number that is taken from it.
fn numbers(answer: &str, sums: &[Sum]) {
    let start = answer.find('{').unwrap_or_else(|| panic!("{answer}"));
    let page: serde_json::Value = serde_json::from_str(answer[start..].trim_end())
        .unwrap_or_else(|error| panic!("{error}: {answer}"));
    for (_, name) in sums.iter().flat_map(|sum| &sum.terms) {
        let number = page.pointer(name).and_then(serde_json::Value::as_f64);
        assert!(number.is_some(), "no {name} in {answer}");
    }
}

const FRONT: [(&str, &str); 2] = [
    ("/", "hello /index.php  a \"b\" $c \\d"),
    ("/pages/1", "hello /index.php"),
];
const KEPT: [(&str, &str); 2] = [
    ("/first?a=1", " /first?a=1 1 a \"b\" $c \\d"),
    ("/second", " /second  a \"b\""),
];

#[test]
fn unit_serves_answers_and_says_what_it_runs() {
    check("unit", &[("processes", "3")], &FRONT, "cli-server");
}

#[test]
fn frankenphp_serves_answers_and_says_what_it_runs() {
    check("frankenphp", &[("num_threads", "3")], &FRONT, "frankenphp");
}

#[test]
fn frankenphp_keeps_the_application() {
    let set = [("num_threads", "3"), ("worker", "worker.php")];
    check("frankenphp", &set, &KEPT, "frankenphp");
}

#[test]
fn swoole_keeps_the_application() {
    let set = [("worker_num", "3"), ("worker", "worker.php")];
    check("swoole", &set, &KEPT, "cli");
}

#[test]
fn roadrunner_keeps_the_application() {
    let set = [("num_workers", "3"), ("worker", "worker.php")];
    check("roadrunner", &set, &KEPT, "cli");
}
