//! Several generators against one server on one machine, each in a network namespace of its own: whether they are one load, and
//! what happens when one of them fails (docs/agents.md).

mod failures;
mod stage;

use crate::flags;
use crate::program::{self, load_point, measured};
use anyhow::{Context as _, ensure};
use kneepoint_model::LoadPoint;
use stage::{Program, Stage};
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The pages that are loaded. How long the first takes is up to the machine and who else wakes up on it; how long the
/// second takes, up to nginx.
const PAGES: [(&str, &str); 2] = [
    ("/", "a page of a fraction of a millisecond"),
    (stage::PACED, "a page of 1, 2 or 3 s"),
];

/// How many agents drive the load.
const FLEETS: [usize; 4] = [1, 2, 4, 8];

/// What was asked for on the command line.
#[derive(Debug, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// Requests a second, over all generators
    #[arg(long, value_name = "N", default_value = "400", value_parser = flags::number(1..=100_000u32))]
    rate: u32,
    /// Length of each load in seconds
    #[arg(long, value_name = "S", default_value = "6", value_parser = flags::number(1..=3600u32))]
    seconds: u32,
    /// How often each number of agents has its turn
    #[arg(long, value_name = "N", default_value = "3", value_parser = flags::number(1..=1000usize))]
    rounds: usize,
    /// Only the loads, or only the failures
    #[arg(long, value_name = "WHAT", value_parser = ["loads", "failures"])]
    only: Option<String>,
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

/// Runs the bench.
///
/// # Errors
/// The stage cannot be set, or a load does not run.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let binary = program::find(options.binary.as_deref())?;
    ensure!(
        rustix::process::geteuid().is_root(),
        "namespaces want root: run it as root"
    );
    let mut stage = Stage::set(&binary, FLEETS[FLEETS.len() - 1])?;
    let wanted = |what: &str| options.only.as_deref().is_none_or(|only| only == what);
    if wanted("loads") {
        loads(options, &stage)?;
    }
    if wanted("failures") {
        for failure in failures::ALL {
            tell(&failures::attempt(&mut stage, failure)?);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Response times and the rest of some loads by as many agents.
#[derive(Debug, Default)]
struct Turns {
    points: Vec<LoadPoint>,
    /// How far each agent began after the first, in ms.
    apart_ms: Vec<f64>,
    /// CPU time of `kneepoint load` for each arrival, in µs.
    cpu_us: Vec<f64>,
}

fn loads(options: &Options, stage: &Stage) -> anyhow::Result<()> {
    for (page, what) in PAGES {
        loads_of(options, stage, page, what)?;
    }
    Ok(())
}

fn loads_of(options: &Options, stage: &Stage, page: &str, what: &str) -> anyhow::Result<()> {
    let schedule = format!("const({},{})", options.rate, options.seconds);
    tell(&format!(
        "{what}: {schedule}, even arrivals and Poisson arrivals in turns, {} rounds\n\
         {:>10} {:>10} {:>12} {:>12} {:>11} {:>11} {:>8} {:>8} {:>8} {:>12}  p50, p99, p99.9 beside those of 1 (load)",
        options.rounds,
        "generators",
        "arrivals",
        "by seconds",
        "Poisson",
        "apart p99",
        "bound",
        "p50 ms",
        "p99 ms",
        "p99.9 ms",
        "CPU/request"
    ));
    let mut alone = Turns::default();
    for _ in 0..options.rounds {
        alone.take(stage, page, &schedule, None, &[])?;
    }
    tell(&alone.row("1 (load)", options));
    let of_one = alone.quantiles_ms();
    for fleet in FLEETS {
        let agents = stage.agents(fleet)?;
        let mut turns = Turns::default();
        for _ in 0..options.rounds {
            turns.take(stage, page, &schedule, Some(fleet), &agents)?;
        }
        let apart: Vec<String> = turns
            .quantiles_ms()
            .iter()
            .zip(of_one)
            .map(|(many, one)| format!("{:+.2} %", 100.0 * (many / one - 1.0)))
            .collect();
        let row = turns.row(&format!("{fleet} agent(s)"), options);
        tell(&format!("{row}  {}", apart.join(", ")));
    }
    Ok(())
}

impl Turns {
    /// One load with even arrivals, and one with Poisson arrivals.
    fn take(
        &mut self,
        stage: &Stage,
        page: &str,
        schedule: &str,
        fleet: Option<usize>,
        agents: &[Program],
    ) -> anyhow::Result<()> {
        for arrivals in ["even", "poisson"] {
            let mut command = stage.load(page, schedule, fleet, arrivals);
            let stop = AtomicBool::new(false);
            let ran = measured::run(
                command.arg("--quiet"),
                Duration::from_secs(120),
                &stop,
                &mut |_, _| {},
            )?;
            let text = fs::read_to_string(stage.result()).with_context(|| ran.stderr.clone())?;
            let point = load_point(&text)?;
            self.cpu_us
                .push(ran.cpu.as_secs_f64() * 1e6 / point.arrivals.max(1) as f64);
            self.points.push(point);
            let began: Vec<f64> = agents.iter().filter_map(began_s).collect();
            let first = began.iter().copied().fold(f64::INFINITY, f64::min);
            self.apart_ms
                .extend(began.iter().map(|at| (at - first) * 1e3));
        }
        Ok(())
    }

    /// p50, p99 and p99.9 in ms: of each the median over the loads with even arrivals.
    fn quantiles_ms(&self) -> [f64; 3] {
        [0.5, 0.99, 0.999].map(|q| {
            let even = self.points.iter().step_by(2);
            let mut all: Vec<f64> = even
                .filter_map(|point| point.response.quantile_ms(q))
                .collect();
            median(&mut all)
        })
    }

    fn row(&self, name: &str, options: &Options) -> String {
        let (even, poisson): (Vec<_>, Vec<_>) = self
            .points
            .chunks(2)
            .map(|pair| (&pair[0], &pair[1]))
            .unzip();
        let wanted = u64::from(options.rate) * u64::from(options.seconds);
        let whole = even.iter().filter(|point| point.arrivals == wanted).count();
        let each_second = |point: &&&LoadPoint| {
            point
                .seconds
                .iter()
                .all(|s| s.offered == u64::from(options.rate))
        };
        let seconds = even.iter().filter(each_second).count();
        // A Poisson process has as many arrivals as the rate's integral, give or take its root. All rounds have one seed: they
        // are one draw.
        let drawn = poisson.first().map_or(0, |point| point.arrivals);
        let deviations = (drawn as f64 - wanted as f64) / (wanted as f64).sqrt();
        let bound = self
            .points
            .iter()
            .flat_map(|p| &p.generators)
            .map(|g| g.start_within_ms)
            .fold(0.0, f64::max);
        let [p50_ms, p99_ms, p999_ms] = self.quantiles_ms();
        format!(
            "{name:>10} {:>10} {:>12} {:>12} {:>8.3} ms {:>8.3} ms {:>8.3} {:>8.3} {:>8.3} {:>9.1} us",
            format!("{whole}/{} whole", even.len()),
            format!("{seconds}/{} exact", even.len()),
            format!("{deviations:+.1} sd"),
            p99(&self.apart_ms),
            bound,
            p50_ms,
            p99_ms,
            p999_ms,
            median(&mut self.cpu_us.clone())
        )
    }
}

/// When an agent's last load began, by the clock of this machine, which all namespaces share.
fn began_s(agent: &Program) -> Option<f64> {
    let lines = agent.said.lines();
    let (_, last) = lines
        .iter()
        .rfind(|(_, line)| line.contains("the load begins at"))?;
    last.split("begins at ")
        .nth(1)?
        .split(' ')
        .next()?
        .parse()
        .ok()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn p99(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * 0.99).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[expect(clippy::print_stdout, reason = "the bench's result")]
fn tell(text: &str) {
    println!("{text}");
}
