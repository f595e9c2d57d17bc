//! How much memory the load generator takes: with many connections open, and over a long run.
//!
//! `benches/README.md` says what is measured and how. The figures are of the generator's process alone.

mod trend;

use crate::flags;
use crate::program::measured;
use crate::program::{self, site};
use anyhow::{Context as _, ensure};
use kneepoint_model::units::format_rate;
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use trend::Trend;

/// Largest peak with [`Options::connections`] open.
const LARGEST_PEAK_MIB: f64 = 200.0;
/// Growth that a flat run may show at most, over its whole length: a record of some 400 bytes a second is part of
/// the result, 0.7 MiB in half an hour.
const LARGEST_GROWTH_MIB: f64 = 1.0;
/// How often memory is looked at in the long run.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);
/// How often open files are counted: with ten thousand of them it takes a millisecond.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// What the program may take beyond the length of a run.
const EXTRA_TIME: Duration = Duration::from_secs(60);

/// One of the two measurements.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum Part {
    /// The many connections.
    Held,
    /// The long run.
    Long,
}

/// What was asked for on the command line.
#[derive(Debug, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// The many connections, or the long run, only
    #[arg(long)]
    only: Option<Part>,
    /// Connections that are held open
    #[arg(long, value_name = "N", default_value = "10000", value_parser = flags::number(1..=28_000usize))]
    connections: usize,
    /// For how long
    #[arg(long, value_name = "S", default_value = "20", value_parser = flags::number(1..=3600u64))]
    seconds: u64,
    /// Length of the long run
    #[arg(long, value_name = "M", default_value = "30", value_parser = flags::number(1..=24 * 60u64))]
    minutes: u64,
    /// Its requests per second
    #[arg(long = "rate", value_name = "R", default_value = "1000", value_parser = flags::number(1..=1_000_000u32))]
    rate_hz: u32,
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Also write the figures there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Takes the measurements with the arguments that follow `memory`. The exit code is 1 when a bound does not hold.
///
/// # Errors
/// The arguments cannot be read, the program cannot be built or fails, or the site does not come up.
pub(crate) fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let stop = flags::raised_by_signals()?;
    let bench = Bench {
        program: program::find(options.binary.as_deref())?,
        site: site::Site::start(&site::Plan {
            workers: 2,
            connections: options.connections,
            php_workers: 0,
        })?,
        stop,
    };
    let mut results = Vec::new();
    if options.only != Some(Part::Long) {
        results.push(bench.hold(options.connections, options.seconds)?);
    }
    if options.only != Some(Part::Held) {
        results.push(bench.run_long(options.rate_hz, options.minutes)?);
    }
    for result in &results {
        writeln!(out, "{}", result.text)?;
    }
    if let Some(path) = &options.json {
        let all: Vec<&Value> = results.iter().map(|result| &result.figures).collect();
        std::fs::write(path, serde_json::to_string_pretty(&all)? + "\n")
            .with_context(|| format!("the figures cannot be written to `{}`", path.display()))?;
    }
    Ok(if results.iter().all(|result| result.holds) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What came of a measurement.
struct Outcome {
    holds: bool,
    text: String,
    figures: Value,
}

struct Bench {
    program: PathBuf,
    site: site::Site,
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// A `kneepoint load` against the static page with these arguments: what it took, and what it says of its
    /// requests.
    fn load(
        &self,
        arguments: &[&str],
        length: Duration,
        look: &mut dyn FnMut(rustix::process::Pid, Duration),
    ) -> anyhow::Result<(measured::Measured, Requests)> {
        self.site.verify()?;
        let mut command = Command::new(&self.program);
        command
            .arg("load")
            .arg(self.site.url("/index.html"))
            .args(["-t", "1", "--timeout", "20s"])
            .args(arguments)
            .arg("--json");
        let measured = measured::run(&mut command, length + EXTRA_TIME, &self.stop, look)?;
        let requests = Requests::read(&measured.stdout).with_context(|| {
            format!(
                "the program ended with {}: {}",
                measured.status,
                measured.stderr.trim()
            )
        })?;
        Ok((measured, requests))
    }

    fn hold(&self, connections: usize, seconds: u64) -> anyhow::Result<Outcome> {
        let (workers, duration) = (connections.to_string(), format!("{seconds}s"));
        let mut most_files = 0;
        let mut count_at = Duration::ZERO;
        let (measured, requests) = self.load(
            &["-c", &workers, "--duration", &duration],
            Duration::from_secs(seconds),
            &mut |pid, elapsed| {
                if elapsed >= count_at {
                    count_at = elapsed + COUNT_EVERY;
                    most_files = most_files.max(measured::open_files(pid).unwrap_or(0));
                }
            },
        )?;
        ensure!(
            most_files >= connections,
            "only {most_files} files were open at once, so {connections} connections were not: {requests}"
        );
        let peak_mib = mib(measured.peak_memory_bytes);
        let holds = peak_mib < LARGEST_PEAK_MIB;
        let verdict = if holds { "holds" } else { "does not hold" };
        Ok(Outcome {
            holds,
            text: format!(
                "{connections} connections held open for {seconds} s ({requests}; {most_files} files open at most)\n  \
                 {verdict}: peak memory {peak_mib:.1} MiB (VmHWM), below {LARGEST_PEAK_MIB} MiB; \
                 {:.1} KiB a connection",
                measured.peak_memory_bytes as f64 / 1024.0 / connections as f64
            ),
            figures: json!({
                "measurement": "held", "connections": connections, "open_files": most_files,
                "peak_memory_bytes": measured.peak_memory_bytes, "holds": holds,
            }),
        })
    }

    fn run_long(&self, rate_hz: u32, minutes: u64) -> anyhow::Result<Outcome> {
        let schedule = format!("const({rate_hz},{minutes}m)");
        let mut samples: Vec<(f64, f64, f64)> = Vec::new();
        // The first one is left out: until then the program fills its tables for the first time.
        let mut next = SAMPLE_EVERY;
        let (_, requests) = self.load(
            &["--connections", "64", "--schedule", &schedule],
            Duration::from_secs(minutes * 60),
            &mut |pid, elapsed| {
                if elapsed < next {
                    return;
                }
                next += SAMPLE_EVERY;
                let rss = measured::memory_bytes(pid, "VmRSS");
                if let (Some(rss), Some(pss)) = (rss, measured::pss_bytes(pid)) {
                    samples.push((elapsed.as_secs_f64(), mib(rss), mib(pss)));
                }
            },
        )?;
        let series = |value: fn(&(f64, f64, f64)) -> f64| {
            let points: Vec<(f64, f64)> = samples.iter().map(|s| (s.0, value(s))).collect();
            Trend::of(&points).with_context(|| {
                format!(
                    "{} samples say nothing about a trend: run for longer",
                    samples.len()
                )
            })
        };
        let (rss, pss) = (series(|s| s.1)?, series(|s| s.2)?);
        let flat = [&rss, &pss]
            .iter()
            .all(|trend| trend.growth_at_most() <= LARGEST_GROWTH_MIB);
        let verdict = if flat { "flat" } else { "not flat" };
        Ok(Outcome {
            holds: flat,
            text: format!(
                "{minutes} min at {} ({requests}; {} samples {} s apart)\n  RSS {rss}\n  PSS {pss}\n  \
                 {verdict}: growth over the run, upper end of the interval, at most {LARGEST_GROWTH_MIB} MiB",
                format_rate(f64::from(rate_hz)),
                samples.len(),
                SAMPLE_EVERY.as_secs(),
            ),
            figures: json!({
                "measurement": "long", "rate_hz": rate_hz, "minutes": minutes, "flat": flat,
                "rss": rss, "pss": pss, "samples_s_rss_mib_pss_mib": samples,
            }),
        })
    }
}

/// What the program says of its requests.
struct Requests {
    arrivals: u64,
    failed: u64,
}

impl Requests {
    fn read(stdout: &str) -> anyhow::Result<Self> {
        let point = program::load_point(stdout)?;
        Ok(Self {
            arrivals: point.arrivals,
            failed: point.outcomes.failed(),
        })
    }
}

impl std::fmt::Display for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} requests, {} failed", self.arrivals, self.failed)
    }
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::read;

    #[test]
    fn options_are_read_and_slips_are_named() {
        let options: Options = read(&["--only", "long", "--rate", "500"]).expect("valid");
        assert_eq!(options.only, Some(Part::Long));
        assert_eq!((options.rate_hz, options.minutes), (500, 30));
        for (args, part) in [
            (&["--minute", "2"][..], "unexpected argument '--minute'"),
            (&["--minutes"], "a value is required for '--minutes <M>'"),
            (&["--minutes", "0"], "from 1 to 1440"),
            (&["--only", "both"], "[possible values: held, long]"),
        ] {
            let error = read::<Options>(args).expect_err("a slip");
            assert!(error.contains(part), "{error}");
        }
    }
}
