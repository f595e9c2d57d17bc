//! Refuses closed loops, sessions and source addresses that cannot be, by name and with what to do.

use crate::plan::error::LoadError;
use kneepoint_model::{Address, ClosedLoop, Sessions, ThinkTime, Workload};
use std::net::IpAddr;

fn wrong(problem: String) -> Result<(), LoadError> {
    Err(LoadError::Plan { problem })
}

/// Refuses a closed loop in which nothing happens.
pub(crate) fn check_closed_loop(closed: &ClosedLoop) -> Result<(), LoadError> {
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
    let ThinkTime::Empirical { quantiles } = think_time else {
        return Ok(());
    };
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
