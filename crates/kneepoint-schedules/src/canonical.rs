//! The one form in which every profile is printed, and which is read back to the same value.

use super::flags::words;
use super::values::{count, header, workers};
use super::{Imported, ImportedBody, ImportedLoad, NO_TIME_LIMIT, Refusal};
use kneepoint_model::schedule::FirstArrival;
use kneepoint_model::schedule::text::{parse_length, seconds};
use kneepoint_model::{Arrivals, ClosedLoop, Method, Schedule, ThinkTime};
use std::borrow::Cow;
use std::time::Duration;

const OPEN_KEYS: &str = "first arrivals";
const CLOSED_KEYS: &str = "workers ramp think duration requests loops";
const COMMON_KEYS: &str =
    "threads connections keep-alive timeout method header data data-file url note";

/// Prints a profile.
pub(super) fn print(profile: &Imported) -> String {
    let mut out = match &profile.load {
        ImportedLoad::Open {
            schedule,
            first,
            arrivals,
        } => {
            let first = match first {
                FirstArrival::AtStart => "start",
                FirstArrival::AfterInterval => "interval",
            };
            let arrivals = match arrivals {
                Arrivals::Even => "even".to_owned(),
                Arrivals::Poisson { seed } => format!("poisson({seed})"),
            };
            format!("open {schedule} first={first} arrivals={arrivals}")
        }
        ImportedLoad::Closed(closed) => print_closed(closed),
    };
    let mut word = |key: &str, value: String| {
        out.push_str(&format!(" {key}={}", quoted(&value)));
    };
    if let Some(threads) = profile.threads {
        word("threads", threads.to_string());
    }
    if let Some(connections) = profile.connections {
        word("connections", connections.to_string());
    }
    if let Some(keep) = profile.keep_alive {
        word("keep-alive", if keep { "yes" } else { "no" }.to_owned());
    }
    if let Some(timeout) = profile.timeout {
        word("timeout", span(timeout));
    }
    if let Some(method) = &profile.method {
        word("method", method.0.clone());
    }
    for (name, value) in &profile.headers {
        word("header", format!("{name}: {value}"));
    }
    match &profile.body {
        Some(ImportedBody::Text(text)) => word("data", text.clone()),
        Some(ImportedBody::File(path)) => word("data-file", path.clone()),
        None => {}
    }
    if let Some(url) = &profile.url {
        word("url", url.clone());
    }
    for note in &profile.notes {
        out.push_str(&format!("\nnote={}", quoted(note)));
    }
    out
}

fn print_closed(closed: &ClosedLoop) -> String {
    let think = match &closed.think_time {
        ThinkTime::None => "none".to_owned(),
        ThinkTime::Fixed(pause) => span(*pause),
        ThinkTime::Exponential { mean } => format!("exponential({})", span(*mean)),
        ThinkTime::Empirical { quantiles } => {
            let all: Vec<String> = quantiles.iter().map(|q| span(*q)).collect();
            format!("quantiles({})", all.join(","))
        }
    };
    let duration = if closed.duration >= NO_TIME_LIMIT {
        "unlimited".to_owned()
    } else {
        span(closed.duration)
    };
    let mut out = format!(
        "closed workers={} ramp={} think={think} duration={duration}",
        closed.workers,
        span(closed.ramp)
    );
    if let Some(requests) = closed.requests {
        out.push_str(&format!(" requests={requests}"));
    }
    if let Some(loops) = closed.loops {
        out.push_str(&format!(" loops={loops}"));
    }
    out
}

fn span(duration: Duration) -> String {
    format!("{}s", seconds(duration))
}

/// A value as a shell would take it.
fn quoted(value: &str) -> Cow<'_, str> {
    let quoter = shlex::Quoter::new().allow_nul(true);
    quoter.quote(value).unwrap_or(Cow::Borrowed(value))
}

/// Reads what [`print`] prints; keys may come in any order, and those left out have their defaults.
pub(super) fn read(text: &str) -> Result<Imported, Refusal> {
    let words = words(text)?;
    let (kind, words) = (words[0].as_str(), &words[1..]);
    let pieces: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .take_while(|word| !is_pair(word))
        .collect();
    let pairs: Vec<(&str, &str)> = words[pieces.len()..]
        .iter()
        .map(|word| {
            let pair = word.split_once('=').filter(|_| is_pair(word));
            pair.ok_or_else(|| {
                Refusal::new(word, "this is not key=value; write for example threads=2")
            })
        })
        .collect::<Result<_, _>>()?;
    let mut profile = match kind {
        "open" => open(&pieces)?,
        _ if pieces.is_empty() => {
            Imported::new(ImportedLoad::Closed(ClosedLoop::new(1, NO_TIME_LIMIT)))
        }
        _ => {
            return Err(Refusal::new(
                pieces[0],
                "a closed loop has no schedule; write closed workers=10 duration=30s",
            ));
        }
    };
    for (key, value) in pairs {
        set(&mut profile, key, value)?;
    }
    Ok(profile)
}

/// Whether a word is `key=value`: a schedule's pieces have no letters and then an equals sign.
fn is_pair(word: &str) -> bool {
    let key = word.split_once('=').map(|(key, _)| key);
    key.is_some_and(|key| {
        !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'-')
    })
}

fn open(pieces: &[&str]) -> Result<Imported, Refusal> {
    let schedule: Schedule =
        pieces
            .join(" ")
            .parse()
            .map_err(|error: kneepoint_model::schedule::ScheduleError| {
                Refusal::new(&error.piece, error.problem)
            })?;
    Ok(Imported::even(schedule, FirstArrival::AtStart))
}

fn set(profile: &mut Imported, key: &str, value: &str) -> Result<(), Refusal> {
    match key {
        "threads" => profile.threads = Some(count(value, &[])?),
        "connections" => profile.connections = Some(count(value, &[])?),
        "keep-alive" => {
            profile.keep_alive = Some(match value {
                "yes" => true,
                "no" => false,
                _ => return Err(Refusal::new(value, "keep-alive is yes or no")),
            });
        }
        "timeout" => profile.timeout = Some(length(value)?),
        "method" => profile.method = Some(Method(value.to_owned())),
        "header" => profile.headers.push(header(value)?),
        "data" => profile.body = Some(ImportedBody::Text(value.to_owned())),
        "data-file" => profile.body = Some(ImportedBody::File(value.to_owned())),
        "url" => profile.url = Some(value.to_owned()),
        "note" => profile.note(value),
        _ => return set_load(&mut profile.load, key, value),
    }
    Ok(())
}

fn set_load(load: &mut ImportedLoad, key: &str, value: &str) -> Result<(), Refusal> {
    match (load, key) {
        (ImportedLoad::Open { first, .. }, "first") => {
            *first = match value {
                "start" => FirstArrival::AtStart,
                "interval" => FirstArrival::AfterInterval,
                _ => return Err(Refusal::new(value, "first is start or interval")),
            };
        }
        (ImportedLoad::Open { arrivals, .. }, "arrivals") => {
            let seed = value
                .strip_prefix("poisson(")
                .and_then(|rest| rest.strip_suffix(')')?.parse().ok());
            *arrivals = match (value, seed) {
                ("even", _) => Arrivals::Even,
                (_, Some(seed)) => Arrivals::Poisson { seed },
                _ => {
                    let instead = "arrivals is even or poisson(SEED), such as poisson(1)";
                    return Err(Refusal::new(value, instead));
                }
            };
        }
        (ImportedLoad::Closed(closed), _) => return set_closed(closed, key, value),
        (ImportedLoad::Open { .. }, _) => return Err(unknown(key, OPEN_KEYS)),
    }
    Ok(())
}

fn set_closed(closed: &mut ClosedLoop, key: &str, value: &str) -> Result<(), Refusal> {
    let whole = || super::values::whole(value, &[]);
    match key {
        "workers" => closed.workers = workers(count(value, &[])?),
        "ramp" => closed.ramp = length(value)?,
        "think" => closed.think_time = think(value)?,
        "duration" if value == "unlimited" => closed.duration = NO_TIME_LIMIT,
        "duration" => closed.duration = length(value)?,
        "requests" => closed.requests = Some(whole()?),
        "loops" => closed.loops = Some(whole()?),
        _ => return Err(unknown(key, CLOSED_KEYS)),
    }
    Ok(())
}

fn think(value: &str) -> Result<ThinkTime, Refusal> {
    let inside = |name: &str| {
        value
            .strip_prefix(name)?
            .strip_prefix('(')?
            .strip_suffix(')')
    };
    if value == "none" {
        Ok(ThinkTime::None)
    } else if let Some(mean) = inside("exponential") {
        Ok(ThinkTime::Exponential {
            mean: length(mean)?,
        })
    } else if let Some(all) = inside("quantiles") {
        let quantiles: Vec<Duration> = all.split(',').map(length).collect::<Result<_, _>>()?;
        if quantiles.len() < 2 || !quantiles.is_sorted() {
            let instead = "quantiles are at least two, ascending, such as quantiles(0s,2s)";
            return Err(Refusal::new(value, instead));
        }
        Ok(ThinkTime::Empirical { quantiles })
    } else {
        length(value).map(ThinkTime::Fixed)
    }
}

fn length(value: &str) -> Result<Duration, Refusal> {
    parse_length(value).map_err(|problem| Refusal::new(value, problem))
}

fn unknown(key: &str, own: &str) -> Refusal {
    Refusal::new(
        key,
        format!("there is no such key here; the keys are {own} {COMMON_KEYS}"),
    )
}
