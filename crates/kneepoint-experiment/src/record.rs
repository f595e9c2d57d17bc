//! What a run writes down, step by step, and the time it may take.

mod budget;
mod recorder;
mod store;

pub use budget::{ENDING, TimeNeed};
pub use recorder::{Event, Observer, Recorder};
pub use store::{Record, RunStore};
