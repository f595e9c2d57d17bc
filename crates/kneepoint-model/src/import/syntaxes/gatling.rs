//! Gatling's injection steps: `rampUsersPerSec(1).to(50).during(2.minutes), constantUsersPerSec(50).during(600)`.
//!
//! The first user comes at the start. `incrementUsersPerSec(x).times(n).eachLevelLasting(d)` has *n* levels from
//! `startingFrom` (0 without it) upwards in steps of *x*, with `separatedByRampsLasting` between them; with ramps and
//! without `startingFrom` the first ramp leads from 0 to *x*.

use crate::import::values::{
    constant, count, duration, line, positive, rate, rate_per, whole, workers,
};
use crate::import::{Imported, Profile, Refusal, Syntax};
use crate::pieces::{Piece, pieces};
use crate::schedule::text::MOST_SEGMENTS;
use crate::units::SECOND_NS;
use crate::{Arrivals, ClosedLoop, FirstArrival, Schedule, Segment};
use std::time::Duration;

pub(in crate::import) static SYNTAX: Syntax = Syntax {
    name: "Gatling injection",
    example: "rampUsersPerSec(1).to(50).during(120), constantUsersPerSec(50).during(600)",
    recognises: |text| {
        let name = text.split('(').next().unwrap_or("").trim();
        let known = [
            "constantUsersPerSec",
            "rampUsersPerSec",
            "incrementUsersPerSec",
            "nothingFor",
        ];
        known.contains(&name) || name.ends_with("Users")
    },
    read,
};

const STEPS: &str = "write constantUsersPerSec(50).during(600), rampUsersPerSec(1).to(50).during(120), \
     incrementUsersPerSec(5).times(4).eachLevelLasting(30), rampUsers(100).during(60), nothingFor(10) or, alone, \
     constantConcurrentUsers(10).during(60)";

fn read(text: &str) -> Result<Imported, Refusal> {
    // A switch without parentheses is made a piece like the others.
    let text = text
        .replace(".randomized()", ".randomized")
        .replace(".randomized", ".randomized()");
    let pieces =
        pieces(&text).map_err(|piece| Refusal::new(&piece, format!("this is no step; {STEPS}")))?;
    let mut segments = Vec::new();
    let (mut randomized, mut even) = (false, false);
    let mut rest = pieces.as_slice();
    while let Some((step, after)) = rest.split_first() {
        let chained = after
            .iter()
            .take_while(|piece| piece.name.starts_with('.'))
            .count();
        let (mut chain, after) = after.split_at(chained);
        rest = after;
        let random = chain
            .last()
            .is_some_and(|piece| piece.name == ".randomized");
        if random {
            chain = &chain[..chain.len() - 1];
        }
        if step.name == "constantConcurrentUsers" && pieces.len() == 2 {
            return closed(step, chain);
        }
        segments.extend(step_segments(step, chain)?);
        randomized |= random;
        even |= !random && step.name != "nothingFor";
    }
    if randomized && even {
        return Err(Refusal::new(
            ".randomized",
            "arrivals are random in all steps or in none; write .randomized after each of them, or after none",
        ));
    }
    if segments.len() > MOST_SEGMENTS {
        return Err(Refusal::new(
            &text,
            format!("it has more than {MOST_SEGMENTS} levels; write fewer"),
        ));
    }
    let schedule = Schedule { segments };
    let mut read = if randomized {
        Imported::new(Profile::Open {
            schedule,
            first: FirstArrival::AtStart,
            arrivals: Arrivals::Poisson { seed: 1 },
        })
    } else {
        Imported::even(schedule, FirstArrival::AtStart)
    };
    read.note(
        "Gatling starts users who run a scenario; here an arrival is one request, unless visitors are described.",
    );
    read.note("Gatling rounds each step to whole users; here the integral of the rate runs on from step to step.");
    Ok(read)
}

/// The values of a step's calls, by their names in order.
fn values<'t>(step: &Piece<'t>, chain: &[Piece<'t>], names: &[&str]) -> Option<Vec<&'t str>> {
    let called: Vec<&str> = chain
        .iter()
        .map(|piece| piece.name.trim_start_matches('.'))
        .collect();
    let mut values = vec![step.inside];
    values.extend(chain.iter().map(|piece| piece.inside));
    (called == names).then_some(values)
}

fn step_segments(step: &Piece<'_>, chain: &[Piece<'_>]) -> Result<Vec<Segment>, Refusal> {
    let given = |names: &[&str]| values(step, chain, names);
    match step.name {
        "nothingFor" => match given(&[]).as_deref() {
            Some([length]) => Ok(vec![constant(0.0, span(length)?)]),
            _ => Err(no_step(step)),
        },
        "constantUsersPerSec" => match given(&["during"]).as_deref() {
            Some([hz, length]) => Ok(vec![constant(rate(hz)?, span(length)?)]),
            _ => Err(no_step(step)),
        },
        "rampUsersPerSec" => match given(&["to", "during"]).as_deref() {
            Some([from, to, length]) => Ok(vec![line(rate(from)?, rate(to)?, span(length)?)]),
            _ => Err(no_step(step)),
        },
        "rampUsers" => match given(&["during"]).as_deref() {
            Some([users, length]) => {
                let length = positive(length, span(length)?)?;
                Ok(vec![constant(rate_per(users, length)?, length)])
            }
            _ => Err(no_step(step)),
        },
        "incrementUsersPerSec" => levels(step, chain),
        _ => Err(no_step(step)),
    }
}

fn no_step(step: &Piece<'_>) -> Refusal {
    Refusal::new(
        step.whole,
        format!("this step is not known in this form; {STEPS}"),
    )
}

fn levels(step: &Piece<'_>, chain: &[Piece<'_>]) -> Result<Vec<Segment>, Refusal> {
    let (mut times, mut level, mut ramp, mut start) = (None, None, Duration::ZERO, 0.0);
    for piece in chain {
        match piece.name {
            ".times" => times = Some(whole(piece.inside, &[])?),
            ".eachLevelLasting" => level = Some(span(piece.inside)?),
            ".separatedByRampsLasting" => ramp = span(piece.inside)?,
            ".startingFrom" => start = rate(piece.inside)?,
            _ => return Err(no_step(piece)),
        }
    }
    let (Some(times), Some(level)) = (times, level) else {
        return Err(no_step(step));
    };
    if times == 0 || times > MOST_SEGMENTS as u64 {
        let instead = format!("levels are between 1 and {MOST_SEGMENTS}");
        return Err(Refusal::new(step.whole, instead));
    }
    let increment = rate(step.inside)?;
    let from_nothing = start == 0.0 && !ramp.is_zero();
    let mut segments = Vec::new();
    let mut before = start;
    for i in 0..times {
        let own = start + increment * (i + u64::from(from_nothing)) as f64;
        rate(&own.to_string())?;
        if !ramp.is_zero() && (i > 0 || from_nothing) {
            segments.push(line(before, own, ramp));
        }
        segments.push(constant(own, level));
        before = own;
    }
    Ok(segments)
}

fn closed(step: &Piece<'_>, chain: &[Piece<'_>]) -> Result<Imported, Refusal> {
    let given = values(step, chain, &["during"]);
    let Some([users, length]) = given.as_deref() else {
        return Err(no_step(step));
    };
    let users = count(users, &[])?;
    let length = positive(length, span(length)?)?;
    let mut read = Imported::new(Profile::Closed(ClosedLoop::new(workers(users), length)));
    read.connections = Some(users);
    Ok(read)
}

/// `10`, `10.seconds`, `10 seconds`, `Duration.ofSeconds(10)`.
fn span(text: &str) -> Result<Duration, Refusal> {
    const UNITS: &[(&str, u64)] = &[
        ("millis", 1_000_000),
        ("milliseconds", 1_000_000),
        ("second", SECOND_NS),
        ("seconds", SECOND_NS),
        ("minute", 60 * SECOND_NS),
        ("minutes", 60 * SECOND_NS),
        ("hour", 3600 * SECOND_NS),
        ("hours", 3600 * SECOND_NS),
    ];
    let plain = match text
        .strip_prefix("Duration.of")
        .and_then(|java| java.strip_suffix(')'))
    {
        Some(java) => java.split_once('(').map_or_else(
            || text.to_owned(),
            |(unit, number)| format!("{number} {}", unit.to_lowercase()),
        ),
        // The dot of `10.seconds` is no decimal point.
        None => match text.find(|c: char| c.is_ascii_alphabetic()) {
            Some(at) => format!(
                "{} {}",
                text[..at].trim_end_matches(['.', ' ']),
                &text[at..]
            ),
            None => text.to_owned(),
        },
    };
    let read = duration(
        &plain,
        UNITS,
        Some(SECOND_NS),
        "10, 10.seconds or 2.minutes",
    );
    read.map_err(|refusal| Refusal::new(text, refusal.problem))
}
