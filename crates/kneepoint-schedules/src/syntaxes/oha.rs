//! oha: `oha -n 1000 -c 50 -z 10s -q 200 http://127.0.0.1/`.
//!
//! A closed loop of `-c` workers for `-n` requests, or for the time of `-z`, which counts instead of `-n`. With `-q`
//! an open loop at that rate for all workers together, the first request at the start.

use crate::flags::{Flag, Given, Role, Style, Tool, flag, switch, value, words};
use crate::values::{count, duration, header, positive, rate, whole, workers};
use crate::{Imported, ImportedBody, ImportedLoad, NO_TIME_LIMIT, Refusal, Syntax, is_command};
use kneepoint_model::units::{GO_UNITS, SECOND_NS};
use kneepoint_model::{ClosedLoop, FirstArrival, Method, Schedule};
use std::time::Duration;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "oha",
    example: "oha -z 10s -c 50 -q 200 http://127.0.0.1/",
    recognises: |text| is_command(text, &["oha"]),
    read,
};

const FLAGS: &[Flag] = &[
    value(&["n"]),
    value(&["c"]),
    value(&["z"]),
    value(&["q"]),
    value(&["t", "timeout"]),
    value(&["H"]),
    value(&["m", "method"]),
    value(&["d"]),
    value(&["D"]),
    value(&["T"]),
    switch(&["disable-keepalive"]),
    switch(&["w", "wait-ongoing-requests-after-deadline"]),
    flag(&["latency-correction"], false, Role::Quiet),
    flag(&["no-tui"], false, Role::Quiet),
    flag(&["no-color"], false, Role::Quiet),
    flag(&["j", "json"], false, Role::Quiet),
    flag(&["fps"], true, Role::Quiet),
    flag(&["o", "output"], true, Role::Quiet),
    flag(&["output-format"], true, Role::Quiet),
    flag(&["p"], true, Role::Dropped("the protocol is chosen here")),
    flag(
        &["http-version"],
        true,
        Role::Dropped("the protocol is chosen here"),
    ),
    flag(
        &["http2"],
        false,
        Role::Dropped("the protocol is chosen here"),
    ),
    flag(
        &["insecure"],
        false,
        Role::Dropped("whether certificates are checked is chosen here"),
    ),
    value(&["r", "redirect"]),
    switch(&["disable-compression"]),
];

static TOOL: Tool = Tool {
    name: "oha",
    style: Style::Getopt,
    flags: FLAGS,
};

const SUFFIXES: &[(char, u64)] = &[('k', 1_000), ('m', 1_000_000)];

/// What it accepts unless compression is off.
const ENCODINGS: &str = "gzip, compress, deflate, br";

fn read(text: &str) -> Result<Imported, Refusal> {
    let words = words(text)?;
    let given = TOOL.read(&words[1..])?;
    let connections = given.last("c").map_or(Ok(50), |c| count(c, SUFFIXES))?;
    let mut read = load(&given, connections)?;
    read.connections = Some(connections);
    read.keep_alive = Some(!given.is_on("disable-keepalive"));
    read.timeout = given.last("t").map(span).transpose()?;
    read.url = given.url()?;
    read.headers = given.all("H").map(header).collect::<Result<_, _>>()?;
    if let Some(kind) = given.last("T") {
        read.headers
            .push(("Content-Type".into(), kind.trim().to_owned()));
    }
    let mut names = read.headers.iter().map(|(name, _)| name);
    if !given.is_on("disable-compression")
        && !names.any(|name| name.eq_ignore_ascii_case("accept-encoding"))
    {
        read.headers
            .push(("Accept-Encoding".into(), ENCODINGS.into()));
    }
    read.body = match (given.last("d"), given.last("D")) {
        (Some(text), _) => Some(ImportedBody::Text(text.to_owned())),
        (None, Some(file)) => Some(ImportedBody::File(file.to_owned())),
        (None, None) => None,
    };
    // A body does not make it a POST.
    let usual = read.body.is_some().then_some("GET");
    let method = given.last("m").or(usual);
    read.method = method.map(|method| Method(method.to_owned()));
    read.notes.extend(given.notes.iter().cloned());
    let redirects = given.last("r").unwrap_or("10");
    if redirects != "0" {
        read.note(format!(
            "oha follows up to {redirects} redirects; here a redirect is an answer and is not followed."
        ));
    }
    read.note("oha leaves requests that timed out out of its percentiles; here they count.");
    if given.last("z").is_some() && !given.is_on("w") {
        read.note(
            "oha drops what is on its way when the time is up; here it is waited for and counts.",
        );
    }
    Ok(read)
}

fn load(given: &Given, connections: usize) -> Result<Imported, Refusal> {
    let time = given.last("z").map(span).transpose()?;
    let requests = given.last("n").map_or(Ok(200), |n| whole(n, SUFFIXES))?;
    if time.is_none() && requests == 0 {
        return Err(Refusal::new(
            "-n 0",
            "no request would be sent; write at least 1",
        ));
    }
    let Some(per_second) = given.last("q") else {
        return Ok(Imported::new(ImportedLoad::Closed(ClosedLoop {
            requests: time.is_none().then_some(requests),
            ..ClosedLoop::new(workers(connections), time.unwrap_or(NO_TIME_LIMIT))
        })));
    };
    let hz = rate(per_second)?;
    if hz == 0.0 {
        return Err(Refusal::new(
            per_second,
            "nothing would be sent; write a rate above 0",
        ));
    }
    let length = match time {
        Some(time) => time,
        None => time_for(requests, hz).ok_or_else(|| {
            Refusal::new(per_second, "that takes over a year; write a higher rate")
        })?,
    };
    let mut read = Imported::even(Schedule::constant(hz, length), FirstArrival::AtStart);
    read.note(
        "oha counts a response time from when a worker takes the request up; here it counts from when the schedule \
         wanted it sent.",
    );
    Ok(read)
}

/// The time that so many requests take, long enough that rounding does not lose the last.
fn time_for(requests: u64, hz: f64) -> Option<Duration> {
    let time = Duration::try_from_secs_f64(requests as f64 / hz).ok()?;
    let short = Schedule::constant(hz, time).total_arrivals() < requests;
    time.checked_add(Duration::from_nanos(u64::from(short)))
}

fn span(text: &str) -> Result<Duration, Refusal> {
    positive(
        text,
        duration(text, GO_UNITS, Some(SECOND_NS), "10s, 3m or 2h30m")?,
    )
}
