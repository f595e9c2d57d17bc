//! What is written down of a load, and what the generator says of itself.

mod examples;
mod health;
mod recorder;
mod slowest;
mod tally;

pub(crate) use examples::Examples;
pub(crate) use health::CpuMeter;
pub(crate) use recorder::{Gauges, Limits, Mailbox, Recorder};
pub(crate) use tally::{Completed, Finished, Tally};
