//! Refuses closed loops, sessions and source addresses that cannot be, by name and with what to do.

use crate::plan::error::LoadError;
use crate::plan::target::Target;
use kneepoint_model::schedule::text::LONGEST;
use kneepoint_model::{Address, ClosedLoop, Schedule, Sessions, Slo, ThinkTime, Workload};
use std::net::IpAddr;
use std::time::Duration;

/// Most users and workers: each is memory that is taken before the load begins.
const MOST: u64 = 1_000_000;
/// Most connections. How many there can be, the system's limit of open files says.
const MOST_CONNECTIONS: usize = u32::MAX as usize;
/// Most slowest requests that are named.
const MOST_SLOWEST: u64 = 100_000;
/// Most pieces of a schedule.
const MOST_PIECES: usize = 100_000;
/// Highest rate per second, far beyond what a machine sends.
const HIGHEST_HZ: f64 = 1e8;

fn wrong(problem: String) -> Result<(), LoadError> {
    Err(LoadError::Plan { problem })
}

/// Refuses a number that is beyond what anybody means.
pub(crate) fn check_count(what: &str, count: u64) -> Result<(), LoadError> {
    if count <= MOST {
        return Ok(());
    }
    wrong(format!("{count} {what}; {MOST} are the most"))
}

/// Refuses more connections than any address has.
pub(crate) fn check_connections(count: usize) -> Result<(), LoadError> {
    if count <= MOST_CONNECTIONS {
        return Ok(());
    }
    wrong(format!(
        "{count} connections; {MOST_CONNECTIONS} are the most"
    ))
}

/// Refuses more names than a result should hold.
pub(crate) fn check_slowest(count: usize) -> Result<(), LoadError> {
    if count as u64 <= MOST_SLOWEST {
        return Ok(());
    }
    wrong(format!(
        "the {count} slowest requests are to be named; {MOST_SLOWEST} are the most"
    ))
}

/// Refuses a time that clocks do not reach: one beyond the longest that a schedule may have.
pub(crate) fn check_time(what: &str, time: Duration) -> Result<(), LoadError> {
    if time <= LONGEST {
        return Ok(());
    }
    wrong(format!(
        "{what} of {} s; a year is the most",
        time.as_secs()
    ))
}

/// Refuses slow lines that carry nothing, and those that nobody plays.
pub(crate) fn check_lines(workload: &Workload, target: &Target) -> Result<(), LoadError> {
    let requests = workload.requests.iter();
    for mbit in requests.filter_map(|request| request.client_mbit) {
        if !(mbit.is_finite() && mbit > 0.0) {
            return wrong(format!(
                "client_mbit of {mbit:e}; use one above 0, for example 1.6"
            ));
        }
        if !target.has_lines() {
            return wrong(
                "client_mbit is for HTTP/1.1 over TCP; leave it out for HTTP/2, FastCGI and Unix sockets"
                    .into(),
            );
        }
    }
    Ok(())
}

/// Refuses goals that no response could miss or meet.
pub(crate) fn check_slo(slo: &Slo) -> Result<(), LoadError> {
    if slo.timeout.is_zero() {
        return wrong("a timeout of zero; set slo.timeout, for example \"2s\"".into());
    }
    check_time("a timeout", slo.timeout)?;
    check_time("a good response time", slo.response_time)?;
    if !(slo.quantile > 0.0 && slo.quantile <= 1.0) {
        return wrong(format!(
            "a quantile of {:e}; use one above 0 and at most 1, for example 0.95",
            slo.quantile
        ));
    }
    if !(0.0..=1.0).contains(&slo.errors) {
        return wrong(format!(
            "a share of errors of {:e}; use one from 0 to 1, for example 0.001",
            slo.errors
        ));
    }
    Ok(())
}

/// Refuses a schedule that offers nothing anybody could send.
pub(crate) fn check_schedule(schedule: &Schedule) -> Result<(), LoadError> {
    let pieces = schedule.segments.len();
    if pieces == 0 {
        return wrong("a schedule of no piece; give it one, for example const(50,10s)".into());
    }
    if pieces > MOST_PIECES {
        return wrong(format!(
            "a schedule of {pieces} pieces; {MOST_PIECES} are the most"
        ));
    }
    let sane = |rate: f64| (0.0..=HIGHEST_HZ).contains(&rate);
    for piece in &schedule.segments {
        check_time("a piece of the schedule", piece.duration)?;
        if !sane(piece.from_hz) || !sane(piece.to_hz) {
            return wrong(format!(
                "a rate from {:e} to {:e} per second; rates are finite, not negative, and {HIGHEST_HZ:e} at most",
                piece.from_hz, piece.to_hz
            ));
        }
    }
    Ok(())
}

/// Refuses a closed loop in which nothing happens.
pub(crate) fn check_closed_loop(closed: &ClosedLoop) -> Result<(), LoadError> {
    check_count("workers in a closed loop", closed.workers.into())?;
    check_time("a closed loop", closed.duration)?;
    check_time("a ramp", closed.ramp)?;
    if closed.workers == 0 {
        return wrong("a closed loop of 0 workers; use at least 1".into());
    }
    if closed.duration.is_zero() {
        return wrong("a closed loop of no duration; give it time, for example \"10s\"".into());
    }
    if closed.requests == Some(0) {
        return wrong("a closed loop of 0 requests; ask for at least 1, or set no bound".into());
    }
    if closed.loops == Some(0) {
        return wrong("workers of 0 loops; ask for at least 1, or set no bound".into());
    }
    check_think_time("the workers' think time", &closed.think_time)
}

fn check_think_time(whose: &str, think_time: &ThinkTime) -> Result<(), LoadError> {
    let quantiles = match think_time {
        ThinkTime::None => return Ok(()),
        ThinkTime::Fixed(time) | ThinkTime::Exponential { mean: time } => {
            return check_time(whose, *time);
        }
        ThinkTime::Empirical { quantiles } => quantiles,
    };
    quantiles
        .iter()
        .try_for_each(|time| check_time(whose, *time))?;
    if quantiles.len() < 2 {
        return wrong(format!(
            "{whose} has {} quantiles; give at least the least and the greatest",
            quantiles.len()
        ));
    }
    match quantiles.windows(2).find(|pair| pair[0] > pair[1]) {
        None => Ok(()),
        Some(pair) => wrong(format!(
            "{whose} has a quantile of {:?} after one of {:?}; give them ascending",
            pair[1], pair[0]
        )),
    }
}

/// Refuses sessions that nobody could run.
pub(crate) fn check_sessions(workload: &Workload) -> Result<(), LoadError> {
    let Some(sessions) = &workload.sessions else {
        return Ok(());
    };
    check_think_time("the visitors' think time", &sessions.think_time)?;
    if sessions.scripts.is_empty() {
        return check_lengths(sessions);
    }
    for script in &sessions.scripts {
        let known = workload.requests.len();
        if script.requests.is_empty() {
            return wrong(format!(
                "the script {:?} has no requests; name at least one",
                script.name
            ));
        }
        if let Some(index) = script.requests.iter().find(|index| **index >= known) {
            return wrong(format!(
                "the script {:?} asks for request {index} and there are {known}, counted from 0",
                script.name
            ));
        }
    }
    check_weights("the scripts", sessions.scripts.iter().map(|s| s.weight))
}

fn check_lengths(sessions: &Sessions) -> Result<(), LoadError> {
    if sessions.lengths.is_empty() {
        return wrong(
            "sessions without scripts and without lengths; say how many requests a visit has"
                .into(),
        );
    }
    if sessions.lengths.iter().any(|(length, _)| *length == 0) {
        return wrong("a visit of 0 requests; a visit has at least 1".into());
    }
    check_weights(
        "the lengths of visits",
        sessions.lengths.iter().map(|(_, weight)| *weight),
    )
}

fn check_weights(
    whose: &str,
    mut weights: impl Iterator<Item = f64> + Clone,
) -> Result<(), LoadError> {
    let sum: f64 = weights.clone().sum();
    if weights.all(|w| w.is_finite() && w >= 0.0) && sum.is_finite() && sum > 0.0 {
        return Ok(());
    }
    wrong(format!(
        "the weights of {whose} must be numbers of at least 0, not all 0"
    ))
}

/// Refuses addresses that connections to the target cannot come from.
pub(crate) fn check_sources(sources: &[IpAddr], target: &Address) -> Result<(), LoadError> {
    match target {
        Address::Unix(path) if !sources.is_empty() => wrong(format!(
            "source addresses for the Unix socket `{}`, which has none; leave them out or load over TCP",
            path.display()
        )),
        Address::Unix(_) => Ok(()),
        Address::Tcp(address) => {
            let other = |source: &&IpAddr| source.is_ipv4() != address.is_ipv4();
            match sources.iter().find(other) {
                None => Ok(()),
                Some(source) => wrong(format!(
                    "connections to {address} cannot come from {source}; use addresses of the target's family"
                )),
            }
        }
    }
}
