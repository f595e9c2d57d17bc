//! k6, with a script made for the case and a summary that it leaves as a file.

use super::super::text_of;
use super::{Answer, Drive, Job, Tool};
use anyhow::Context as _;
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

pub(super) const TOOL: Tool = Tool {
    name: "k6",
    closed: true,
    open: true,
    command,
    read,
};

const SUMMARY: &str = "k6.json";

fn script(job: &Job<'_>) -> anyhow::Result<String> {
    let (connections, duration) = (job.case.connections, format!("{}s", job.seconds));
    let scenario = match job.case.drive {
        Drive::Closed => json!({
            "executor": "constant-vus", "vus": connections, "duration": duration,
        }),
        Drive::Open { rate_hz } => json!({
            "executor": "constant-arrival-rate", "rate": rate_hz, "timeUnit": "1s", "duration": duration,
            "preAllocatedVUs": connections, "maxVUs": connections,
        }),
    };
    let options = json!({
        "discardResponseBodies": true,
        "summaryTrendStats": ["med", "p(95)", "p(99)"],
        "scenarios": { "load": scenario },
    });
    let (url, summary) = (json!(job.url), json!(text_of(&job.scratch.join(SUMMARY))?));
    Ok(format!(
        "import http from 'k6/http';\nexport const options = {options};\n\
         export default function () {{ http.get({url}); }}\n\
         export function handleSummary(data) {{ return {{ {summary}: JSON.stringify(data) }}; }}\n"
    ))
}

fn command(job: &Job<'_>) -> anyhow::Result<Command> {
    let file = job.scratch.join("k6.js");
    fs::write(&file, script(job)?)?;
    // What an earlier run left must not be taken for this one's.
    let _ = fs::remove_file(job.scratch.join(SUMMARY));
    let mut command = Command::new(job.program);
    command
        .args(["run", "--quiet", "--no-usage-report"])
        .arg(file);
    Ok(command)
}

fn read(job: &Job<'_>, _: &str) -> anyhow::Result<Answer> {
    let text = fs::read_to_string(job.scratch.join(SUMMARY)).context("k6 left no summary")?;
    let all: Value = serde_json::from_str(&text).context("the summary is not JSON")?;
    let value = |metric: &str, name: &str| all["metrics"][metric]["values"][name].as_f64();
    let count = value("http_reqs", "count").context("no count of requests")?;
    let failed = value("http_req_failed", "rate").unwrap_or(0.0) * count;
    let quantile = |name: &str| value("http_req_duration", name);
    Ok(Answer {
        requests: count as u64,
        errors: failed.round() as u64,
        rate_hz: value("http_reqs", "rate").context("no rate of requests")?,
        p50_ms: quantile("med"),
        p95_ms: quantile("p(95)"),
        p99_ms: quantile("p(99)"),
        send_lag_p99_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::CASES;
    use super::super::tests::{answer, arguments};
    use super::*;

    #[test]
    fn the_script_says_who_decides_and_where_the_summary_goes() {
        let dir = tempfile::tempdir().expect("directory");
        let text = |case| {
            assert_eq!(
                arguments(&TOOL, case, dir.path()),
                "run --quiet --no-usage-report DIR/k6.js"
            );
            fs::read_to_string(dir.path().join("k6.js")).expect("the script")
        };
        let open = text(&CASES[1]);
        for part in [
            "\"constant-arrival-rate\"",
            "\"rate\":5000",
            "\"maxVUs\":64",
            "/index.html\"",
            "k6.json\": JSON",
        ] {
            assert!(open.contains(part), "{part} in {open}");
        }
        assert!(text(&CASES[3]).contains("\"executor\":\"constant-vus\""));
    }

    #[test]
    fn the_summary_of_this_run_is_read() {
        let dir = tempfile::tempdir().expect("directory");
        let summary = json!({ "metrics": {
            "http_reqs": { "type": "counter", "values": { "count": 25_000, "rate": 4998.5 } },
            "http_req_failed": { "values": { "rate": 0.0002, "passes": 5, "fails": 24_995 } },
            "http_req_duration": { "values": { "med": 0.21, "p(95)": 0.5, "p(99)": 1.75 } },
        }});
        fs::write(dir.path().join(SUMMARY), summary.to_string()).expect("written");
        let read = answer(&TOOL, &CASES[1], dir.path(), "").expect("a summary");
        assert_eq!(
            (read.requests, read.errors, read.rate_hz),
            (25_000, 5, 4998.5)
        );
        assert_eq!(
            (read.p50_ms, read.p95_ms, read.p99_ms),
            (Some(0.21), Some(0.5), Some(1.75))
        );
        arguments(&TOOL, &CASES[1], dir.path());
        assert!(
            answer(&TOOL, &CASES[1], dir.path(), "").is_err(),
            "it was an earlier run's"
        );
    }
}
