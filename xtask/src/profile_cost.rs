//! What it costs to be profiled: CPU per request of busy PHP workers with `kneepoint profile` and without, in pairs,
//! and the CPU that `kneepoint profile` takes itself.
//!
//! The test is that of the A/B of `kneepoint tune` (`kneepoint_model::statistics::sequential`).

use crate::{flags, measured, program, site};
use anyhow::{Context as _, bail, ensure};
use kneepoint_model::Interval;
use kneepoint_model::statistics::sequential::{MIN_PAIRS, confidence_sequence, mean_and_sd};
use rustix::process::Pid;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

const USAGE: &str = "\
cargo xtask profile-cost [--pairs N] [--seconds S] [--workers N] [--rate HZ] [--binary PATH]

  --pairs N      pairs of a step with the profiler and one without (default: 40)
  --seconds S    length of a step (default: 4)
  --workers N    PHP workers, each of them busy (default: 16)
  --rate HZ      samples a second of each worker (default: 99)
  --binary PATH  the program to test (default: built with cargo build --release -p kneepoint)";

/// Largest change of the workers' CPU per request, as a share.
const LARGEST_CHANGE: f64 = 0.01;
/// Most of one core that the profiler may take.
const LARGEST_SHARE: f64 = 0.15;
/// What a program may take beyond the length of a step.
const EXTRA_TIME: Duration = Duration::from_secs(60);

/// What was asked for on the command line.
#[derive(Debug, PartialEq)]
struct Options {
    pairs: usize,
    seconds: u64,
    workers: usize,
    rate_hz: u64,
    binary: Option<PathBuf>,
    help: bool,
}

impl Options {
    fn read(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<Self> {
        let mut options = Self {
            pairs: 40,
            seconds: 4,
            workers: 16,
            rate_hz: 99,
            binary: None,
            help: false,
        };
        options.help = flags::each("profile-cost", USAGE, args, |name, value| {
            let text = value.to_string_lossy().into_owned();
            let number = |least, most| flags::number(name, &text, least..=most);
            match name {
                "--pairs" => options.pairs = number(MIN_PAIRS as u64, 1000)? as usize,
                "--seconds" => options.seconds = number(1, 600)?,
                "--workers" => options.workers = number(1, 256)? as usize,
                "--rate" => options.rate_hz = number(1, 2000)?,
                _ => options.binary = Some(value.into()),
            }
            Ok(())
        })?;
        Ok(options)
    }
}

/// Takes the pairs with the arguments that follow `profile-cost`. The exit code is 1 when a bound does not hold.
///
/// # Errors
/// The arguments cannot be read, the program cannot be built or fails, or the site does not come up.
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let options = Options::read(args)?;
    let mut out = std::io::stdout();
    if options.help {
        writeln!(out, "{USAGE}")?;
        return Ok(ExitCode::SUCCESS);
    }
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
    };
    let mut changes = Vec::new();
    let mut shares = Vec::new();
    for nth in 0..bench.options.pairs {
        // Whichever comes second finds a warmer machine: they take turns.
        let order = [nth % 2 == 0, nth % 2 != 0];
        let mut cost_us = [0.0; 2];
        for profiled in order {
            let step = bench.step(profiled)?;
            cost_us[usize::from(profiled)] = step.cost_us;
            shares.extend(step.profiler_share);
        }
        changes.push((cost_us[1] / cost_us[0]).ln());
        writeln!(
            out,
            "{:>4}  {:.0} us of CPU a request without, {:.0} with; the profiler takes {:.1} % of a core",
            nth + 1,
            cost_us[0],
            cost_us[1],
            100.0 * shares.last().copied().unwrap_or(f64::NAN),
        )?;
    }
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
        "{} workers at {} Hz, {} pairs of {} s\n  {verdict}: CPU per request changes by {:+.2} % (95 %: {:+.2} to \
         {:+.2}), 1 % allowed\n  {}: the profiler takes {:.1} % of one core, {:.0} % allowed",
        options.workers,
        options.rate_hz,
        options.pairs,
        options.seconds,
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
    /// CPU of the profiler as a share of one core, where there was one.
    profiler_share: Option<f64>,
}

struct Bench<'s> {
    program: PathBuf,
    site: site::Site,
    options: Options,
    stop: &'s AtomicBool,
}

impl Bench<'_> {
    fn step(&self, profiled: bool) -> anyhow::Result<Step> {
        self.site.verify()?;
        let fpm = self.site.fpm().context("the site has no PHP-FPM")?;
        let before = workers_cpu_s(fpm)?;
        let (load, profile) = thread::scope(|scope| {
            let profile = profiled.then(|| scope.spawn(|| self.profile(fpm)));
            let load = self.load();
            let profile = profile.map(|profile| {
                let ended = profile.join();
                ended.unwrap_or_else(|_| bail!("the profiler's thread panicked"))
            });
            (load, profile)
        });
        let cpu_s = workers_cpu_s(fpm)? - before;
        let answered = load?;
        let share = profile.transpose()?.map(|profile| {
            profile.cpu.as_secs_f64() / Duration::from_secs(self.options.seconds).as_secs_f64()
        });
        Ok(Step {
            cost_us: 1e6 * cpu_s / answered as f64,
            profiler_share: share,
        })
    }

    /// Keeps every worker busy, and tells how many requests were answered.
    fn load(&self) -> anyhow::Result<u64> {
        let mut command = Command::new(&self.program);
        command
            .arg("load")
            .arg(self.site.url("/busy.php"))
            .args(["-t", "1", "--timeout", "20s", "--json", "-c"])
            .arg(self.options.workers.to_string())
            .arg("--duration")
            .arg(format!("{}s", self.options.seconds));
        let done = self.program(&mut command)?;
        let outcomes = program::load_point(&done.stdout)?.outcomes;
        ensure!(
            outcomes.failed() == 0 && outcomes.total() > 0,
            "{} of {} requests failed",
            outcomes.failed(),
            outcomes.total()
        );
        Ok(outcomes.total())
    }

    fn profile(&self, fpm: Pid) -> anyhow::Result<measured::Measured> {
        let mut command = Command::new(&self.program);
        command
            .args(["profile", "--quiet", "--folded", "--pid"])
            .arg(fpm.as_raw_nonzero().to_string())
            .arg("--rate")
            .arg(self.options.rate_hz.to_string())
            .arg("--duration")
            .arg(format!("{}s", self.options.seconds));
        self.program(&mut command)
    }

    fn program(&self, command: &mut Command) -> anyhow::Result<measured::Measured> {
        let patience = Duration::from_secs(self.options.seconds) + EXTRA_TIME;
        let done = measured::run(command, patience, self.stop, &mut |_, _| {})?;
        ensure!(
            done.status.success(),
            "the program ended with {}: {}",
            done.status,
            done.stderr.trim()
        );
        Ok(done)
    }
}

/// CPU time of the children of a master so far, in seconds.
fn workers_cpu_s(master: Pid) -> anyhow::Result<f64> {
    let master = master.as_raw_nonzero();
    let path = format!("/proc/{master}/task/{master}/children");
    let children = std::fs::read_to_string(&path).context(path)?;
    let ticks = children.split_ascii_whitespace().map(|pid| {
        let path = Path::new("/proc").join(pid).join("stat");
        let stat = std::fs::read_to_string(&path)?;
        ticks_of(&stat).with_context(|| format!("{} has no CPU times", path.display()))
    });
    let ticks = ticks.sum::<anyhow::Result<u64>>()?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// User and system time of a process in clock ticks (proc_pid_stat(5): fields 14 and 15).
fn ticks_of(stat: &str) -> Option<u64> {
    let (_, behind_name) = stat.rsplit_once(") ")?;
    let mut fields = behind_name.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_times_are_read_behind_a_name_with_blanks() {
        let stat = "71 (php-fpm: pool w) S 70 71 71 0 -1 64 20 0 0 0 523 41 0 0 20 0 1 0 99";
        assert_eq!(ticks_of(stat), Some(564));
        assert_eq!(ticks_of("71 (x"), None);
    }

    #[test]
    fn a_bound_holds_only_when_the_whole_interval_does() {
        let options = Options::read([]).expect("defaults");
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
