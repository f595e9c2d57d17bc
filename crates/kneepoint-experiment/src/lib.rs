//! Plans and runs trials: finds the limit, compares two configurations, diagnoses, tunes.
//!
//! This crate alone decides what is measured next. The planners ([`limit::LimitSearch`], [`ab::AbTest`])
//! are state machines without IO, tested against a simulated stack ([`simulated`]); the rest drives the instruments
//! of layer 1 (lab, stack, load, telemetry) and writes every result down before the next step starts.
//!
//! It must never print, parse a program's configuration, or send a request itself.

pub mod ab;
pub mod bench;
pub mod canary;
pub mod compare;
pub mod contest;
pub mod diagnose;
pub mod error;
pub mod gate;
pub mod inside;
pub mod limit;
pub mod plan;
mod random;
pub mod recorder;
pub mod replay;
pub mod simulated;
pub mod store;
pub mod testbed;
pub mod tune;

pub use error::ExperimentError;
pub use recorder::{Event, Observer, Recorder};
pub use store::{Record, RunStore};
pub use testbed::Testbed;
pub use testbed::machine::machine;
