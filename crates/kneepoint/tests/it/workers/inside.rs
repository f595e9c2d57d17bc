//! Looking into the workers of a real Laravel application: which of its lines makes it slow.

use crate::support::by_hand::ByHand;
use crate::support::company::alone;
use crate::support::{apps, kneepoint, needs_root, start, text, wait};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A page that asks another service, which takes its time, and one that asks the database for every row.
const CONTROLLER: &str = r#"<?php

namespace App\Http\Controllers;

use App\Models\Visit;
use Illuminate\Routing\Controller;

class ApiController extends Controller
{
    public function json(): array
    {
        return ['type' => 'laravel', 'rate' => strlen($this->rates())];
    }

    private function rates(): string
    {
        return file_get_contents(getenv('RATES_URL') . '?key=secret'); //: slow
    }

    public function visits(): array
    {
        $days = [];
        foreach (Visit::query()->orderBy('id')->limit(25)->get() as $visit) {
            $days[] = Visit::query()->whereDate('created_at', $visit->created_at)->count(); //: again
        }

        return ['visits' => array_sum($days)];
    }
}
"#;

fn line(mark: &str) -> usize {
    let marked = |line: &str| line.ends_with(&format!("//: {mark}"));
    1 + CONTROLLER.lines().position(marked).expect("a mark")
}

fn planted(directory: &Path, rates: &str) -> PathBuf {
    let root = apps().join("laravel").canonicalize().expect("apps/laravel");
    let seed = root.join("seed.sql");
    let path = directory.join("kneepoint.toml");
    let scenario = format!(
        r#"
[app]
root = {root:?}
front = "public/index.php"
kind = "laravel"

[app.env]
APP_ENV = "production"
APP_KEY = "base64:a25lZXBvaW50LWZpeHR1cmUtbm90LWEtc2VjcmV0ISE="
DB_PERSISTENT = "true"
REDIS_PERSISTENT = "true"
RATES_URL = {rates:?}

[[app.file]]
path = "app/Http/Controllers/ApiController.php"
content = '''
{CONTROLLER}'''

[stack]
web = {{ server = "nginx" }}
php = {{ runtime = "fpm", settings = {{ "pm" = "static", "pm.max_children" = "8" }} }}
cache = {{ server = "redis" }}
db = {{ server = "postgresql", seed = {seed:?} }}

# Mostly the page that waits: the CPU must be idle for that to be the cause, also on a machine that is shared.
[[request]]
path = "/json"
weight = 6
expect = {{ status = 200, body_contains = "rate" }}

[[request]]
path = "/visits"
expect = {{ status = 200, body_contains = "visits" }}

[slo]
timeout = "3s"
response_time = {{ p95 = "900ms" }}
"#
    );
    fs::write(&path, scenario).expect("scenario written");
    path
}

/// What a finding of a run says, all of it.
fn said(run: &Value, code: &str) -> String {
    let findings = run["run"]["findings"].as_array().expect("findings");
    let found = findings.iter().find(|finding| finding["code"] == code);
    let found = found.unwrap_or_else(|| {
        let all = findings.iter().map(|finding| &finding["code"]);
        panic!(
            "{code} is not among {:?}: {:#}",
            all.collect::<Vec<_>>(),
            run["run"]["journal"]
        )
    });
    serde_json::to_string_pretty(found).expect("JSON")
}

/// In less time, requests are not traced at its end.
const BUDGET: &str = "90s";

fn diagnosed(scenario: &Path, runs: &Path) -> Value {
    let output = wait(
        start(
            kneepoint()
                .arg("diagnose")
                .arg(scenario)
                .args(["--loopback", "--confirm", "0", "--budget", BUDGET])
                .args(["--json", "-", "--runs"])
                .arg(runs),
        ),
        Duration::from_secs(300),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn names(run: &Value, code: &str) -> bool {
    let findings = run["run"]["findings"].as_array().expect("findings");
    findings.iter().any(|finding| finding["code"] == code)
}

#[test]
fn a_slow_service_and_a_query_for_every_row_are_named_with_route_and_line() {
    if !needs_root("looking into workers") {
        return;
    }
    let _place = alone();
    let servers = ByHand::start();
    let directory = tempfile::tempdir().expect("temp dir");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(directory.path(), open).expect("opened");
    let rates = servers.url("/slow");
    let scenario = planted(directory.path(), &rates);
    // On a machine whose CPU others take, that is the first cause, and the service is not: then it is asked again.
    let mut run = Value::Null;
    for _ in 0..3 {
        run = diagnosed(&scenario, directory.path());
        if ["APP-05", "MYS-04"].iter().all(|code| names(&run, code)) {
            break;
        }
        eprintln!("{:#}", run["run"]["journal"]);
    }
    let controller = "app/Http/Controllers/ApiController.php";
    let host = rates
        .trim_start_matches("http://")
        .trim_end_matches("/slow");
    let slow = said(&run, "APP-05");
    for part in [
        "GET /json",
        "ApiController::rates",
        &format!("{controller}:{}", line("slow")),
        &format!("GET http://{host}/slow"),
        &format!("recv {host}"),
        "file_get_contents",
    ] {
        assert!(slow.contains(part), "expected `{part}` in {slow}");
    }
    let again = said(&run, "MYS-04");
    for part in [
        "GET /visits",
        "ApiController::visits",
        &format!("{controller}:{}", line("again")),
        "select count(*) as aggregate from \\\"visits\\\" where \\\"created_at\\\"::date = ?",
        "25 times in each GET /visits",
    ] {
        assert!(again.contains(part), "expected `{part}` in {again}");
    }
    // The planted code is part of the scenario, and so of the record.
    for part in ["calls", "stacks", "findings"] {
        let told = run["run"][part].to_string();
        assert!(!told.contains("key=secret"), "{part} hold what was sent");
    }
}
