//! The schedule of JMeter's Open Model Thread Group: `rate(1/sec) random_arrivals(2 min) rate(3/sec) pause(2 sec)`.
//!
//! Between two rates the rate goes evenly; where the second is missing it stays. A pause sends nothing, and the rate
//! before it goes on after it. Two rates one after the other are a jump.

use crate::values::{constant, duration, line, positive, rate_per};
use crate::{Imported, ImportedLoad, Refusal, Syntax};
use kneepoint_model::pieces::{TextPiece, pieces};
use kneepoint_model::units::SECOND_NS;
use kneepoint_model::{Arrivals, FirstArrival, Schedule, Segment};
use std::time::Duration;

pub(crate) static SYNTAX: Syntax = Syntax {
    name: "JMeter open model",
    example: "rate(1/sec) random_arrivals(2 min) rate(3/sec)",
    recognises: |text| {
        let begins = |name: &str| {
            let rest = text.strip_prefix(name).map(str::trim_start);
            rest.is_some_and(|rest| rest.starts_with('('))
        };
        let names = ["rate", "random_arrivals", "even_arrivals", "pause"];
        text.starts_with("//") || text.starts_with("/*") || names.into_iter().any(begins)
    },
    read,
};

const UNITS: &[(&str, u64)] = &[
    ("ms", 1_000_000),
    ("s", SECOND_NS),
    ("sec", SECOND_NS),
    ("second", SECOND_NS),
    ("seconds", SECOND_NS),
    ("m", 60 * SECOND_NS),
    ("min", 60 * SECOND_NS),
    ("minute", 60 * SECOND_NS),
    ("minutes", 60 * SECOND_NS),
    ("h", 3600 * SECOND_NS),
    ("hour", 3600 * SECOND_NS),
    ("hours", 3600 * SECOND_NS),
    ("d", 86_400 * SECOND_NS),
    ("day", 86_400 * SECOND_NS),
    ("days", 86_400 * SECOND_NS),
];

fn read(text: &str) -> Result<Imported, Refusal> {
    let plain = without_comments(text);
    let pieces = pieces(&plain).map_err(|piece| {
        Refusal::new(
            &piece,
            "this is no step; write rate(1/sec), random_arrivals(2 min) or pause(2 sec)",
        )
    })?;
    let mut segments: Vec<Segment> = Vec::new();
    let mut now = None;
    let (mut random, mut even) = (false, false);
    for (index, piece) in pieces.iter().enumerate() {
        match piece.name {
            "rate" => now = Some(hertz(piece)?),
            "pause" => segments.push(constant(0.0, span(piece.inside)?)),
            "random_arrivals" | "even_arrivals" => {
                let from = now.ok_or_else(|| {
                    Refusal::new(
                        piece.whole,
                        "no rate stands before it; begin with rate(0/sec) or another",
                    )
                })?;
                let next = pieces.get(index + 1).filter(|next| next.name == "rate");
                let to = next.map_or(Ok(from), hertz)?;
                segments.push(line(from, to, span(piece.inside)?));
                random |= piece.name == "random_arrivals";
                even |= piece.name == "even_arrivals";
            }
            _ => {
                return Err(Refusal::new(
                    piece.whole,
                    "there is no such step; write rate(1/sec), random_arrivals(2 min) or pause(2 sec)",
                ));
            }
        }
    }
    if random && even {
        let instead = "arrivals are random everywhere or even everywhere; write one of the two";
        return Err(Refusal::new("even_arrivals", instead));
    }
    Ok(imported(Schedule { segments }, even))
}

fn imported(schedule: Schedule, even: bool) -> Imported {
    let mut read = Imported::new(ImportedLoad::Open {
        schedule,
        first: FirstArrival::AtStart,
        arrivals: if even {
            Arrivals::Even
        } else {
            Arrivals::Poisson { seed: 1 }
        },
    });
    if even {
        read.note("JMeter knows the word even_arrivals and sends random ones all the same; here they are even.");
    } else {
        read.note(
            "JMeter draws exactly as many random arrivals as the rate makes; here their number is random too, as in a \
             Poisson process.",
        );
    }
    read.note("JMeter stops its threads at the end of the schedule; here requests on their way are waited for.");
    read
}

/// `1/sec`, `50 per min`, `0`.
fn hertz(piece: &TextPiece<'_>) -> Result<f64, Refusal> {
    let wrong = || {
        Refusal::new(
            piece.whole,
            "this is no rate; write for example rate(50/sec) or rate(10/min)",
        )
    };
    let inside = piece.inside;
    let (number, unit) = match inside
        .split_once('/')
        .or_else(|| inside.split_once(" per "))
    {
        Some((number, unit)) => (number.trim(), unit.trim()),
        None if inside == "0" => (inside, "sec"),
        None => return Err(wrong()),
    };
    let unit = UNITS
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(wrong)?
        .1;
    rate_per(number, Duration::from_nanos(unit))
}

/// `2 min`, `1h 30m`, `0`.
fn span(text: &str) -> Result<Duration, Refusal> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    positive(
        text,
        duration(text, UNITS, None, "2 min, 10 sec or 1h 30m")?,
    )
}

/// The text with its comments made blanks.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let (before, comment) = rest.split_at(at);
        plain.push_str(before);
        let end = match comment.get(..2) {
            Some("//") => comment.find('\n').unwrap_or(comment.len()),
            Some("/*") => comment.find("*/").map_or(comment.len(), |end| end + 2),
            _ => {
                plain.push('/');
                1
            }
        };
        if end > 1 {
            plain.push(' ');
        }
        rest = &comment[end..];
    }
    plain + rest
}
