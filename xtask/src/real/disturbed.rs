//! Something else takes the CPU in the middle of a search.

use super::Bench;
use super::limits::{STEADY_STACK, interval};
use crate::method::Verdict;
use anyhow::Context as _;
use kneepoint_model::{Interval, Run};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Disturbed searches when nobody says how many.
const RUNS: usize = 3;
/// Load time of each search.
const BUDGET: Duration = Duration::from_secs(180);
/// When the disturbance begins, from the start of the program: the stack stands by then, and the search, which may be over
/// after ten steps, is under way.
const FROM: Duration = Duration::from_secs(20);
/// How long it lasts.
const LASTS: Duration = Duration::from_secs(30);
/// Threads for each core that do nothing but count.
const PER_CORE: usize = 2;

/// Threads that take the CPU until they are dropped.
struct Hogs {
    enough: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    fn start() -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..PER_CORE * cores)
            .map(|_| {
                let enough = Arc::clone(&enough);
                thread::spawn(move || {
                    while !enough.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        Self { enough, threads }
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It only counts: there is nothing in it that panics.
            let _ = thread.join();
        }
    }
}

/// Searches in turns, alone and disturbed, an undisturbed one first and last.
///
/// What R* is while a search is disturbed, nobody knows: shared machines drift by more within minutes than these intervals
/// are wide. What was found right before and right after says it best: the interval must cover the middle of the two.
pub(super) fn run(bench: &Bench, out: &mut impl Write) -> anyhow::Result<Vec<Verdict>> {
    let runs = bench.runs.unwrap_or(RUNS);
    writeln!(
        out,
        "laravel, a fixed pool of 10, all ports: {runs} searches disturbed for {} s, each between two that are left alone",
        LASTS.as_secs()
    )?;
    let mut before_hz = alone(bench, out)?;
    let (mut weighed, mut covered) = (0, 0);
    for nth in 1..=runs {
        let (rate_hz, void, hit) = search(bench, true)?;
        writeln!(
            out,
            "{nth:>4}  disturbed  R* {}; {void} steps void, {hit} ran in that time",
            interval(&rate_hz)
        )?;
        let after_hz = alone(bench, out)?;
        weighed += usize::from(void == 0 && hit > 0);
        covered += usize::from(rate_hz.contains(f64::midpoint(before_hz, after_hz)));
        before_hz = after_hz;
    }
    Ok(vec![
        Verdict {
            what: format!("{weighed} of {runs} disturbed searches use every step"),
            met: weighed == runs,
        },
        Verdict {
            what: format!(
                "{covered} of their {runs} intervals cover the middle of what was found before and after"
            ),
            met: covered == runs,
        },
    ])
}

/// R* per second of a search that is left alone.
fn alone(bench: &Bench, out: &mut impl Write) -> anyhow::Result<f64> {
    let (rate_hz, void, _) = search(bench, false)?;
    writeln!(
        out,
        "      alone      R* {}; {void} steps void",
        interval(&rate_hz)
    )?;
    Ok(rate_hz.estimate)
}

/// R* of one search, how many of its steps do not count, and how many ran while it would be disturbed.
fn search(bench: &Bench, disturb: bool) -> anyhow::Result<(Interval, usize, usize)> {
    let scenario = bench.scenario("laravel/kneepoint.toml");
    let mut hogs = None;
    let run = bench.run_beside(
        "limit",
        &scenario,
        bench.budget(BUDGET),
        &STEADY_STACK,
        &mut |elapsed| {
            let now = disturb && elapsed >= FROM && elapsed < FROM + LASTS;
            if now && hogs.is_none() {
                hogs = Some(Hogs::start());
            } else if !now {
                hogs = None;
            }
        },
    )?;
    let limit = run.limit("base").context("a limit without R*")?;
    Ok((limit.rate_hz, void_steps(&run), steps_hit(&run)))
}

fn steps_hit(run: &Run) -> usize {
    let (from_s, until_s) = (FROM.as_secs_f64(), (FROM + LASTS).as_secs_f64());
    let hit = |trial: &&kneepoint_model::run::Trial| {
        trial.at_s < until_s && trial.at_s + trial.load.window_s > from_s
    };
    run.trials.iter().filter(hit).count()
}

fn void_steps(run: &Run) -> usize {
    let void = |trial: &&kneepoint_model::run::Trial| !trial.load.validity.is_valid();
    run.trials.iter().filter(void).count()
}
