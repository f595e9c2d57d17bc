//! What it costs to be profiled: CPU per request of busy PHP workers with `kneepoint profile` and without, in pairs,
//! and the CPU that `kneepoint profile` takes itself.
//!
//! One load and one profiler run all the time. The profiler is stopped (SIGSTOP) and let go on every 25 ms, so that the
//! two steps of a pair find the same machine. On one whose cores are shared, pairs of steps of 1 s scatter by 12 %, of
//! 0.1 s by 10 to 17 %, of 20 ms by 19 %: the more pairs there are, the more they tell in the same time.
//!
//! The test is that of the A/B of `kneepoint tune` (`kneepoint_model::statistics::sequential`).

use crate::program::measured;
use crate::program::site;
use crate::{flags, program};
use anyhow::{Context as _, bail, ensure};
use kneepoint_linux::process;
use kneepoint_model::Interval;
use kneepoint_model::statistics::sequential::{MIN_PAIRS, confidence_sequence, mean_and_sd};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Largest change of the workers' CPU per request, as a share.
const LARGEST_CHANGE: f64 = 0.01;
/// Most of one core that the profiler may take.
const LARGEST_SHARE: f64 = 0.15;
/// What the load and the profiler may run beyond twice the length of all steps.
const EXTRA_TIME: Duration = Duration::from_secs(60);
/// Time before the first step: until every worker is busy and known to the profiler.
const WARM_UP: Duration = Duration::from_secs(3);
/// Time from stopping the profiler, or letting it go on, to the step.
const SETTLE: Duration = Duration::from_millis(5);

/// What was asked for on the command line.
#[derive(Debug, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// Pairs of a step with the profiler and one without
    #[arg(long, value_name = "N", default_value = "20000", value_parser = flags::number(MIN_PAIRS..=100_000))]
    pairs: usize,
    /// Length of a step in ms
    #[arg(long, value_name = "MS", default_value = "20", value_parser = flags::number(10..=60_000u64))]
    step_ms: u64,
    /// PHP workers, each of them busy
    #[arg(long, value_name = "N", default_value = "16", value_parser = flags::number(1..=256usize))]
    workers: usize,
    /// Samples a second of each worker
    #[arg(long = "rate", value_name = "HZ", default_value = "99", value_parser = flags::number(1..=2000u64))]
    rate_hz: u64,
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Takes the pairs with the arguments that follow `profile-cost`. The exit code is 1 when a bound does not hold.
///
/// # Errors
/// The arguments cannot be read, the program cannot be built or fails, or the site does not come up.
pub(crate) fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let stop = flags::raised_by_signals()?;
    let bench = Bench {
        program: program::find(options.binary.as_deref())?,
        site: site::Site::start(&site::Plan {
            workers: 1,
            connections: options.workers + 16,
            php_workers: options.workers,
        })?,
        options,
        stop: &stop,
        over: AtomicBool::new(false),
    };
    let (changes, shares) = bench.measure(&mut out)?;
    let change = confidence_sequence(&changes).context("there are too few pairs")?;
    let share = mean_and_sd(&shares).0;
    let (text, holds) = judge(&bench.options, change, share);
    writeln!(out, "{text}")?;
    Ok(if holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The verdicts in words, and whether both bounds hold. `change` is of the logarithm.
fn judge(options: &Options, change: Interval, share: f64) -> (String, bool) {
    let percent = |ln: f64| 100.0 * ln.exp_m1();
    let unchanged =
        change.low >= (1.0 - LARGEST_CHANGE).ln() && change.high <= LARGEST_CHANGE.ln_1p();
    let beyond = change.low > LARGEST_CHANGE.ln_1p() || change.high < (1.0 - LARGEST_CHANGE).ln();
    let verdict = match (unchanged, beyond) {
        (true, _) => "holds",
        (_, true) => "does not hold",
        _ => "not decided in so many pairs",
    };
    let cheap = share <= LARGEST_SHARE;
    let text = format!(
        "{} workers at {} Hz, {} pairs of {} ms\n  {verdict}: CPU per request changes by {:+.2} % (95 %: {:+.2} to \
         {:+.2}), 1 % allowed\n  {}: the profiler takes {:.1} % of one core, {:.0} % allowed",
        options.workers,
        options.rate_hz,
        options.pairs,
        options.step_ms,
        percent(change.estimate),
        percent(change.low),
        percent(change.high),
        if cheap { "holds" } else { "does not hold" },
        100.0 * share,
        100.0 * LARGEST_SHARE,
    );
    (text, unchanged && cheap)
}

/// What a step came to.
struct Step {
    /// CPU of the workers per request, in microseconds.
    cost_us: f64,
    /// CPU of the profiler as a share of one core.
    profiler_share: f64,
}

/// Counts at one moment.
struct Reading {
    at: Instant,
    requests: u64,
    workers_cpu: Duration,
    profiler_cpu: Duration,
}

struct Bench<'s> {
    program: PathBuf,
    site: site::Site,
    options: Options,
    stop: &'s AtomicBool,
    /// Raised when everything is measured: what still runs is ended.
    over: AtomicBool,
}

impl Bench<'_> {
    /// Takes the pairs while one load and one profiler run: the profiler is stopped and let go on in between.
    fn measure(&self, out: &mut impl Write) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
        self.site.verify()?;
        let fpm = self.site.fpm().context("the site has no PHP-FPM")?;
        let profiler = OnceLock::new();
        thread::scope(|scope| {
            let load = scope.spawn(|| self.program(&mut self.load(), &OnceLock::new()));
            let profile = scope.spawn(|| self.program(&mut self.profile(fpm), &profiler));
            let runs = || !load.is_finished() && !profile.is_finished();
            let pairs = self.pairs(fpm, &profiler, &runs, out);
            if let Some(profiler) = profiler.get() {
                // One that stands still cannot end.
                let _ = kill_process(*profiler, Signal::CONT);
            }
            let programs = [load, profile].map(|program| (program.is_finished(), program));
            self.over.store(true, Ordering::Relaxed);
            for (early, program) in programs {
                let ended = program.join();
                let ended = ended.unwrap_or_else(|_| bail!("a thread of this program panicked"));
                if early && pairs.is_err() {
                    // Why it failed tells more than that it did.
                    ended?;
                }
            }
            pairs
        })
    }

    fn pairs(
        &self,
        fpm: Pid,
        profiler: &OnceLock<Pid>,
        runs: &dyn Fn() -> bool,
        out: &mut impl Write,
    ) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
        thread::sleep(WARM_UP);
        let profiler = *profiler.get().context("the profiler has not come up")?;
        let (mut changes, mut shares) = (Vec::new(), Vec::new());
        let mut nth = 0;
        while changes.len() < self.options.pairs {
            // Whichever comes second finds a warmer machine: they take turns.
            let order = [nth % 2 == 0, nth % 2 != 0];
            nth += 1;
            let mut steps = [None, None];
            for profiled in order {
                ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
                steps[usize::from(profiled)] = self.step(fpm, profiler, profiled)?;
                ensure!(runs(), "the load or the profiler has ended too early");
            }
            // The machine may have stood still for a whole step.
            let [Some(without), Some(with)] = steps else {
                ensure!(
                    nth < 2 * self.options.pairs,
                    "in half of the pairs no request was answered in a step: take longer ones (--step-ms)"
                );
                continue;
            };
            changes.push((with.cost_us / without.cost_us).ln());
            shares.push(with.profiler_share);
            writeln!(
                out,
                "{:>4}  {:.0} us of CPU a request without, {:.0} with; the profiler takes {:.1} % of a core",
                changes.len(),
                without.cost_us,
                with.cost_us,
                100.0 * with.profiler_share,
            )?;
        }
        Ok((changes, shares))
    }

    /// One step; nothing when no request was answered in it.
    fn step(&self, fpm: Pid, profiler: Pid, profiled: bool) -> anyhow::Result<Option<Step>> {
        let signal = if profiled { Signal::CONT } else { Signal::STOP };
        kill_process(profiler, signal).context("the profiler is gone")?;
        thread::sleep(SETTLE);
        let before = self.read(fpm, profiler)?;
        thread::sleep(Duration::from_millis(self.options.step_ms));
        let after = self.read(fpm, profiler)?;
        let requests = after.requests - before.requests;
        let spent = |of: fn(&Reading) -> Duration| (of(&after) - of(&before)).as_secs_f64();
        Ok((requests > 0).then(|| Step {
            cost_us: 1e6 * spent(|reading| reading.workers_cpu) / requests as f64,
            profiler_share: spent(|reading| reading.profiler_cpu)
                / (after.at - before.at).as_secs_f64(),
        }))
    }

    fn read(&self, fpm: Pid, profiler: Pid) -> anyhow::Result<Reading> {
        let workers = process::children(measured::number(fpm))?;
        let cpu = workers.iter().map(|worker| cpu(&worker.to_string()));
        Ok(Reading {
            at: Instant::now(),
            requests: self.site.requests()?,
            workers_cpu: cpu.sum::<anyhow::Result<Duration>>()?,
            profiler_cpu: cpu_of_threads(profiler)?,
        })
    }

    /// Time that the load and the profiler run: longer than all steps.
    fn length(&self) -> String {
        let step = SETTLE + Duration::from_millis(self.options.step_ms);
        let all = step * 2 * u32::try_from(self.options.pairs).unwrap_or(u32::MAX);
        format!("{}s", (all * 2 + EXTRA_TIME).as_secs())
    }

    /// Keeps every worker busy.
    fn load(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("load")
            .arg(self.site.url("/busy.php"))
            .args(["-t", "1", "--timeout", "20s", "--json", "-c"])
            .arg(self.options.workers.to_string())
            .args(["--duration", &self.length()]);
        command
    }

    fn profile(&self, fpm: Pid) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(["profile", "--quiet", "--folded", "--pid"])
            .arg(fpm.as_raw_nonzero().to_string())
            .arg("--rate")
            .arg(self.options.rate_hz.to_string())
            .args(["--duration", &self.length()]);
        command
    }

    /// Runs a program until everything is measured, and tells its process id as soon as there is one.
    fn program(&self, command: &mut Command, known: &OnceLock<Pid>) -> anyhow::Result<()> {
        let mut look = |pid, _| _ = known.set(pid);
        let done = measured::run(command, Duration::MAX, &self.over, &mut look)?;
        bail!(
            "the program ended with {}: {}",
            done.status,
            done.stderr.trim()
        )
    }
}

/// CPU time so far of a task, `PID` or `PID/task/TID`, to the nanosecond: `/proc/PID/stat` has clock ticks only.
fn cpu(task: &str) -> anyhow::Result<Duration> {
    let path = format!("/proc/{task}/schedstat");
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    cpu_in(&text).with_context(|| format!("{path} has no CPU time"))
}

/// The first word of schedstat (Documentation/scheduler/sched-stats.rst): nanoseconds on a CPU.
fn cpu_in(schedstat: &str) -> Option<Duration> {
    let nanos = schedstat.split(' ').next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}

fn cpu_of_threads(profiler: Pid) -> anyhow::Result<Duration> {
    let profiler = measured::number(profiler);
    let threads = process::threads(profiler).context("the profiler is gone")?;
    let times = threads.into_iter();
    times
        .map(|thread| cpu(&format!("{profiler}/task/{thread}")))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_read_to_the_nanosecond() {
        let told = cpu_in("1234567890 55 7\n");
        assert_eq!(told, Some(Duration::from_nanos(1_234_567_890)));
        assert_eq!(cpu_in(""), None);
    }

    #[test]
    fn a_bound_holds_only_when_the_whole_interval_does() {
        let options = flags::read(&[]).expect("defaults");
        let verdict = |low: f64, high: f64, share: f64| {
            let estimate = f64::midpoint(low, high);
            judge(
                &options,
                Interval {
                    low,
                    estimate,
                    high,
                },
                share,
            )
            .1
        };
        assert!(verdict(-0.005, 0.006, 0.1));
        assert!(!verdict(-0.005, 0.02, 0.1));
        assert!(!verdict(-0.005, 0.006, 0.2));
    }
}
