//! JMeter's thread groups: `jmeter threads=10 ramp=5 loops=3`, the properties `-Jthreads=10 -Jramp=5` of its command
//! line, or the `ThreadGroup` of a test plan.
//!
//! A closed loop. Thread *i* of *N* starts at *i* times the ramp divided by *N*, and does its loops; `-1` or `forever`
//! loops until the duration is over.

use crate::flags::words;
use crate::values::{count, duration, whole, workers};
use crate::{Imported, ImportedLoad, NO_TIME_LIMIT, Refusal, Syntax, is_command};
use kneepoint_model::units::SECOND_NS;
use kneepoint_model::{ClosedLoop, ThinkTime};
use std::time::Duration;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "JMeter threads",
    example: "jmeter threads=10 ramp=5 loops=3",
    recognises: |text| {
        is_command(text, &["jmeter", "jmeter.sh"]) || text.starts_with('<') && text.contains(PLAN)
    },
    read,
};

/// What the properties of a thread group are called in a test plan.
const PLAN: &str = "ThreadGroup.num_threads";

/// The names under which a value may stand.
const THREADS: &[&str] = &["threads", "users", "num_threads", PLAN];
const RAMP: &[&str] = &["ramp", "rampup", "ramp_time", "ThreadGroup.ramp_time"];
const LOOPS: &[&str] = &["loops", "LoopController.loops"];
const DURATION: &[&str] = &["duration", "ThreadGroup.duration"];

fn read(text: &str) -> Result<Imported, Refusal> {
    let is_plan = text.starts_with('<');
    let pairs = if is_plan { plan(text)? } else { command(text)? };
    let find = |names: &[&str]| {
        let mut found = pairs
            .iter()
            .filter(|(key, _)| names.contains(&key.as_str()));
        found
            .next_back()
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    };
    let threads = find(THREADS).ok_or_else(|| {
        Refusal::new(
            text,
            "the number of threads is missing; write for example jmeter threads=10 ramp=5 loops=3",
        )
    })?;
    let threads = count(threads, &[])?;
    // A duration counts in a test plan only when its scheduler is on.
    let off = is_plan && find(&["ThreadGroup.scheduler"]) != Some("true");
    let time = find(DURATION).filter(|_| !off).map(span).transpose()?;
    let loops = match find(LOOPS) {
        Some("-1" | "forever") => None,
        Some(number) => Some(whole(number, &[])?),
        None if time.is_some() => None,
        None => Some(1),
    };
    if loops.is_none() && time.is_none() {
        return Err(Refusal::new(
            text,
            "it would never end; write duration=60, or loops=3",
        ));
    }
    let mut read = Imported::new(ImportedLoad::Closed(ClosedLoop {
        workers: workers(threads),
        ramp: find(RAMP).map_or(Ok(Duration::ZERO), span)?,
        think_time: ThinkTime::None,
        duration: time.unwrap_or(NO_TIME_LIMIT),
        requests: None,
        loops,
    }));
    read.connections = Some(threads);
    read.note("JMeter runs all samplers of the plan in a loop; here a loop is one request.");
    if time.is_some() {
        read.note(
            "JMeter looks at its duration between samplers only; here no request starts after it, and those on their \
             way are waited for.",
        );
    }
    Ok(read)
}

/// `key=value` words, with `-J` before them or not, and `key value` in two words.
fn command(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let words = words(text)?;
    let mut pairs = Vec::new();
    let mut words = words[1..].iter().map(String::as_str);
    while let Some(word) = words.next() {
        let named = word.strip_prefix("-J").unwrap_or(word);
        if let Some((key, value)) = named.split_once('=') {
            pairs.push((key.to_owned(), value.to_owned()));
            continue;
        }
        match named {
            "-n" | "-e" | "-f" => {}
            "-t" | "-l" | "-o" | "-j" | "-q" | "-p" => {
                words.next();
            }
            key if [THREADS, RAMP, LOOPS, DURATION]
                .iter()
                .any(|names| names.contains(&key)) =>
            {
                let value = words.next().ok_or_else(|| {
                    Refusal::new(
                        key,
                        format!("a value is missing; write for example {key}=10"),
                    )
                })?;
                pairs.push((key.to_owned(), value.to_owned()));
            }
            _ => {
                return Err(Refusal::new(
                    word,
                    "this says nothing about threads; write for example jmeter threads=10 ramp=5 loops=3 duration=60",
                ));
            }
        }
    }
    Ok(pairs)
}

/// The `<stringProp name="KEY">VALUE</stringProp>` of the thread group of a test plan. Controllers behind it have loops of
/// their own.
fn plan(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let mut groups = text.split("<ThreadGroup").skip(1);
    let Some(group) = groups.next() else {
        return Err(Refusal::new(
            text,
            "there is no thread group; write it from <ThreadGroup> to </ThreadGroup>",
        ));
    };
    if groups.next().is_some() {
        return Err(Refusal::new(
            "<ThreadGroup",
            "only one thread group can be read at a time; write the one that is meant",
        ));
    }
    let group = group.split("</ThreadGroup>").next().unwrap_or(group);
    let properties = group.split("Prop name=\"").skip(1);
    let pairs = properties.filter_map(|property| {
        let (key, rest) = property.split_once('"')?;
        let value = rest.strip_prefix('>')?.split('<').next()?;
        Some((key.to_owned(), value.trim().to_owned()))
    });
    Ok(pairs.collect())
}

/// Seconds, or a number with its unit.
fn span(text: &str) -> Result<Duration, Refusal> {
    const UNITS: &[(&str, u64)] = &[
        ("s", SECOND_NS),
        ("sec", SECOND_NS),
        ("m", 60 * SECOND_NS),
        ("min", 60 * SECOND_NS),
        ("h", 3600 * SECOND_NS),
    ];
    duration(text, UNITS, Some(SECOND_NS), "5, 30s or 2m")
}
