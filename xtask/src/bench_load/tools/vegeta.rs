//! vegeta: an attack that writes its results, which is what is measured, and a report of them afterwards.

use super::{Answer, Drive, Job, Tool};
use anyhow::{Context as _, bail};
use serde_json::Value;
use std::fs;
use std::process::Command;

pub(super) const TOOL: Tool = Tool {
    name: "vegeta",
    closed: false,
    open: true,
    command,
    read,
};

const RESULTS: &str = "vegeta.bin";

fn command(job: &Job<'_>) -> anyhow::Result<Command> {
    let Drive::Open { rate_hz } = job.case.drive else {
        bail!("vegeta drives open loops only");
    };
    let targets = job.scratch.join("vegeta.txt");
    fs::write(&targets, format!("GET {}\n", job.url))?;
    let connections = job.case.connections;
    let mut command = Command::new(job.program);
    command
        .arg("attack")
        .arg(format!("-rate={rate_hz}/1s"))
        .arg(format!("-duration={}s", job.seconds))
        .arg(format!("-connections={connections}"))
        .arg(format!("-max-workers={connections}"))
        .arg(format!("-targets={}", targets.display()))
        .arg(format!("-output={}", job.scratch.join(RESULTS).display()));
    Ok(command)
}

fn read(job: &Job<'_>, _: &str) -> anyhow::Result<Answer> {
    let output = Command::new(job.program)
        .args(["report", "-type=json"])
        .arg(job.scratch.join(RESULTS))
        .output()
        .context("vegeta report cannot be started")?;
    read_report(&String::from_utf8_lossy(&output.stdout))
}

fn read_report(text: &str) -> anyhow::Result<Answer> {
    let all: Value = serde_json::from_str(text).context("the report is not JSON")?;
    let requests = all["requests"].as_u64().context("no count of requests")?;
    let success = all["success"].as_f64().context("no share of successes")?;
    let quantile = |name: &str| all["latencies"][name].as_f64().map(|ns| ns / 1e6);
    Ok(Answer {
        requests,
        errors: (requests as f64 * (1.0 - success)).round() as u64,
        rate_hz: all["throughput"].as_f64().context("no throughput")?,
        p50_ms: quantile("50th"),
        p95_ms: quantile("95th"),
        p99_ms: quantile("99th"),
        send_lag_p99_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::CASES;
    use super::super::tests::arguments;
    use super::*;

    #[test]
    fn the_report_is_read() {
        let text = r#"{"latencies":{"total":1,"mean":1,"50th":250000,"90th":1,"95th":500000,"99th":2000000},
            "duration":4999800000,"requests":25000,"rate":5000.2,"throughput":4900.5,"success":0.98}"#;
        let read = read_report(text).expect("a report");
        assert_eq!(
            (read.requests, read.errors, read.rate_hz),
            (25_000, 500, 4900.5)
        );
        assert_eq!(
            (read.p50_ms, read.p95_ms, read.p99_ms),
            (Some(0.25), Some(0.5), Some(2.0))
        );
        assert!(read_report("{}").is_err());
    }

    #[test]
    fn the_attack_has_the_connections_of_the_case() {
        let dir = tempfile::tempdir().expect("directory");
        let attack = arguments(&TOOL, &CASES[1], dir.path());
        assert!(
            attack.starts_with("attack -rate=5000/1s -duration=5s -connections=64 -max-workers=64"),
            "{attack}"
        );
    }
}
