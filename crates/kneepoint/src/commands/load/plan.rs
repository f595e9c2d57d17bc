//! What is sent and when: from the arguments to a load plan per target.

use super::target::{Foreign, Place, places};
use super::{extras, form, like, log, restraint};
use crate::args::{Interarrival, LoadArgs};
use crate::rate::parse_rate;
use crate::table;
use anyhow::{Context as _, Result, bail};
use kneepoint_access_log::Learned;
use kneepoint_load::{LoadPlan, Mode};
use kneepoint_model::units::parse_duration;
use kneepoint_model::variables::is_name;
use kneepoint_model::{
    Arrivals, ClosedLoop, Expect, Feeder, Method, Request, RowOrder, Schedule, Slo, Threshold,
    Workload,
};
use std::time::Duration;

/// The rate where none is given.
const USUAL_RATE_HZ: f64 = 50.0;
/// How long where nothing says it.
const USUAL_DURATION: Duration = Duration::from_secs(10);
/// How long a closed loop that counts its requests may take to send them: it ends when they are sent.
const LONGEST_COUNT: Duration = Duration::from_secs(3600);
/// How long a request may take where nothing says it.
const USUAL_TIMEOUT: &str = "2s";
/// Most connections of an open loop where none are given.
const USUAL_CONNECTIONS: usize = 1000;

/// One target under load.
#[derive(Debug)]
pub(super) struct Hop {
    /// As the person named it.
    pub(super) name: String,
    pub(super) plan: LoadPlan,
    /// Where it is not this machine: whoever its requests name has to say that it may be loaded.
    pub(super) foreign: Option<Foreign>,
}

/// One plan a target, all alike but for where they go.
pub(super) fn hops(args: &LoadArgs, learned: Option<&Learned>) -> Result<Vec<Hop>> {
    let places = places(args)?;
    let replayed = learned
        .map(|learned| log::mode(args, learned))
        .transpose()?;
    let mode = match replayed.flatten() {
        Some(mode) => mode,
        None => mode(args)?,
    };
    let slo = slo(args)?;
    let template = template(args)?;
    let (first, feeders) = (like::first(args), feeders(args)?);
    places
        .into_iter()
        .map(|place| {
            let workload = match learned {
                Some(learned) => log::workload(args, &template, learned),
                None => workload(args, &template, &place, &feeders)?,
            };
            let mut plan = LoadPlan::new(place.target, workload, mode.clone());
            plan.slo = slo.clone();
            plan.threads = args.threads;
            plan.max_connections = args
                .connections
                .map_or(USUAL_CONNECTIONS, |most| most as usize);
            plan.seed = args.seed;
            plan.first = first;
            plan.exact_starts = args.exact;
            restraint::check(args, &plan)?;
            extras::apply(args, &mut plan)?;
            Ok(Hop {
                name: place.name,
                plan,
                foreign: place.foreign,
            })
        })
        .collect()
}

/// Who decides when a request starts: the schedule wherever there is a rate, the server where there are only
/// connections.
fn mode(args: &LoadArgs) -> Result<Mode> {
    if args.connections == Some(0) {
        bail!("-c 0: without a connection nothing can be sent; use at least 1");
    }
    if let Some(text) = &args.like {
        return Ok(like::mode(like::parse("--like", text)?.load, args));
    }
    match (&args.schedule, &args.rate, args.connections) {
        (Some(text), _, _) => scheduled(args, text),
        (None, None, Some(workers)) => closed(args, workers),
        (None, rate, _) => {
            let rate_hz = rate
                .as_deref()
                .map_or(Ok(USUAL_RATE_HZ), |text| parse_rate("-q", text))?;
            let schedule = Schedule::constant(rate_hz, length(args, rate_hz)?);
            Ok(open(args, schedule))
        }
    }
}

/// A schedule of our own syntax, or a load profile of another tool.
fn scheduled(args: &LoadArgs, text: &str) -> Result<Mode> {
    match text.parse::<Schedule>() {
        Ok(schedule) => Ok(open(args, schedule)),
        Err(_) if like::is_foreign(text) => {
            Ok(like::mode(like::parse("--schedule", text)?.load, args))
        }
        Err(error) => bail!("--schedule: {error}"),
    }
}

fn open(args: &LoadArgs, schedule: Schedule) -> Mode {
    let usual = if args.requests.is_some() {
        // So many are asked for, and at random it would be that many only about.
        Interarrival::Even
    } else {
        Interarrival::Poisson
    };
    let arrivals = match args.arrivals.unwrap_or(usual) {
        Interarrival::Even => Arrivals::Even,
        Interarrival::Poisson => Arrivals::Poisson { seed: args.seed },
    };
    Mode::Open { schedule, arrivals }
}

fn closed(args: &LoadArgs, workers: u32) -> Result<Mode> {
    if args.arrivals.is_some() {
        bail!(
            "--arrivals: in a closed loop the answers decide when requests start; give a rate with -q"
        );
    }
    let usual = match args.requests {
        Some(_) => LONGEST_COUNT,
        None => USUAL_DURATION,
    };
    let duration = duration(args)?.unwrap_or(usual);
    Ok(Mode::Closed(ClosedLoop {
        requests: args.requests,
        ..ClosedLoop::new(workers, duration)
    }))
}

/// How long a constant rate holds.
fn length(args: &LoadArgs, rate_hz: f64) -> Result<Duration> {
    match (args.requests, duration(args)?) {
        (None, duration) => Ok(duration.unwrap_or(USUAL_DURATION)),
        (Some(n), Some(_)) => bail!("-n {n} and -z both say when to end; leave one out"),
        (Some(0), None) => bail!("-n 0: there is nothing to send; use at least 1"),
        (Some(n), None) => {
            // Up to the next nanosecond: rounded down, the last arrival would be missing.
            let nanos = (n as f64 / rate_hz * 1e9 - 1e-3).ceil();
            if nanos >= u64::MAX as f64 {
                bail!("-n {n} at {rate_hz}/s would never end");
            }
            Ok(Duration::from_nanos(nanos as u64))
        }
    }
}

fn duration(args: &LoadArgs) -> Result<Option<Duration>> {
    args.duration
        .as_deref()
        .map(|text| quantity("--duration (-z)", text))
        .transpose()
}

/// A duration that an argument gave, above zero.
fn quantity(flag: &str, text: &str) -> Result<Duration> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => bail!("{flag} {text}: write more than zero, such as 10s"),
        Ok(duration) => Ok(duration),
        Err(error) => bail!("{flag}: {error}"),
    }
}

fn slo(args: &LoadArgs) -> Result<Slo> {
    Ok(Slo {
        timeout: quantity(
            "--timeout",
            args.timeout.as_deref().unwrap_or(USUAL_TIMEOUT),
        )?,
        response_time: quantity("--good", &args.good)?,
        ..Slo::default()
    })
}

/// The request without its path.
fn template(args: &LoadArgs) -> Result<Request> {
    let mut request = Request::get("/");
    request.body = match body(&args.data)? {
        Some(text) => Some(text.into()),
        None => form::body(&args.form)?,
    };
    let usual = if request.body.is_some() {
        "POST"
    } else {
        "GET"
    };
    request.method = Method(args.method.clone().unwrap_or_else(|| usual.to_owned()));
    request.headers = args
        .header
        .iter()
        .map(|header| {
            let (name, value) = header
                .split_once(':')
                .with_context(|| format!("-H {header}: write \"Name: value\""))?;
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        })
        .collect::<Result<Vec<_>>>()?;
    request.expect = Expect {
        status: args.expect_status.clone(),
        body_contains: args.contains.clone(),
        body_lacks: args.lacks.clone(),
        ..Expect::default()
    };
    request.session = args.users.is_some();
    Ok(request)
}

/// The body: pieces joined by `&`, as curl joins them.
fn body(data: &[String]) -> Result<Option<String>> {
    let pieces =
        data.iter()
            .map(|piece| match piece.strip_prefix('@') {
                Some(file) => std::fs::read_to_string(file)
                    .with_context(|| format!("-d {piece}: cannot read it")),
                None => Ok(piece.clone()),
            })
            .collect::<Result<Vec<_>>>()?;
    Ok((!pieces.is_empty()).then(|| pieces.join("&")))
}

fn workload(
    args: &LoadArgs,
    template: &Request,
    place: &Place,
    feeders: &[Feeder],
) -> Result<Workload> {
    let paths = if args.path.is_empty() {
        vec![(1.0, place.path.as_str())]
    } else {
        args.path
            .iter()
            .map(|path| weighted(path))
            .collect::<Result<Vec<_>>>()?
    };
    let requests = paths.into_iter().map(|(weight, path)| Request {
        path: path.to_owned(),
        weight,
        ..template.clone()
    });
    if args.users == Some(0) {
        bail!("--users 0: somebody has to ask; use at least 1");
    }
    Ok(Workload {
        requests: requests.collect(),
        users: args.users.unwrap_or(1),
        sessions: None,
        feeders: feeders.to_vec(),
    })
}

/// The tables that requests take values from.
fn feeders(args: &LoadArgs) -> Result<Vec<Feeder>> {
    let read = |text: &String| {
        let (name, path) = text
            .split_once('=')
            .filter(|(name, _)| is_name(name))
            .with_context(|| {
                format!("--feed {text}: write a name and a CSV file, such as users=users.csv")
            })?;
        let bytes =
            std::fs::read(path).with_context(|| format!("--feed {text}: cannot read {path}"))?;
        let (columns, rows) = table::parse(&bytes).map_err(|all| {
            let all = all.iter();
            let all: Vec<String> = all
                .map(|wrong| format!("{}; expected {}", wrong.message, wrong.expected))
                .collect();
            anyhow::anyhow!("--feed {text}: {}", all.join("; "))
        })?;
        Ok(Feeder {
            name: name.to_owned(),
            columns,
            order: RowOrder::InTurn,
            rows: rows.into(),
        })
    };
    args.feed.iter().map(read).collect()
}

/// `/path`, or `8 /path` with a weight.
fn weighted(text: &str) -> Result<(f64, &str)> {
    match text.trim().split_once(' ') {
        None => Ok((1.0, text.trim())),
        Some((weight, path)) => {
            let weight = weight.parse().with_context(|| {
                format!("--path {text:?}: write a path, or a weight before it: \"8 /path\"")
            })?;
            Ok((weight, path.trim()))
        }
    }
}

/// The thresholds, as written beside as understood.
pub(super) fn thresholds(args: &LoadArgs) -> Result<Vec<(String, Threshold)>> {
    let read = |text: &String| match text.parse() {
        Ok(threshold) => Ok((text.clone(), threshold)),
        Err(error) => bail!("--threshold: {error}"),
    };
    args.threshold.iter().map(read).collect()
}

/// What the requests of a plan are called: `GET /`, `GET /b (weight 3)`.
pub(super) fn asked(plan: &LoadPlan) -> Vec<String> {
    let requests = &plan.workload.requests;
    let equal = requests
        .windows(2)
        .all(|two| two[0].weight == two[1].weight);
    requests
        .iter()
        .map(|request| {
            let mut name = format!("{} {}", request.method.0, request.path);
            if let Some(mbit) = request.client_mbit {
                name.push_str(&format!(" over {mbit} Mbit/s"));
            }
            if !equal {
                name.push_str(&format!(" (weight {})", request.weight));
            }
            name
        })
        .collect()
}

/// When the requests of a plan start, in words.
pub(super) fn described(plan: &LoadPlan) -> String {
    let connections = plan.max_connections;
    let mut text = match &plan.mode {
        Mode::Open { schedule, arrivals } => {
            let arrivals = match arrivals {
                Arrivals::Even => "evenly spaced arrivals",
                Arrivals::Poisson { .. } => "Poisson arrivals",
            };
            format!(
                "{schedule}, {arrivals}, at most {}",
                counted(connections, "connection")
            )
        }
        Mode::Closed(closed) => format!(
            "a closed loop of {} {}",
            counted(closed.workers as usize, "connection"),
            match closed.requests {
                Some(n) => format!("and {n} requests"),
                None => format!("for {} s", closed.duration.as_secs_f64()),
            }
        ),
    };
    if plan.workload.requests.iter().any(|request| request.session) {
        let users = counted(plan.workload.users as usize, "user");
        text.push_str(&format!(", {users} with cookies of their own"));
    }
    text.push_str(&extras::described(plan));
    if plan.threads > 1 {
        text.push_str(&format!(", {} threads", plan.threads));
    }
    text
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Args, Command};
    use clap::Parser as _;

    /// Reads a command line as the program does.
    fn read(line: &[&str]) -> Result<LoadArgs, String> {
        let all = ["kneepoint", "load"].iter().chain(line);
        let args = Args::try_parse_from(all).map_err(|error| error.to_string())?;
        let Command::Load(args) = args.command else {
            return Err("not load".into());
        };
        Ok(*args)
    }

    /// What would be sent, or what is wrong.
    fn planned(line: &[&str]) -> Result<LoadPlan, String> {
        let mut args = read(line)?;
        like::fill(&mut args).map_err(|error| format!("{error:#}"))?;
        let mut hops = hops(&args, None).map_err(|error| format!("{error:#}"))?;
        let plan = hops.remove(0).plan;
        plan.check().map_err(|error| error.to_string())?;
        Ok(plan)
    }

    /// The same in words.
    fn told(line: &[&str]) -> Result<String, String> {
        let plan = planned(line)?;
        Ok(format!("{}: {}", asked(&plan).join(", "), described(&plan)))
    }

    #[track_caller]
    fn check(line: &[&str], expected: &str) {
        let mut with_url = vec!["127.0.0.1:1/a"];
        with_url.extend(line);
        assert_eq!(told(&with_url).as_deref(), Ok(expected), "{line:?}");
    }

    #[track_caller]
    fn refused(line: &[&str], words: &str) {
        let mut with_url = vec!["127.0.0.1:1/a"];
        with_url.extend(line);
        let said = told(&with_url).expect_err("refused");
        assert!(said.contains(words), "{line:?}: {said}");
    }

    #[test]
    fn a_rate_makes_an_open_loop_and_connections_alone_a_closed_one() {
        let most = "at most 1000 connections";
        check(
            &[],
            &format!("GET /a: const(50,10s), Poisson arrivals, {most}"),
        );
        check(
            &["-z", "2m"],
            &format!("GET /a: const(50,120s), Poisson arrivals, {most}"),
        );
        check(
            &["-q", "3000/m", "-c", "9"],
            "GET /a: const(50,10s), Poisson arrivals, at most 9 connections",
        );
        check(
            &["-R2k"],
            &format!("GET /a: const(2000,10s), Poisson arrivals, {most}"),
        );
        check(
            &["-q", "50/2s", "-n", "100"],
            &format!("GET /a: const(25,4s), evenly spaced arrivals, {most}"),
        );
        check(
            &["-s", "line(1,5,2s)", "--arrivals", "even", "-t", "2"],
            &format!("GET /a: line(1,5,2s), evenly spaced arrivals, {most}, 2 threads"),
        );
        check(
            &["-c", "9"],
            "GET /a: a closed loop of 9 connections for 10 s",
        );
        check(
            &[
                "-c",
                "9",
                "-n",
                "70",
                "--think",
                "exp:300ms",
                "--ramp",
                "2s",
            ],
            "GET /a: a closed loop of 9 connections and 70 requests, started over 2 s, with pauses of 0.3 s on average",
        );
        check(
            &[
                "-c",
                "9",
                "--think",
                "1s",
                "--source",
                "127.0.0.2",
                "--autostop",
                "limit(1m)",
            ],
            "GET /a: a closed loop of 9 connections for 10 s, with pauses of 1 s, from 127.0.0.2",
        );
        check(
            &["--workers", "9", "-z", "500ms"],
            "GET /a: a closed loop of 9 connections for 0.5 s",
        );
    }

    #[test]
    fn what_other_tools_take_is_taken() {
        check(
            &["--like", "wrk -t2 -c10 -d3s http://127.0.0.1:2/other"],
            "GET /a: a closed loop of 10 connections for 3 s, 2 threads",
        );
        let even = "evenly spaced arrivals, at most";
        check(
            &["--like", "wrk2 -t1 -c10 -d3s -R20 http://127.0.0.1:2/"],
            &format!("GET /a: const(20,3s), {even} 10 connections"),
        );
        assert_eq!(
            told(&["--like", "ab -n 70 -c 7 http://127.0.0.1:2/z"]).as_deref(),
            Ok("GET /z: a closed loop of 7 connections and 70 requests")
        );
        check(
            &["-s", "[{\"duration\": \"2s\", \"target\": 10}]"],
            &format!("GET /a: line(0,10,2s), {even} 1000 connections"),
        );
        refused(&["--like", "curl http://127.0.0.1/"], "--like");
        refused(&["--like", "wrk -c10", "-q", "5"], "cannot be used with");
    }

    #[test]
    fn what_we_say_goes_before_what_another_tool_says() {
        let like = ["127.0.0.1:1/a", "--like", "ab -n 1 -s 30 127.0.0.1:2/"];
        let plan = |more: &[&'static str]| planned(&[&like[..], more].concat()).expect("a plan");
        let timeout = |more: &[&'static str]| plan(more).slo.timeout.as_secs();
        assert_eq!((timeout(&[]), timeout(&["--timeout", "5s"])), (30, 5));
        let closing = ["--like", "wrk 127.0.0.1:2/", "-H", "Connection: close"];
        let closing = planned(&closing).expect("a plan");
        assert!(closing.workload.requests[0].headers.is_empty());
        let close = planned(&["127.0.0.1:2/", "--close"]).expect("a plan");
        assert_eq!(closing.target, close.target);
    }

    #[test]
    fn what_a_schedule_of_another_tool_would_do_differently_is_told() {
        let notes = |schedule: &str| {
            let mut args = read(&["127.0.0.1:1", "-s", schedule]).expect("is read");
            like::fill(&mut args).expect("a schedule").join(" ")
        };
        let stages = "[{\"duration\": \"2s\", \"target\": 10}]";
        assert!(notes(stages).contains("numbers of virtual users"));
        assert_eq!(notes("const(1,1s)"), "");
    }

    #[test]
    fn so_many_requests_are_so_many_at_any_rate() {
        for (n, rate) in [
            (1, "3"),
            (1000, "3"),
            (1000, "700"),
            (999, "0.7"),
            (123_457, "9k"),
        ] {
            let args = read(&["-n", &n.to_string(), "-q", rate]).expect("is read");
            let Mode::Open { schedule, .. } = mode(&args).expect("a mode") else {
                panic!("not an open loop")
            };
            assert_eq!(schedule.total_arrivals(), n, "-n {n} -q {rate}");
        }
    }

    #[test]
    fn requests_are_asked_for_as_with_curl() {
        let end = ": a closed loop of 1 connection for 1 s";
        let base = ["-c1", "-z1s"];
        let with = |more: &[&'static str]| [&base[..], more].concat();
        check(&with(&["-d", "a=1", "-d", "b=2"]), &format!("POST /a{end}"));
        check(&with(&["-d", "{}", "-X", "PUT"]), &format!("PUT /a{end}"));
        check(
            &with(&["--path", "8 /x", "--path", "/y"]),
            &format!("GET /x (weight 8), GET /y (weight 1){end}"),
        );
        check(
            &with(&["--users", "7"]),
            &format!("GET /a{end}, 7 users with cookies of their own"),
        );
        assert_eq!(
            body(&["a=1".into(), "b=2".into()]).expect("joined"),
            Some("a=1&b=2".into())
        );
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_to_write() {
        refused(&["-c", "0"], "at least 1");
        refused(&["-q", "fast"], "such as 500");
        refused(&["-q", "0"], "above 0");
        refused(&["-q", "5/0s"], "above 0");
        refused(&["-z", "0"], "such as 10s");
        refused(&["-z", "soon"], "such as \"200ms\"");
        refused(&["-q", "5", "-n", "5", "-z", "1s"], "leave one out");
        refused(&["--think", "1s"], "-c 10");
        refused(&["--ramp", "1s"], "-c 10");
        refused(&["-c", "5", "--think", "soon"], "--think");
        refused(&["--source", "here"], "--source here");
        refused(&["--autostop", "http(9xx)"], "--autostop");
        refused(&["-c", "5", "--arrivals", "even"], "-q");
        refused(&["-q", "5", "-s", "const(1,1s)"], "cannot be used with");
        refused(&["-s", "cons(1,1s)"], "there is no `cons`");
        refused(&["-H", "nonsense"], "Name: value");
        refused(&["--path", "often /x"], "8 /path");
        refused(&["-d", "@/no/such/file"], "cannot read it");
        refused(&["--users", "0"], "at least 1");
        refused(&["--fastcgi", "unix:/x"], "--script");
        refused(&["--timeout", "0s"], "more than zero");
    }
}
