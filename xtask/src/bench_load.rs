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
use crate::{measured, program, site};
use anyhow::{Context as _, bail, ensure};
use cases::{CASES, Case};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use results::{Results, Sample};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tools::{Job, OURS, TOOLS, Tool};

const USAGE: &str = "\
cargo xtask bench-load [--rounds N] [--seconds S] [--only NAME]... [--peer TOOL=PATH]... [--binary PATH]
                       [--nginx-workers N] [--seed N] [--json FILE]

  --rounds N         how often each measurement is taken (default: 5)
  --seconds S        length of each measurement (default: 5)
  --only NAME        this case, or ours and this tool, only; may be repeated
  --peer TOOL=PATH   where a tool is that is not on the PATH; may be repeated
  --binary PATH      the program to test (default: built with cargo build --release -p kneepoint)
  --nginx-workers N  worker processes of nginx (default: one per core)
  --seed N           seed of the order of the measurements (default: 1)
  --json FILE        also write every measurement there";

/// What a tool may take beyond the length of a measurement: to start, and to end what is under way.
const EXTRA_TIME: Duration = Duration::from_secs(30);

/// What was asked for on the command line.
#[derive(Debug, PartialEq)]
struct Options {
    rounds: usize,
    seconds: u32,
    only: Vec<String>,
    peers: BTreeMap<String, PathBuf>,
    binary: Option<PathBuf>,
    workers: Option<usize>,
    seed: u64,
    json: Option<PathBuf>,
    help: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            rounds: 5,
            seconds: 5,
            only: Vec::new(),
            peers: BTreeMap::new(),
            binary: None,
            workers: None,
            seed: 1,
            json: None,
            help: false,
        }
    }
}

impl Options {
    fn read(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<Self> {
        let mut options = Self::default();
        options.help = flags::each("bench-load", USAGE, args, |name, value| {
            options.set(name, value)
        })?;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: OsString) -> anyhow::Result<()> {
        let text = value.to_string_lossy().into_owned();
        match name {
            "--rounds" => self.rounds = count(name, &text)?,
            "--seconds" => self.seconds = count(name, &text)? as u32,
            "--nginx-workers" => self.workers = Some(count(name, &text)?),
            "--seed" => {
                self.seed = text
                    .parse()
                    .with_context(|| format!("`--seed {text}`: write a whole number"))?;
            }
            "--binary" => self.binary = Some(value.into()),
            "--json" => self.json = Some(value.into()),
            "--peer" => {
                let (tool, path) = text
                    .split_once('=')
                    .with_context(|| format!("`--peer {text}`: write TOOL=PATH"))?;
                known_tool(tool)?;
                self.peers.insert(tool.to_owned(), path.into());
            }
            _ => self.only.push(text),
        }
        Ok(())
    }

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

fn count(name: &str, text: &str) -> anyhow::Result<usize> {
    match text.parse() {
        Ok(number @ 1..=3600) => Ok(number),
        _ => bail!("`{name} {text}`: write a number from 1 to 3600"),
    }
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
pub(crate) fn run(args: impl IntoIterator<Item = OsString>) -> anyhow::Result<ExitCode> {
    let options = Options::read(args)?;
    let mut out = std::io::stdout();
    if options.help {
        writeln!(out, "{USAGE}")?;
        return Ok(ExitCode::SUCCESS);
    }
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
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&results.to_json())?;
        std::fs::write(path, text + "\n")
            .with_context(|| format!("the results cannot be written to `{}`", path.display()))?;
    }
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
    if let Some(path) = options.peers.get(tool.name) {
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

    fn read(args: &[&str]) -> Result<Options, String> {
        Options::read(args.iter().map(OsString::from)).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_error(args: &[&str], part: &str) {
        let error = read(args).expect_err("a slip");
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn options_are_read_and_slips_are_named() {
        assert_eq!(read(&[]), Ok(Options::default()));
        let options = read(&[
            "--rounds",
            "3",
            "--seconds",
            "2",
            "--seed",
            "7",
            "--peer",
            "oha=/x/oha",
            "--only",
            "fpm",
        ]);
        let expected = Options {
            rounds: 3,
            seconds: 2,
            seed: 7,
            only: vec!["fpm".into()],
            peers: BTreeMap::from([("oha".into(), "/x/oha".into())]),
            ..Options::default()
        };
        assert_eq!(options, Ok(expected));
        check_error(&["--round", "3"], "`--round` is not an option");
        check_error(&["--rounds"], "`--rounds` needs a value");
        check_error(&["--rounds", "0"], "from 1 to 3600");
        check_error(&["--peer", "oha"], "TOOL=PATH");
        check_error(&["--peer", "siege=/x"], "there is no `siege`; there are");
    }

    #[test]
    fn only_names_cases_and_tools() {
        let names = |only: &[&str]| {
            let options = Options {
                only: only.iter().map(|name| (*name).to_owned()).collect(),
                ..Options::default()
            };
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
