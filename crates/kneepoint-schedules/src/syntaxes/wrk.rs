//! wrk and wrk2: `wrk -t2 -c10 -d10s http://127.0.0.1/`, with `-R1000` for wrk2's constant rate.
//!
//! Connections are shared out evenly among the threads and the rest of the division is dropped, so there are
//! *t* times the whole part of *c/t* of them. wrk is a closed loop of that many workers; wrk2 an open loop whose rate
//! is that of all threads together. zrk's `-R100:500` is a rate that rises evenly.

use crate::flags::{Flag, Role, Style, Tool, flag, value, words};
use crate::values::{constant, count, duration, header, line, positive, rate_per, whole, workers};
use crate::{Imported, ImportedLoad, Refusal, Syntax, is_command};
use kneepoint_model::units::SECOND_NS;
use kneepoint_model::{ClosedLoop, FirstArrival, Schedule};
use std::time::Duration;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "wrk",
    example: "wrk -t2 -c10 -d10s http://127.0.0.1/",
    recognises: |text| is_command(text, &["wrk", "wrk2", "zrk"]),
    read,
};

const FLAGS: &[Flag] = &[
    value(&["t", "threads"]),
    value(&["c", "connections"]),
    value(&["d", "duration"]),
    value(&["R", "rate"]),
    value(&["T", "timeout"]),
    value(&["H", "header"]),
    flag(
        &["s", "script"],
        true,
        Role::Dropped("the Lua script is not run"),
    ),
    flag(&["L", "latency"], false, Role::Quiet),
    flag(&["U", "u_latency"], false, Role::Quiet),
    flag(&["B", "batch_latency"], false, Role::Quiet),
    flag(&["v", "version"], false, Role::Quiet),
];

static TOOL: Tool = Tool {
    name: "wrk",
    style: Style::Getopt,
    flags: FLAGS,
};

const SUFFIXES: &[(char, u64)] = &[
    ('k', 1_000),
    ('K', 1_000),
    ('M', 1_000_000),
    ('G', 1_000_000_000),
];

fn read(text: &str) -> Result<Imported, Refusal> {
    let words = words(text)?;
    let given = TOOL.read(&words[1..])?;
    let threads = given.last("t").map_or(Ok(2), |t| count(t, SUFFIXES))?;
    let asked = given.last("c").map_or(Ok(10), |c| count(c, SUFFIXES))?;
    if asked < threads {
        return Err(Refusal::new(
            given.last("c").unwrap_or("10"),
            format!(
                "fewer connections than the {threads} threads; write a -c of at least {threads}"
            ),
        ));
    }
    let connections = threads * (asked / threads);
    let length = given.last("d").map_or(Ok(Duration::from_secs(10)), span)?;
    let mut read = match given.last("R") {
        Some(rate) => open(rate, length)?,
        None if words[0].ends_with("wrk2") => {
            return Err(Refusal::new(
                text,
                "wrk2 wants a rate; write for example -R1000",
            ));
        }
        None => closed(connections, length),
    };
    read.threads = Some(threads);
    read.connections = Some(connections);
    read.keep_alive = Some(true);
    read.timeout = Some(given.last("T").map_or(Ok(Duration::from_secs(2)), span)?);
    read.headers = given.all("H").map(header).collect::<Result<_, _>>()?;
    read.url = given.url()?;
    read.notes.extend(given.notes.iter().cloned());
    if connections != asked {
        read.note(format!(
            "wrk shares {asked} connections out to {threads} threads evenly and drops the rest: {connections}."
        ));
    }
    read.note("wrk never ends a request at its timeout, it only counts the late response; here the request ends.");
    Ok(read)
}

fn closed(connections: usize, length: Duration) -> Imported {
    let mut read = Imported::new(ImportedLoad::Closed(ClosedLoop::new(
        workers(connections),
        length,
    )));
    read.note(
        "wrk puts the times of error responses among those of good ones; here they are apart.",
    );
    read
}

/// wrk2's rate, or zrk's two rates with a colon between them.
fn open(rate: &str, length: Duration) -> Result<Imported, Refusal> {
    let one = |text: &str| {
        let number = whole(text, SUFFIXES)?;
        rate_per(&number.to_string(), Duration::from_secs(1))
    };
    let segment = match rate.split_once(':') {
        Some((from, to)) => line(one(from)?, one(to)?, length),
        None => constant(one(rate)?, length),
    };
    let schedule = Schedule {
        segments: vec![segment],
    };
    let mut read = Imported::even(schedule, FirstArrival::AtStart);
    read.note(
        "wrk2 gives each connection its own share of the schedule, so a slow response makes its connection send in \
         bursts; here any free connection takes the next request.",
    );
    Ok(read)
}

/// A whole number of seconds, minutes or hours.
fn span(text: &str) -> Result<Duration, Refusal> {
    const UNITS: &[(&str, u64)] = &[
        ("s", SECOND_NS),
        ("m", 60 * SECOND_NS),
        ("h", 3600 * SECOND_NS),
    ];
    let examples = "10, 30s, 2m or 1h (wrk knows whole numbers only)";
    let fraction = text.contains('.') || text.contains(char::is_whitespace);
    let units = if fraction { &[] } else { UNITS };
    let bare = (!fraction).then_some(SECOND_NS);
    positive(text, duration(text, units, bare, examples)?)
}
