//! k6's scenarios as JSON, or as the JavaScript they stand in: `[{"duration":"30s","target":100}]`, or an object with
//! `executor`, `stages`, `startRate`, `timeUnit`, `rate`, `vus`.
//!
//! A stage goes evenly from the target before it (`startRate`, 0 without it) to its own, per `timeUnit`. The first
//! request comes where the integral of the rate is 1. A stage of no duration is a jump. `constant-arrival-rate`
//! begins at once.

use crate::relaxed::{self, Value};
use crate::values::{constant, count, go_duration, line, positive, rate, rate_per, whole, workers};
use crate::{Imported, ImportedLoad, Refusal, Syntax};
use kneepoint_model::{ClosedLoop, FirstArrival, Schedule};
use std::time::Duration;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "k6 scenario",
    example: r#"[{"duration":"30s","target":100}]"#,
    recognises: |text| text.starts_with(['[', '{']) || text.starts_with("export "),
    read,
};

/// A stage: a ramp from the rate before it.
pub(super) struct Stage {
    pub(super) duration: Duration,
    pub(super) target_hz: f64,
}

/// The load of k6's ramping-arrival-rate.
pub(super) fn ramping(start_hz: f64, stages: &[Stage]) -> Imported {
    let mut from = start_hz;
    let mut segments = Vec::new();
    for stage in stages {
        if !stage.duration.is_zero() {
            segments.push(line(from, stage.target_hz, stage.duration));
        }
        from = stage.target_hz;
    }
    Imported::even(Schedule { segments }, FirstArrival::AfterInterval)
}

/// Stages without an executor are those of ramping-vus.
const OF_USERS: &str = "k6 takes stages without an executor for numbers of virtual users; here \
     they are arrivals per second, as in its ramping-arrival-rate.";

/// Keys that stages of virtual users do not have.
const OF_ARRIVALS: [&str; 5] = [
    "executor",
    "startRate",
    "timeUnit",
    "preAllocatedVUs",
    "maxVUs",
];

const KEYS: &[&str] = &[
    "executor",
    "stages",
    "startRate",
    "timeUnit",
    "rate",
    "duration",
    "vus",
    "iterations",
    "preAllocatedVUs",
    "maxVUs",
    "maxDuration",
];

/// Keys that say nothing about when requests start, or that everything here does anyway.
const QUIET: &[&str] = &[
    "exec",
    "env",
    "tags",
    "gracefulStop",
    "gracefulRampDown",
    "thresholds",
    "startTime",
];

fn read(text: &str) -> Result<Imported, Refusal> {
    let text = text.trim_end_matches(';');
    let json = match text.strip_prefix("export ") {
        Some(script) => script.split_once('=').map_or("", |(_, value)| value),
        None => text,
    };
    let value = relaxed::read(json.trim())?;
    let mut read = match &value {
        Value::List(_) => {
            let mut read = ramping(0.0, &stages(&value, Duration::from_secs(1))?);
            read.note(OF_USERS);
            read
        }
        Value::Table(_) => scenario(one_scenario(&value)?)?,
        _ => return Err(wanted(text)),
    };
    read.note(
        "k6 drops an iteration when no virtual user is free; here it waits, and its wait counts.",
    );
    Ok(read)
}

fn wanted(text: &str) -> Refusal {
    Refusal::new(
        text,
        "this is no list of stages and no scenario; write [{\"duration\":\"30s\",\"target\":100}]",
    )
}

/// The scenario inside of `{ scenarios: { name: {...} } }`, or the object itself.
fn one_scenario(value: &Value) -> Result<&Value, Refusal> {
    match value.get("scenarios") {
        None => Ok(value),
        Some(Value::Table(all)) if all.len() == 1 => Ok(&all[0].1),
        Some(other) => Err(Refusal::new(
            &other.to_string(),
            "only one scenario can be read at a time; write the one that is meant",
        )),
    }
}

fn scenario(table: &Value) -> Result<Imported, Refusal> {
    let Value::Table(pairs) = table else {
        return Err(wanted(&table.to_string()));
    };
    let known = |key: &str| KEYS.contains(&key) || QUIET.contains(&key);
    if let Some((key, _)) = pairs.iter().find(|(key, _)| !known(key)) {
        let instead = format!(
            "this key of a scenario is not known; the keys are {}",
            KEYS.join(" ")
        );
        return Err(Refusal::new(key, instead));
    }
    let unit = table
        .text("timeUnit")
        .map(|unit| positive(&unit, go_duration(&unit)?));
    let unit = unit.transpose()?.unwrap_or(Duration::from_secs(1));
    let has = |key: &str| table.get(key).is_some();
    let executor = table.text("executor").unwrap_or_else(|| {
        let guess = match () {
            () if has("stages") => "ramping-arrival-rate",
            () if has("rate") => "constant-arrival-rate",
            () if has("iterations") => "shared-iterations",
            () => "constant-vus",
        };
        guess.to_owned()
    });
    match executor.as_str() {
        "ramping-arrival-rate" => {
            let start = table.text("startRate").map(|text| rate_per(&text, unit));
            let listed = table.get("stages").ok_or_else(|| missing("stages"))?;
            let mut read = ramping(start.transpose()?.unwrap_or(0.0), &stages(listed, unit)?);
            read.connections = most_users(table)?;
            if !OF_ARRIVALS.into_iter().any(has) {
                read.note(OF_USERS);
            }
            Ok(read)
        }
        "constant-arrival-rate" => {
            let text = table.text("rate").ok_or_else(|| missing("rate"))?;
            let segments = vec![constant(rate_per(&text, unit)?, length(table)?)];
            let mut read = Imported::even(Schedule { segments }, FirstArrival::AtStart);
            read.connections = most_users(table)?;
            Ok(read)
        }
        "constant-vus" | "shared-iterations" | "per-vu-iterations" => closed(&executor, table),
        _ => Err(Refusal::new(
            &executor,
            "this executor has no rate and no fixed number of users; write ramping-arrival-rate, \
             constant-arrival-rate, constant-vus, shared-iterations or per-vu-iterations",
        )),
    }
}

fn missing(key: &str) -> Refusal {
    Refusal::new(
        key,
        "this key is missing; the executor cannot do without it",
    )
}

fn length(table: &Value) -> Result<Duration, Refusal> {
    let text = table.text("duration").ok_or_else(|| missing("duration"))?;
    positive(&text, go_duration(&text)?)
}

fn most_users(table: &Value) -> Result<Option<usize>, Refusal> {
    let text = table
        .text("maxVUs")
        .or_else(|| table.text("preAllocatedVUs"));
    text.map(|text| count(&text, &[])).transpose()
}

fn closed(executor: &str, table: &Value) -> Result<Imported, Refusal> {
    let users = table.text("vus").map_or(Ok(1), |text| count(&text, &[]))?;
    let number = table
        .text("iterations")
        .map_or(Ok(1), |text| whole(&text, &[]))?;
    // Ten minutes, unless it is written.
    let most = table
        .text("maxDuration")
        .map(|text| positive(&text, go_duration(&text)?));
    let most = most.transpose()?.unwrap_or(Duration::from_secs(600));
    let mut closed = ClosedLoop::new(workers(users), most);
    match executor {
        "shared-iterations" => closed.requests = Some(number),
        "per-vu-iterations" => closed.loops = Some(number),
        _ => closed.duration = length(table)?,
    }
    let mut read = Imported::new(ImportedLoad::Closed(closed));
    read.connections = Some(users);
    Ok(read)
}

fn stages(value: &Value, unit: Duration) -> Result<Vec<Stage>, Refusal> {
    let Value::List(all) = value else {
        return Err(wanted(&value.to_string()));
    };
    all.iter()
        .map(|one| {
            let text = |key| {
                one.text(key).ok_or_else(|| {
                    let instead =
                        format!("a stage has a duration and a target, and here {key} is missing");
                    Refusal::new(&one.to_string(), instead)
                })
            };
            let target = text("target")?;
            rate(&target)?;
            Ok(Stage {
                duration: go_duration(&text("duration")?)?,
                target_hz: rate_per(&target, unit)?,
            })
        })
        .collect()
}
