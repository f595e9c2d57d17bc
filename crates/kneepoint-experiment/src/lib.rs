//! Runs what the planner asks for: finds the limit, compares, diagnoses, tunes, plans, replays.
//!
//! This crate alone stands configurations up and has them measured ([`testbed`]), in the order that a run needs
//! ([`sequences`]), and writes every result down before the next step starts ([`record`]). What comes next, and what it means,
//! the planner says (`kneepoint_planner`).
//!
//! It must never print, parse a program's configuration, or send a request itself.

pub mod error;
pub mod record;
pub mod sequences;
pub mod testbed;
pub mod worker_insight;

pub use error::ExperimentError;
pub use record::{Event, Flight, Observer, Record, Recorder, RunStore};
pub use testbed::Testbed;
pub use testbed::machine::machine;
