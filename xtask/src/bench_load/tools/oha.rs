//! oha. At a rate, it is told to count from when a request was due.

use super::{Answer, Drive, Job, Tool};
use anyhow::Context as _;
use serde_json::Value;
use std::process::Command;

pub(super) const TOOL: Tool = Tool {
    name: "oha",
    closed: true,
    open: true,
    command,
    read,
};

/// What oha calls a request that was under way when the time was up: not an error of anybody.
const UNDER_WAY: &str = "aborted due to deadline";

fn command(job: &Job<'_>) -> anyhow::Result<Command> {
    let mut command = Command::new(job.program);
    command
        .args(["--no-tui", "--output-format", "json", "-z"])
        .arg(format!("{}s", job.seconds))
        .arg("-c")
        .arg(job.case.connections.to_string());
    if let Drive::Open { rate_hz } = job.case.drive {
        command
            .arg("-q")
            .arg(rate_hz.to_string())
            .arg("--latency-correction");
    }
    command.arg(&job.url);
    Ok(command)
}

fn read(_: &Job<'_>, stdout: &str) -> anyhow::Result<Answer> {
    let all: Value = serde_json::from_str(stdout).context("the answer is not JSON")?;
    let counts = |name: &str| -> Vec<(String, u64)> {
        let entries = all[name].as_object().into_iter().flatten();
        entries
            .map(|(key, count)| (key.clone(), count.as_u64().unwrap_or(0)))
            .collect()
    };
    let (statuses, failures) = (
        counts("statusCodeDistribution"),
        counts("errorDistribution"),
    );
    let answered: u64 = statuses.iter().map(|(_, count)| count).sum();
    let fine = statuses
        .iter()
        .filter(|(status, _)| status.starts_with('2'));
    let failed = failures.iter().filter(|(name, _)| name != UNDER_WAY);
    let failed: u64 = failed.map(|(_, count)| count).sum();
    let total_s = all["summary"]["total"]
        .as_f64()
        .context("no summary.total")?;
    let quantile = |name: &str| all["latencyPercentiles"][name].as_f64().map(|s| s * 1e3);
    Ok(Answer {
        requests: answered + failed,
        errors: answered - fine.map(|(_, count)| count).sum::<u64>() + failed,
        rate_hz: answered as f64 / total_s,
        p50_ms: quantile("p50"),
        p95_ms: quantile("p95"),
        p99_ms: quantile("p99"),
        send_lag_p99_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::CASES;
    use super::super::tests::{answer, arguments};
    use super::*;
    use std::path::Path;

    const SAID: &str = r#"{
  "summary": { "successRate": 1.0, "total": 2.0, "average": 0.0006, "requestsPerSec": 510.0 },
  "latencyPercentiles": { "p10": 0.0003, "p50": 0.0005, "p90": 0.0008, "p95": 0.00125, "p99": 0.002 },
  "statusCodeDistribution": { "200": 1000, "503": 10 },
  "errorDistribution": { "aborted due to deadline": 12, "connection refused": 3 }
}"#;

    #[test]
    fn the_record_is_read_without_what_the_end_cut_off() {
        let read = answer(&TOOL, &CASES[0], Path::new("/x"), SAID).expect("a record");
        assert_eq!(
            (read.requests, read.errors, read.rate_hz),
            (1013, 13, 505.0)
        );
        assert_eq!(
            (read.p50_ms, read.p95_ms, read.p99_ms),
            (Some(0.5), Some(1.25), Some(2.0))
        );
        assert!(answer(&TOOL, &CASES[0], Path::new("/x"), "Summary:").is_err());
    }

    #[test]
    fn a_rate_corrects_the_latency() {
        let of = |case| arguments(&TOOL, case, Path::new("/x"));
        let closed = "--no-tui --output-format json -z 5s -c 64 http://127.0.0.1:8080/index.html";
        assert_eq!(of(&CASES[0]), closed);
        assert!(of(&CASES[1]).contains("-q 5000 --latency-correction"));
    }
}
