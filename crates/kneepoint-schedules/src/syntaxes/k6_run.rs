//! k6's command line: `k6 run -u 10 -d 30s script.js` or `k6 run -s 10s:5,1m:20 script.js`, and the text of `--stage`
//! by itself: `10s:5,1m:20`.
//!
//! `-u` is a closed loop. Stages on the command line count virtual users in k6; here they are arrivals per second, as
//! in its ramping-arrival-rate executor, since users that wait for the server have no rate of their own.

use super::k6_stages::{Stage, ramping};
use crate::flags::{Flag, Role, Style, Tool, flag, value, words};
use crate::values::{count, go_duration, positive, rate, whole, workers};
use crate::{Imported, ImportedLoad, NO_TIME_LIMIT, Refusal, Syntax, is_command};
use kneepoint_model::ClosedLoop;
use std::time::Duration;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "k6 command line",
    example: "k6 run -s 30s:100,1m:100 script.js",
    recognises: |text| {
        let first = text.split(',').next().unwrap_or("");
        is_command(text, &["k6"]) || stage(first).is_ok()
    },
    read,
};

const FLAGS: &[Flag] = &[
    value(&["u", "vus"]),
    value(&["d", "duration"]),
    value(&["i", "iterations"]),
    value(&["s", "stage"]),
    flag(&["o", "out"], true, Role::Quiet),
    flag(&["q", "quiet"], false, Role::Quiet),
    flag(&["no-color"], false, Role::Quiet),
    flag(&["summary-export"], true, Role::Quiet),
    flag(&["summary-trend-stats"], true, Role::Quiet),
    flag(&["tag"], true, Role::Quiet),
    flag(&["e", "env"], true, Role::Dropped("the script is not run")),
    flag(&["rps"], true, Role::Dropped("write a schedule for a rate")),
];

static TOOL: Tool = Tool {
    name: "k6",
    style: Style::Getopt,
    flags: FLAGS,
};

/// What k6 sends is in a script that is not run.
const SCRIPT: &str = "k6 runs its script once per iteration, with whatever requests and pauses that has; here an iteration is one request.";

fn read(text: &str) -> Result<Imported, Refusal> {
    if !is_command(text, &["k6"]) {
        let mut read = by_stages(text.split(','))?;
        read.note(SCRIPT);
        return Ok(read);
    }
    let words = words(text)?;
    let flags = match words[1..].split_first() {
        Some((command, flags)) if command == "run" => flags,
        _ => {
            return Err(Refusal::new(
                text,
                "only k6 run sends; write k6 run -u 10 -d 30s script.js",
            ));
        }
    };
    let given = TOOL.read(flags)?;
    let mut read = if given.last("s").is_some() {
        by_stages(given.all("s").flat_map(|list| list.split(',')))?
    } else {
        let users = given.last("u").map_or(Ok(1), |n| count(n, &[]))?;
        let time = given.last("d").map(|d| positive(d, go_duration(d)?));
        let time = time.transpose()?;
        let requests = given.last("i").map(|n| whole(n, &[])).transpose()?;
        // Without either, k6 runs one iteration; iterations without a duration may take ten minutes.
        let (time, requests) = match (time, requests) {
            (None, None) => (NO_TIME_LIMIT, Some(1)),
            (None, Some(n)) => (Duration::from_secs(600), Some(n)),
            (Some(time), requests) => (time, requests),
        };
        let mut read = Imported::new(ImportedLoad::Closed(ClosedLoop {
            requests,
            ..ClosedLoop::new(workers(users), time)
        }));
        read.connections = Some(users);
        read
    };
    read.notes.extend(given.notes.iter().cloned());
    read.note(SCRIPT);
    Ok(read)
}

fn by_stages<'t>(texts: impl Iterator<Item = &'t str>) -> Result<Imported, Refusal> {
    let stages = texts.map(stage).collect::<Result<Vec<Stage>, _>>()?;
    let mut read = ramping(0.0, &stages);
    read.note(
        "k6 takes --stage for numbers of virtual users; here they are arrivals per second, as in its \
         ramping-arrival-rate.",
    );
    Ok(read)
}

/// `10s:5`.
fn stage(text: &str) -> Result<Stage, Refusal> {
    let (length, target) = text.trim().split_once(':').ok_or_else(|| {
        Refusal::new(
            text,
            "this is not a stage; write DURATION:TARGET such as 30s:100",
        )
    })?;
    Ok(Stage {
        duration: go_duration(length)?,
        target_hz: rate(target)?,
    })
}
