//! The load bench: our engine and the generators of others against one and the same site, taking turns.
//!
//! `benches/README.md` says what is measured and how. The program under test is the built binary, used as anybody
//! would; peers are used where they are installed and never fetched.

mod acceptance;
mod cases;
mod results;
mod table;
mod tools;

use crate::flags;
use crate::program::measured;
use crate::program::{self, site};
use anyhow::{Context as _, ensure};
use cases::{CASES, Case};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use results::{Results, Sample};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tools::{Job, OURS, TOOLS, Tool};

/// What a tool may take beyond the length of a measurement: to start, and to end what is under way.
const EXTRA_TIME: Duration = Duration::from_secs(30);

/// What was asked for on the command line.
#[derive(Debug, PartialEq, clap::Args)]
pub(crate) struct Options {
    /// How often each measurement is taken
    #[arg(long, value_name = "N", default_value = "5", value_parser = flags::number(1..=3600usize))]
    rounds: usize,
    /// Length of each measurement
    #[arg(long, value_name = "S", default_value = "5", value_parser = flags::number(1..=3600u32))]
    seconds: u32,
    /// This case, or ours and this tool, only; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Where a tool is that is not on the PATH; may be repeated
    #[arg(long = "peer", value_name = "TOOL=PATH", value_parser = peer)]
    peers: Vec<(String, PathBuf)>,
    /// The program to test (default: built with cargo build --release -p kneepoint)
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Worker processes of nginx (default: one per core)
    #[arg(long = "nginx-workers", value_name = "N", value_parser = flags::number(1..=3600usize))]
    workers: Option<usize>,
    /// Seed of the order of the measurements
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Also write every measurement there
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Options {
    /// The cases and the tools beside ours that `--only` leaves.
    fn select(&self) -> anyhow::Result<(Vec<&'static Case>, Vec<&'static Tool>)> {
        let mut cases = Vec::new();
        let mut tools = Vec::new();
        for name in &self.only {
            match CASES.iter().find(|case| case.name == name) {
                Some(case) => cases.push(case),
                None => tools.push(known_tool(name)?),
            }
        }
        if cases.is_empty() {
            cases = CASES.iter().collect();
        }
        if tools.is_empty() {
            tools = TOOLS.iter().collect();
        }
        tools.retain(|tool| tool.name != OURS);
        Ok((cases, tools))
    }
}

/// A tool and where it is: `oha=/opt/oha`.
fn peer(text: &str) -> anyhow::Result<(String, PathBuf)> {
    let (tool, path) = text.split_once('=').context("write TOOL=PATH")?;
    known_tool(tool)?;
    Ok((tool.to_owned(), path.into()))
}

fn known_tool(name: &str) -> anyhow::Result<&'static Tool> {
    TOOLS
        .iter()
        .find(|tool| tool.name == name)
        .with_context(|| {
            let names = CASES.iter().map(|case| case.name);
            let all: Vec<&str> = names.chain(TOOLS.iter().map(|tool| tool.name)).collect();
            format!("there is no `{name}`; there are {}", all.join(", "))
        })
}

/// Runs the bench with the arguments that follow `bench-load`. The exit code is 1 when an acceptance line does not
/// hold.
///
/// # Errors
/// The arguments cannot be read, the program cannot be built or fails, the site does not come up, or the bench was
/// interrupted. A peer that fails is told of and left out.
pub(crate) fn run(options: Options) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let (cases, peers) = options.select()?;
    let mut programs = BTreeMap::from([(OURS, program::find(options.binary.as_deref())?)]);
    for tool in peers {
        if let Some(path) = locate(tool, &options)? {
            programs.insert(tool.name, path);
        }
    }
    let stop = flags::raised_by_signals()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let bench = Bench {
        site: site::Site::start(&site::Plan {
            workers: options.workers.unwrap_or(cores),
            connections: 1024,
            php_workers: 4,
        })?,
        scratch: tempfile::Builder::new()
            .prefix("kneepoint-bench-")
            .tempdir()?,
        programs,
        seconds: options.seconds,
        stop,
    };
    let results = bench.run_all(&cases, options.rounds, options.seed)?;
    flags::write_json(options.json.as_deref(), &results.to_json())?;
    let lines = acceptance::judge(&results);
    write!(out, "{}{}", table::show(&results), acceptance::show(&lines))?;
    Ok(if lines.iter().any(|line| line.holds() == Some(false)) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Where a tool's program is; `None`, said aloud, when it is not there.
fn locate(tool: &Tool, options: &Options) -> anyhow::Result<Option<PathBuf>> {
    let named = options.peers.iter().find(|(name, _)| name == tool.name);
    if let Some((_, path)) = named {
        ensure!(
            path.is_file(),
            "`--peer {}`: there is no `{}`",
            tool.name,
            path.display()
        );
        return Ok(Some(std::path::absolute(path)?));
    }
    let found = site::find(tool.name);
    if found.is_none() {
        writeln!(
            std::io::stderr(),
            "{} is not installed: left out",
            tool.name
        )?;
    }
    Ok(found)
}

/// Everything that stays the same from measurement to measurement.
struct Bench {
    site: site::Site,
    scratch: tempfile::TempDir,
    programs: BTreeMap<&'static str, PathBuf>,
    seconds: u32,
    stop: Arc<AtomicBool>,
}

impl Bench {
    /// Round after round, in each of them every case, in each of them every tool, in an order drawn anew each time.
    fn run_all(
        &self,
        cases: &[&'static Case],
        rounds: usize,
        seed: u64,
    ) -> anyhow::Result<Results> {
        let mut results = Results::new(cases, self.seconds);
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut progress = std::io::stderr();
        for round in 0..rounds {
            let mut order = cases.to_vec();
            shuffle(&mut order, &mut random);
            for case in order {
                let mut tools: Vec<&Tool> = TOOLS
                    .iter()
                    .filter(|tool| self.programs.contains_key(tool.name) && tool.fits(case))
                    .collect();
                shuffle(&mut tools, &mut random);
                for tool in tools {
                    let sample = self.measure(case, tool);
                    ensure!(!self.stop.load(Ordering::Relaxed), "interrupted");
                    let words = match &sample {
                        Ok(sample) => sample.in_words(),
                        Err(error) => format!("{error:#}"),
                    };
                    writeln!(
                        progress,
                        "[{}/{rounds}] {}: {}: {words}",
                        round + 1,
                        case.name,
                        tool.name
                    )?;
                    match sample {
                        Ok(sample) => results.add(case, tool.name, round, sample),
                        Err(error) if tool.name == OURS => return Err(error),
                        Err(_) => {}
                    }
                }
            }
        }
        Ok(results)
    }

    fn measure(&self, case: &Case, tool: &Tool) -> anyhow::Result<Sample> {
        self.site.verify()?;
        let job = Job {
            program: &self.programs[tool.name],
            url: self.site.url(case.path),
            case,
            seconds: self.seconds,
            scratch: self.scratch.path(),
        };
        let patience = Duration::from_secs(self.seconds.into()) + EXTRA_TIME;
        let mut command = (tool.command)(&job)?;
        let measured = measured::run(&mut command, patience, &self.stop, &mut |_, _| {})?;
        let answer = (tool.read)(&job, &measured.stdout).with_context(|| {
            let said = measured.stderr.trim();
            format!("{} ({}): {said}", tool.name, measured.status)
        })?;
        ensure!(
            answer.requests > 0,
            "{} sent nothing: {}",
            tool.name,
            measured.stderr.trim()
        );
        Ok(Sample::new(&answer, &measured))
    }
}

/// Fisher and Yates.
fn shuffle<T>(all: &mut [T], random: &mut SplitMix64) {
    for last in (1..all.len()).rev() {
        // The bias of the remainder is 1 in 10^18 for a handful of things.
        all.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}

/// A path as text, for a tool's argument.
fn text_of(path: &Path) -> anyhow::Result<&str> {
    path.to_str()
        .with_context(|| format!("`{}` is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::read;

    #[track_caller]
    fn check_error(args: &[&str], part: &str) {
        let error = read::<Options>(args).expect_err("a slip");
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn options_are_read_and_slips_are_named() {
        let options: Options = read(&[
            "--rounds",
            "3",
            "--seed",
            "7",
            "--peer",
            "oha=/x/oha",
            "--only",
            "fpm",
        ])
        .expect("valid");
        assert_eq!((options.rounds, options.seconds, options.seed), (3, 5, 7));
        assert_eq!(options.peers, [("oha".into(), "/x/oha".into())]);
        assert_eq!(options.only, ["fpm"]);
        check_error(&["--round", "3"], "unexpected argument '--round'");
        check_error(&["--rounds"], "a value is required for '--rounds <N>'");
        check_error(&["--rounds", "0"], "from 1 to 3600");
        check_error(&["--peer", "oha"], "TOOL=PATH");
        check_error(&["--peer", "siege=/x"], "there is no `siege`; there are");
    }

    #[test]
    fn only_names_cases_and_tools() {
        let names = |only: &[&str]| {
            let mut options: Options = read(&[]).expect("defaults");
            options.only = only.iter().map(|name| (*name).to_owned()).collect();
            options
                .select()
                .map_err(|error| error.to_string())
                .map(|(cases, tools)| {
                    let cases: Vec<&str> = cases.iter().map(|case| case.name).collect();
                    let tools: Vec<&str> = tools.iter().map(|tool| tool.name).collect();
                    (cases, tools)
                })
        };
        let (cases, tools) = names(&[]).expect("all");
        assert_eq!((cases.len(), tools.len()), (CASES.len(), TOOLS.len() - 1));
        assert_eq!(names(&["closed", "wrk"]), Ok((vec!["closed"], vec!["wrk"])));
        let (cases, tools) = names(&["wrk"]).expect("wrk");
        assert_eq!((cases.len(), tools), (CASES.len(), vec!["wrk"]));
        assert!(names(&["nothing"]).is_err());
    }

    #[test]
    fn a_seed_is_an_order_and_an_order_loses_nothing() {
        let order = |seed| {
            let mut all: Vec<u32> = (0..20).collect();
            shuffle(&mut all, &mut SplitMix64::seed_from_u64(seed));
            all
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }
}
