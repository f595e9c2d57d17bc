//! The load generators: how each is told what to do, and what it answers. One file each.

mod ab;
mod h2load;
mod k6;
mod kneepoint;
mod oha;
mod vegeta;
mod wrk;

use super::cases::{Case, Drive};
use std::path::Path;
use std::process::Command;

/// The name of the program under test.
pub(super) const OURS: &str = "kneepoint";

/// All generators, ours first. Each is looked for on the PATH by its name.
pub(super) const TOOLS: &[Tool] = &[
    kneepoint::TOOL,
    wrk::WRK,
    wrk::WRK2,
    oha::TOOL,
    h2load::TOOL,
    k6::TOOL,
    vegeta::TOOL,
    ab::TOOL,
];

/// A load generator.
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// Which loops it can drive: closed ones, open ones.
    closed: bool,
    open: bool,
    /// The command line that does a job.
    pub(super) command: fn(&Job<'_>) -> anyhow::Result<Command>,
    /// Reads what it said on standard output, or left in the scratch directory.
    pub(super) read: fn(&Job<'_>, &str) -> anyhow::Result<Answer>,
}

impl Tool {
    pub(super) fn fits(&self, case: &Case) -> bool {
        match case.drive {
            Drive::Closed => self.closed,
            Drive::Open { .. } => self.open,
        }
    }
}

/// One measurement.
pub(super) struct Job<'a> {
    pub(super) program: &'a Path,
    pub(super) url: String,
    pub(super) case: &'a Case,
    pub(super) seconds: u32,
    /// For scripts and for answers that come as files.
    pub(super) scratch: &'a Path,
}

/// What a tool says of its own run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    /// Requests that ended, in whatever way.
    pub(super) requests: u64,
    /// Of them, those that failed or were answered with an error.
    pub(super) errors: u64,
    /// Answers per second.
    pub(super) rate_hz: f64,
    /// Response times.
    pub(super) p50_ms: Option<f64>,
    pub(super) p95_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    pub(super) send_lag_p99_ms: Option<f64>,
}

/// The first number behind a label: `12` of `Complete requests:      12`.
fn number_after<T: std::str::FromStr>(text: &str, label: &str) -> Option<T> {
    let (_, rest) = text.split_once(label)?;
    let rest = rest.trim_start();
    let end = rest
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    /// The arguments a tool is started with in a case.
    pub(super) fn arguments(tool: &Tool, case: &Case, scratch: &Path) -> String {
        let job = Job {
            program: Path::new(tool.name),
            url: format!("http://127.0.0.1:8080{}", case.path),
            case,
            seconds: 5,
            scratch,
        };
        let command = (tool.command)(&job).expect("a command");
        let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        words
            .join(" ")
            .replace(&scratch.display().to_string(), "DIR")
    }

    /// What a tool's output means.
    pub(super) fn answer(
        tool: &Tool,
        case: &Case,
        scratch: &Path,
        text: &str,
    ) -> anyhow::Result<Answer> {
        let job = Job {
            program: Path::new(tool.name),
            url: String::new(),
            case,
            seconds: 5,
            scratch,
        };
        (tool.read)(&job, text)
    }

    #[test]
    fn a_number_is_found_behind_its_label() {
        let text = "Complete requests:      1200\nRequests per second:    99.5 [#/sec] (mean)\n";
        assert_eq!(number_after(text, "Complete requests:"), Some(1200u64));
        assert_eq!(number_after(text, "per second:"), Some(99.5));
        assert_eq!(number_after::<u64>(text, "Failed:"), None);
        assert_eq!(number_after::<u64>("x: none", "x:"), None);
    }
}
