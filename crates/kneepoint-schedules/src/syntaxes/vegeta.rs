//! vegeta: `vegeta attack -rate 50/1s -duration 30s`, also behind `echo "GET http://127.0.0.1/" |`.
//!
//! The first request comes one interval after the start. A rate of 0 is as fast as `-max-workers` go: a closed loop.

use crate::flags::{Flag, Given, Role, Style, Tool, flag, switch, value, words};
use crate::values::{constant, count, go_duration, header, positive, rate_per, whole, workers};
use crate::{Imported, ImportedBody, ImportedLoad, Refusal, Syntax, is_command};
use kneepoint_model::{ClosedLoop, FirstArrival, Method, Schedule};
use std::time::Duration;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "vegeta",
    example: "vegeta attack -rate 50/1s -duration 30s",
    recognises: |text| {
        is_command(text, &["vegeta"])
            || is_command(text, &["echo"]) && text.split_whitespace().any(|word| word == "vegeta")
    },
    read,
};

const FLAGS: &[Flag] = &[
    value(&["rate"]),
    value(&["duration"]),
    value(&["timeout"]),
    value(&["max-workers"]),
    value(&["max-connections"]),
    value(&["header"]),
    value(&["body"]),
    switch(&["keepalive"]),
    flag(&["connections"], true, Role::Quiet),
    flag(&["workers"], true, Role::Quiet),
    flag(&["name"], true, Role::Quiet),
    flag(&["output"], true, Role::Quiet),
    flag(&["max-body"], true, Role::Quiet),
    flag(
        &["targets"],
        true,
        Role::Dropped("the file of targets is not read"),
    ),
    flag(
        &["format"],
        true,
        Role::Dropped("the file of targets is not read"),
    ),
    flag(
        &["lazy"],
        false,
        Role::Dropped("the file of targets is not read"),
    ),
    value(&["redirects"]),
    flag(
        &["http2"],
        false,
        Role::Dropped("the protocol is chosen here"),
    ),
    flag(
        &["h2c"],
        false,
        Role::Dropped("the protocol is chosen here"),
    ),
    flag(
        &["insecure"],
        false,
        Role::Dropped("whether certificates are checked is chosen here"),
    ),
    flag(
        &["laddr"],
        true,
        Role::Dropped("the source address is chosen here"),
    ),
    flag(
        &["unix-socket"],
        true,
        Role::Dropped("name the socket as the target"),
    ),
    flag(
        &["dns-ttl"],
        true,
        Role::Dropped("a name is looked up once"),
    ),
    flag(
        &["chunked"],
        false,
        Role::Dropped("a body is sent with its length"),
    ),
];

static TOOL: Tool = Tool {
    name: "vegeta",
    style: Style::Go,
    flags: FLAGS,
};

fn read(text: &str) -> Result<Imported, Refusal> {
    let words = words(text)?;
    let at = words
        .iter()
        .position(|word| word.rsplit('/').next() == Some("vegeta"));
    let at =
        at.ok_or_else(|| Refusal::new(text, "there is no vegeta in it; write vegeta attack"))?;
    let (before, after) = (&words[..at], &words[at + 1..]);
    let flags = match after.split_first() {
        Some((command, flags)) if command == "attack" => flags,
        _ => {
            return Err(Refusal::new(
                text,
                "only vegeta attack sends; write vegeta attack -rate 50/1s",
            ));
        }
    };
    // What vegeta writes goes on to its reports.
    let end = flags.iter().position(|word| word == "|" || word == ">");
    let given = TOOL.read(&flags[..end.unwrap_or(flags.len())])?;
    let mut read = load(&given)?;
    read.keep_alive = Some(given.last("keepalive") != Some("false"));
    let timeout = given
        .last("timeout")
        .map_or(Ok(Duration::from_secs(30)), go_duration)?;
    // A timeout of 0 is none in Go's client.
    read.timeout = (!timeout.is_zero()).then_some(timeout);
    read.headers = given.all("header").map(header).collect::<Result<_, _>>()?;
    read.body = given
        .last("body")
        .map(|file| ImportedBody::File(file.to_owned()));
    target(before, &mut read)?;
    read.notes.extend(given.notes.iter().cloned());
    let redirects = given.last("redirects").unwrap_or("10");
    // -1 is its word for none.
    if redirects != "-1" {
        read.note(format!(
            "vegeta follows up to {redirects} redirects; here a redirect is an answer and is not followed."
        ));
    }
    if let Some(stray) = given.arguments.first() {
        let instead = "vegeta reads its targets from its input; write echo \"GET URL\" | before it";
        return Err(Refusal::new(stray, instead));
    }
    Ok(read)
}

fn load(given: &Given) -> Result<Imported, Refusal> {
    let length = given.last("duration").unwrap_or("0");
    let duration = go_duration(length)?;
    if duration.is_zero() {
        return Err(Refusal::new(
            &format!("-duration {length}"),
            "vegeta would go on for ever; write for example -duration 30s",
        ));
    }
    let duration = positive(length, duration)?;
    let most = given
        .last("max-workers")
        .map(|n| count(n, &[]))
        .transpose()?;
    let connections = given.last("max-connections").filter(|n| *n != "0");
    let connections = connections.map(|n| count(n, &[])).transpose()?;
    let rate = given.last("rate").unwrap_or("50/1s");
    let mut read = match (hertz(rate)?, most) {
        (Some(hz), _) => {
            let schedule = Schedule {
                segments: vec![constant(hz, duration)],
            };
            let mut read = Imported::even(schedule, FirstArrival::AfterInterval);
            if most.is_some() {
                read.note(
                    "vegeta sends late without saying so when -max-workers are busy; here that wait is part of the \
                     response time.",
                );
            }
            read
        }
        (None, Some(most)) => Imported::new(ImportedLoad::Closed(ClosedLoop::new(
            workers(most),
            duration,
        ))),
        (None, None) => {
            return Err(Refusal::new(
                rate,
                "an unlimited rate wants -max-workers; write for example -max-workers 10",
            ));
        }
    };
    read.connections = connections.or(most);
    Ok(read)
}

/// Requests per second of `50/1s`, `50/m` or `50`; `None` when it is unlimited.
fn hertz(text: &str) -> Result<Option<f64>, Refusal> {
    if text == "infinity" {
        return Ok(None);
    }
    let (count, per) = text.split_once('/').unwrap_or((text, "1s"));
    if whole(count, &[])? == 0 {
        return Ok(None);
    }
    let one = per.starts_with(|c: char| c.is_ascii_digit());
    let per = if one {
        per.to_owned()
    } else {
        format!("1{per}")
    };
    let per = positive(text, go_duration(&per)?)?;
    rate_per(count, per).map(Some)
}

/// `echo "GET http://127.0.0.1/" |`.
fn target(before: &[String], read: &mut Imported) -> Result<(), Refusal> {
    let Some((_, said)) = before.split_first() else {
        return Ok(());
    };
    let said: Vec<&str> = said
        .iter()
        .flat_map(|word| word.split_whitespace())
        .filter(|word| *word != "|")
        .collect();
    match said.as_slice() {
        [method, url] => {
            read.method = Some(Method((*method).to_owned()));
            read.url = Some((*url).to_owned());
            Ok(())
        }
        _ => Err(Refusal::new(
            &said.join(" "),
            "one target is a method and a URL; write echo \"GET URL\" |",
        )),
    }
}
