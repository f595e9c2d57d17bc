//! h2load, with HTTP/1.1. Whether it tells quantiles depends on its version.

use super::{Answer, Job, Tool, number_after};
use anyhow::Context as _;
use std::process::Command;

pub(super) const TOOL: Tool = Tool {
    name: "h2load",
    closed: true,
    open: false,
    command,
    read,
};

fn command(job: &Job<'_>) -> anyhow::Result<Command> {
    let mut command = Command::new(job.program);
    command
        .args(["--h1", "-t", "1", "-D"])
        .arg(job.seconds.to_string())
        .arg("-c")
        .arg(job.case.connections.to_string())
        .arg(&job.url);
    Ok(command)
}

fn read(_: &Job<'_>, stdout: &str) -> anyhow::Result<Answer> {
    let line = |start: &str| stdout.lines().find(|line| line.starts_with(start));
    let counts = line("requests:").context("no line `requests:`")?;
    // `requests: 9 total, 10 started, 9 done, 8 succeeded, 1 failed, 1 errored, 0 timeout`
    let count = |name: &str| -> Option<u64> {
        let mut parts = counts.trim_start_matches("requests:").split(',');
        parts.find_map(|part| part.trim().strip_suffix(name)?.trim_end().parse().ok())
    };
    let done = count("done").context("no count of requests that are done")?;
    // `finished in 5.00s, 61234.56 req/s, 48.12MB/s`
    let finished = line("finished in").context("no line `finished in`")?;
    let (_, rate) = finished.split_once(',').context("no rate")?;
    Ok(Answer {
        requests: done,
        errors: done.saturating_sub(count("succeeded").unwrap_or(0)),
        rate_hz: number_after(rate, "").context("no rate")?,
        p50_ms: column(stdout, "median"),
        p95_ms: column(stdout, "p95"),
        p99_ms: column(stdout, "p99"),
        send_lag_p99_ms: None,
    })
}

/// A cell of the table of times, which has a line of headings and one of requests.
fn column(stdout: &str, heading: &str) -> Option<f64> {
    let headings = stdout
        .lines()
        .find(|line| line.trim_start().starts_with("min "))?;
    let index = headings
        .split_whitespace()
        .position(|word| word == heading)?;
    let row = stdout.lines().find(|line| {
        let name = line.split(':').next().unwrap_or_default().trim();
        name == "time for request" || name == "request"
    })?;
    milliseconds(row.split_once(':')?.1.split_whitespace().nth(index)?)
}

/// `112us`, `6.11ms` or `1.02s` in milliseconds.
fn milliseconds(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let number: f64 = text[..end].parse().ok()?;
    match &text[end..] {
        "us" => Some(number / 1e3),
        "ms" => Some(number),
        "s" => Some(number * 1e3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::cases::CASES;
    use super::super::tests::{answer, arguments};
    use super::*;
    use std::path::Path;

    const SAID: &str = "starting benchmark...
finished in 2.00s, 50123.50 req/s, 40.10MB/s
requests: 100247 total, 100311 started, 100247 done, 100240 succeeded, 7 failed, 0 errored, 0 timeout
status codes: 100240 2xx, 0 3xx, 7 4xx, 0 5xx
traffic: 80.30MB (84200000) total, 15.01MB (15738000) headers (space savings 0.00%), 55.66MB (58363000) data
                     min         max         mean         sd        +/- sd
time for request:      112us      6.11ms       998us       203us    75.12%
";

    #[test]
    fn the_summary_is_read_with_the_quantiles_there_are() {
        let read = answer(&TOOL, &CASES[0], Path::new("/x"), SAID).expect("a summary");
        assert_eq!(
            (read.requests, read.errors, read.rate_hz),
            (100_247, 7, 50_123.5)
        );
        assert_eq!((read.p50_ms, read.p99_ms), (None, None));
        let newer = SAID
            .replace(
                "min         max         mean",
                "min  max  median  p95  p99  mean",
            )
            .replace("112us      6.11ms", "112us  6.11ms  900us  1.5ms  1.02s");
        let read = answer(&TOOL, &CASES[0], Path::new("/x"), &newer).expect("a summary");
        assert_eq!(
            (read.p50_ms, read.p95_ms, read.p99_ms),
            (Some(0.9), Some(1.5), Some(1020.0))
        );
        assert!(answer(&TOOL, &CASES[0], Path::new("/x"), "").is_err());
    }

    #[test]
    fn the_command_asks_for_http_1() {
        assert_eq!(
            arguments(&TOOL, &CASES[3], Path::new("/x")),
            "--h1 -t 1 -D 5 -c 16 http://127.0.0.1:8080/hello.php"
        );
    }
}
