//! The program under test: its own histograms, from the intended start.

use super::{Answer, Drive, Job, OURS, Tool};
use crate::program;
use std::process::Command;

pub(super) const TOOL: Tool = Tool {
    name: OURS,
    closed: true,
    open: true,
    command,
    read,
};

fn command(job: &Job<'_>) -> anyhow::Result<Command> {
    let mut command = Command::new(job.program);
    command.arg("load").arg(&job.url).args(["-t", "1"]);
    let connections = job.case.connections.to_string();
    let duration = format!("{}s", job.seconds);
    match job.case.drive {
        Drive::Closed => command.args(["-c", &connections, "--duration", &duration]),
        // Evenly spaced, as the others do it.
        Drive::Open { rate_hz } => command
            .args(["--connections", &connections, "--arrivals", "even"])
            .arg("--schedule")
            .arg(format!("const({rate_hz},{duration})")),
    };
    command.arg("--json");
    Ok(command)
}

fn read(job: &Job<'_>, stdout: &str) -> anyhow::Result<Answer> {
    let point = program::load_point(stdout)?;
    let open = matches!(job.case.drive, Drive::Open { .. });
    Ok(Answer {
        requests: point.outcomes.total(),
        errors: point.outcomes.failed(),
        rate_hz: point.throughput_hz(),
        p50_ms: point.response.quantile_ms(0.5),
        p95_ms: point.response.quantile_ms(0.95),
        p99_ms: point.response.quantile_ms(0.99),
        // In a closed loop nothing is due.
        send_lag_p99_ms: open.then_some(point.health.send_lag_p99_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::CASES;
    use super::super::tests::{answer, arguments};
    use super::*;
    use kneepoint_model::{Health, LoadPoint, Outcome, OutcomeCounts};
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn the_command_says_who_decides() {
        let here = Path::new("/x");
        assert_eq!(
            arguments(&TOOL, &CASES[0], here),
            "load http://127.0.0.1:8080/index.html -t 1 -c 64 --duration 5s --json"
        );
        assert_eq!(
            arguments(&TOOL, &CASES[1], here),
            "load http://127.0.0.1:8080/index.html -t 1 --connections 64 --arrivals even --schedule const(5000,5s) --json"
        );
    }

    #[test]
    fn the_record_of_the_run_is_read() {
        let mut point = LoadPoint {
            window_s: 2.0,
            outcomes: OutcomeCounts {
                by_outcome: [(Outcome::Ok, 90), (Outcome::Timeout, 10)].into(),
                ..OutcomeCounts::default()
            },
            health: Health {
                send_lag_p99_ms: 0.05,
                ..Health::default()
            },
            ..LoadPoint::default()
        };
        point.response.record_us(1000);
        let text = json!([{ "target": "x", "result": point }]).to_string();
        let here = Path::new("/x");
        let read = answer(&TOOL, &CASES[1], here, &text).expect("a record");
        assert_eq!((read.requests, read.errors, read.rate_hz), (100, 10, 45.0));
        assert_eq!(read.send_lag_p99_ms, Some(0.05));
        assert!(read.p99_ms.is_some_and(|ms| (ms - 1.0).abs() < 0.01));
        assert_eq!(
            answer(&TOOL, &CASES[0], here, &text)
                .expect("a record")
                .send_lag_p99_ms,
            None
        );
        assert!(answer(&TOOL, &CASES[0], here, "[]").is_err());
    }
}
