//! Load schedules: the offered rate over time, in closed form.
//!
//! A schedule is a concatenation of segments; arrival *k* of an even schedule starts where the integral of
//! the rate reaches *k* (load-engine.md, sections 3 and 4).

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How arrivals are spread within the schedule's rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Evenly spaced: arrival *k* where the integral of the rate reaches *k*.
    Even,
    /// A Poisson process with this seed: exponential gaps in integrated rate. The default, since evenly
    /// spaced load overstates the limit by 6 to 7 % (method.md, section 6).
    Poisson {
        /// The seed; equal seeds give equal arrival times.
        seed: u64,
    },
}

/// A piece of a schedule: the rate goes linearly from `from_hz` to `to_hz` over `duration`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// Offered rate at the start, per second.
    pub from_hz: f64,
    /// Offered rate at the end, per second.
    pub to_hz: f64,
    /// How long the piece takes.
    pub duration: Duration,
}

/// The offered rate over time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Schedule {
    /// The pieces, one after the other.
    pub segments: Vec<Segment>,
}

impl Schedule {
    /// A constant rate.
    #[must_use]
    pub fn constant(rate_hz: f64, duration: Duration) -> Self {
        Self {
            segments: vec![Segment {
                from_hz: rate_hz,
                to_hz: rate_hz,
                duration,
            }],
        }
    }
}
