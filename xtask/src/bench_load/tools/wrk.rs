//! wrk and wrk2. A script of theirs prints the quantiles; it takes part in no request.

use super::{Answer, Drive, Job, Tool, number_after};
use anyhow::Context as _;
use std::fs;
use std::process::Command;

pub(super) const WRK: Tool = Tool {
    name: "wrk",
    closed: true,
    open: false,
    command,
    read,
};

/// The same with a rate. It starts its count after a calibration of 10 s, so short runs have few quantiles.
pub(super) const WRK2: Tool = Tool {
    name: "wrk2",
    closed: false,
    open: true,
    command,
    read,
};

const SCRIPT: &str = "done = function(summary, latency, requests)
  for _, p in ipairs({50, 95, 99}) do
    io.write(string.format('quantile %d us: %d\\n', p, latency:percentile(p)))
  end
  local errors = summary.errors
  io.write(string.format('failed: %d\\n', errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
";

fn command(job: &Job<'_>) -> anyhow::Result<Command> {
    let script = job.scratch.join("wrk.lua");
    fs::write(&script, SCRIPT)?;
    let mut command = Command::new(job.program);
    command
        .arg("-t1")
        .arg(format!("-c{}", job.case.connections))
        .arg(format!("-d{}s", job.seconds));
    if let Drive::Open { rate_hz } = job.case.drive {
        command.arg(format!("-R{rate_hz}"));
    }
    command.arg("-s").arg(script).arg(&job.url);
    Ok(command)
}

fn read(_: &Job<'_>, stdout: &str) -> anyhow::Result<Answer> {
    let quantile = |p: u32| {
        let us: Option<f64> = number_after(stdout, &format!("quantile {p} us:"));
        us.map(|us| us / 1e3)
    };
    let requests = stdout.lines().find_map(|line| {
        let (count, _) = line.trim().split_once(" requests in ")?;
        count.parse().ok()
    });
    Ok(Answer {
        requests: requests.context("no line `N requests in`")?,
        errors: number_after(stdout, "failed:").context("the script did not run")?,
        rate_hz: number_after(stdout, "Requests/sec:").context("no line `Requests/sec`")?,
        p50_ms: quantile(50),
        p95_ms: quantile(95),
        p99_ms: quantile(99),
        send_lag_p99_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::CASES;
    use super::super::tests::{answer, arguments};
    use super::*;

    const SAID: &str = "Running 1s test @ http://127.0.0.1:8080/
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.02ms  301.20us   9.74ms   93.55%
    Req/Sec    62.52k     3.01k   66.01k    80.00%
  62341 requests in 1.00s, 50.01MB read
Requests/sec:  62230.18
Transfer/sec:     49.92MB
quantile 50 us: 980
quantile 95 us: 1290
quantile 99 us: 1950
failed: 2
";

    #[test]
    fn the_summary_is_read() {
        let dir = tempfile::tempdir().expect("directory");
        let read = answer(&WRK, &CASES[0], dir.path(), SAID).expect("a summary");
        assert_eq!(
            (read.requests, read.errors, read.rate_hz),
            (62_341, 2, 62_230.18)
        );
        assert_eq!(
            (read.p50_ms, read.p95_ms, read.p99_ms),
            (Some(0.98), Some(1.29), Some(1.95))
        );
        let silent = SAID.replace("failed", "f");
        assert!(answer(&WRK, &CASES[0], dir.path(), &silent).is_err());
    }

    #[test]
    fn the_command_has_one_thread_and_the_connections_of_the_case() {
        let dir = tempfile::tempdir().expect("directory");
        assert_eq!(
            arguments(&WRK, &CASES[0], dir.path()),
            "-t1 -c64 -d5s -s DIR/wrk.lua http://127.0.0.1:8080/index.html"
        );
        assert_eq!(
            arguments(&WRK2, &CASES[2], dir.path()),
            "-t1 -c64 -d5s -R15000 -s DIR/wrk.lua http://127.0.0.1:8080/index.html"
        );
    }
}
