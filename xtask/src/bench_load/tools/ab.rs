//! ApacheBench: HTTP/1.0 with keep-alive, quantiles in whole milliseconds.

use super::{Answer, Job, Tool, number_after};
use anyhow::Context as _;
use std::process::Command;

pub(super) const TOOL: Tool = Tool {
    name: "ab",
    closed: true,
    open: false,
    command,
    read,
};

/// The time ends the run; without a number, ab ends after 50 000 requests. It keeps 40 bytes for each.
const MORE_THAN_IT_CAN: &str = "10000000";

fn command(job: &Job<'_>) -> anyhow::Result<Command> {
    let mut command = Command::new(job.program);
    command
        .args(["-q", "-k", "-l", "-t"])
        .arg(job.seconds.to_string())
        // Behind -t, which sets a number of its own.
        .args(["-n", MORE_THAN_IT_CAN, "-c"])
        .arg(job.case.connections.to_string())
        .arg(&job.url);
    Ok(command)
}

fn read(_: &Job<'_>, stdout: &str) -> anyhow::Result<Answer> {
    let quantile = |percent: &str| {
        let mut lines = stdout.lines().map(str::trim_start);
        lines.find_map(|line| line.strip_prefix(percent)?.trim().parse().ok())
    };
    let failed: u64 = number_after(stdout, "Failed requests:").unwrap_or(0);
    // A status that is no success does not count as failed.
    let refused: u64 = number_after(stdout, "Non-2xx responses:").unwrap_or(0);
    Ok(Answer {
        requests: number_after(stdout, "Complete requests:").context("no count of requests")?,
        errors: failed + refused,
        rate_hz: number_after(stdout, "Requests per second:").context("no rate")?,
        p50_ms: quantile("50%"),
        p95_ms: quantile("95%"),
        p99_ms: quantile("99%"),
        send_lag_p99_ms: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::CASES;
    use super::super::tests::{answer, arguments};
    use super::*;
    use std::path::Path;

    const SAID: &str = "Concurrency Level:      64
Time taken for tests:   2.000 seconds
Complete requests:      61234
Failed requests:        1
Non-2xx responses:      2
Keep-Alive requests:    61234
Requests per second:    30617.00 [#/sec] (mean)

Percentage of the requests served within a certain time (ms)
  50%      2
  95%      3
  99%      5
 100%     12 (longest request)
";

    #[test]
    fn the_summary_is_read() {
        let read = answer(&TOOL, &CASES[0], Path::new("/x"), SAID).expect("a summary");
        assert_eq!(
            (read.requests, read.errors, read.rate_hz),
            (61_234, 3, 30_617.0)
        );
        assert_eq!(
            (read.p50_ms, read.p95_ms, read.p99_ms),
            (Some(2.0), Some(3.0), Some(5.0))
        );
        assert!(answer(&TOOL, &CASES[0], Path::new("/x"), "apr_socket_connect()").is_err());
    }

    #[test]
    fn the_number_comes_after_the_time() {
        assert_eq!(
            arguments(&TOOL, &CASES[0], Path::new("/x")),
            "-q -k -l -t 5 -n 10000000 -c 64 http://127.0.0.1:8080/index.html"
        );
    }
}
