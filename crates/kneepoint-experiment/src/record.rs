//! What a run writes down, step by step, and the time it may take.

mod budget;
mod flight;
mod recorder;
mod store;

/// What the record calls the configuration that a run begins with.
pub const BASE: &str = "base";
/// What it calls the one that tuning ends with.
pub const BEST: &str = "best";

pub use budget::{ENDING, TimeNeed};
pub use flight::Flight;
pub use recorder::{Event, Observer, Recorder};
pub use store::{Record, RunStore};
