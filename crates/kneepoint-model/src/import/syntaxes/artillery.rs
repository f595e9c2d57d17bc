//! Artillery's phases, as YAML or JSON: `{duration: 60, arrivalRate: 5, rampTo: 50}`, with `arrivalCount` and `pause`.
//!
//! A ramp is stairs of one second each: second *i* of *d* has `arrivalRate + (rampTo - arrivalRate) * i / (d - 1)`
//! arrivals, rounded to whole ones. The first comes one interval after the start.

use crate::import::relaxed::{self, Value};
use crate::import::values::{constant, count, duration, rate, rate_per};
use crate::import::{Imported, Refusal, Syntax};
use crate::schedule::text::MOST_SEGMENTS;
use crate::units::SECOND_NS;
use crate::{FirstArrival, Schedule, Segment};
use std::time::Duration;

pub(in crate::import) static SYNTAX: Syntax = Syntax {
    name: "Artillery phases",
    example: "[{duration: 60, arrivalRate: 5, rampTo: 50}]",
    recognises: |text| {
        let begins = ["[", "{", "- ", "config:", "phases:"];
        begins.iter().any(|begin| text.starts_with(begin))
            && ["arrivalRate", "arrivalCount", "pause"]
                .iter()
                .any(|key| text.contains(key))
    },
    read,
};

const KEYS: &[&str] = &[
    "duration",
    "arrivalRate",
    "rampTo",
    "arrivalCount",
    "pause",
    "maxVusers",
    "name",
];

fn read(text: &str) -> Result<Imported, Refusal> {
    let value = if text.starts_with(['[', '{']) {
        relaxed::read(text)?
    } else {
        block(text)?
    };
    let listed = value.get("config").unwrap_or(&value);
    let listed = listed.get("phases").unwrap_or(listed);
    let phases = match listed {
        Value::List(phases) => phases.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut segments = Vec::new();
    let mut most = None;
    for phase in phases {
        segments.extend(segments_of(phase)?);
        if segments.len() > MOST_SEGMENTS {
            let instead = format!(
                "its ramps have more than {MOST_SEGMENTS} stairs of a second; write shorter ones"
            );
            return Err(Refusal::new(&phase.to_string(), instead));
        }
        if let Some(users) = phase.text("maxVusers") {
            most = most.max(Some(count(&users, &[])?));
        }
    }
    let mut read = Imported::even(Schedule { segments }, FirstArrival::AfterInterval);
    read.connections = most;
    read.note(
        "Artillery runs a scenario of requests and pauses for each arrival; here an arrival is one request, unless \
         visitors are described.",
    );
    if most.is_some() {
        read.note(
            "Artillery skips arrivals beyond maxVusers; here they wait, and their wait counts.",
        );
    }
    Ok(read)
}

fn segments_of(phase: &Value) -> Result<Vec<Segment>, Refusal> {
    let Value::Table(pairs) = phase else {
        return Err(no_phase(phase));
    };
    if let Some((key, _)) = pairs.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
        let instead = format!(
            "this key of a phase is not known; the keys are {}",
            KEYS.join(" ")
        );
        return Err(Refusal::new(key, instead));
    }
    let text = |key: &str| phase.text(key);
    if let Some(pause) = text("pause") {
        return Ok(vec![constant(0.0, span(&pause)?)]);
    }
    let length = span(&text("duration").ok_or_else(|| no_phase(phase))?)?;
    if let Some(number) = text("arrivalCount") {
        if length.is_zero() {
            return Err(no_phase(phase));
        }
        return Ok(vec![constant(rate_per(&number, length)?, length)]);
    }
    let from = rate(&text("arrivalRate").ok_or_else(|| no_phase(phase))?)?;
    match text("rampTo") {
        Some(to) => ramp(from, rate(&to)?, length, phase),
        None => Ok(vec![constant(from, length)]),
    }
}

fn ramp(from: f64, to: f64, length: Duration, phase: &Value) -> Result<Vec<Segment>, Refusal> {
    let seconds = length.as_secs();
    if length.subsec_nanos() != 0 || seconds == 0 || seconds > MOST_SEGMENTS as u64 {
        return Err(Refusal::new(
            &phase.to_string(),
            format!(
                "a ramp has one stair a second: its duration is whole seconds, at most {MOST_SEGMENTS}"
            ),
        ));
    }
    let second = Duration::from_secs(1);
    if seconds == 1 {
        return Ok(vec![constant(((from + to) / 2.0).floor(), second)]);
    }
    // Divided last, so that a half is exactly one and is rounded up.
    let steps = (seconds - 1) as f64;
    let rate_of = |i: u64| ((from * steps + (to - from) * i as f64) / steps).round();
    let mut stairs: Vec<Segment> = Vec::new();
    for rate_hz in (0..seconds).map(rate_of) {
        match stairs.last_mut() {
            // Neighbours that rounding has made alike are one stair.
            Some(last) if last.from_hz == rate_hz => last.duration += second,
            _ => stairs.push(constant(rate_hz, second)),
        }
    }
    Ok(stairs)
}

fn no_phase(value: &Value) -> Refusal {
    Refusal::new(
        &value.to_string(),
        "this is no phase; write {duration: 60, arrivalRate: 5}, with rampTo for a ramp, or {pause: 10}",
    )
}

/// A number of seconds, or a number with its unit.
fn span(text: &str) -> Result<Duration, Refusal> {
    const UNITS: &[(&str, u64)] = &[
        ("ms", 1_000_000),
        ("s", SECOND_NS),
        ("sec", SECOND_NS),
        ("m", 60 * SECOND_NS),
        ("min", 60 * SECOND_NS),
        ("h", 3600 * SECOND_NS),
        ("d", 86_400 * SECOND_NS),
    ];
    duration(text, UNITS, Some(SECOND_NS), "60, 90s or 2m")
}

/// The phases of a YAML file: a list whose items are `key: value` lines.
fn block(text: &str) -> Result<Value, Refusal> {
    let mut phases: Vec<Value> = Vec::new();
    for line in text.lines() {
        let line = line.split(" #").next().unwrap_or("").trim();
        let line = line.strip_prefix("phases:").map_or(line, str::trim);
        let about_else = line == "config:" || line.starts_with("target:");
        if line.is_empty() || line.starts_with('#') || about_else {
            continue;
        }
        if line == "scenarios:" {
            break;
        }
        let (begins, line) = match line.strip_prefix('-') {
            Some(rest) => (true, rest.trim()),
            None => (false, line),
        };
        if line.starts_with('{') {
            phases.push(relaxed::read(line)?);
            continue;
        }
        let pair = line.split_once(':').map(|(key, value)| {
            let value = value.trim().trim_matches(['"', '\'']);
            (key.trim().to_owned(), Value::Scalar(value.to_owned()))
        });
        match (pair, begins, phases.last_mut()) {
            (Some(pair), true, _) => phases.push(Value::Table(vec![pair])),
            (Some(pair), false, Some(Value::Table(pairs))) => pairs.push(pair),
            _ => {
                let instead = "this is no line of a list of phases; write - duration: 60";
                return Err(Refusal::new(line, instead));
            }
        }
    }
    Ok(Value::List(phases))
}
