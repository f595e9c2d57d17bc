//! What is written down of a load, and what the generator says of itself.

mod counts;
mod examples;
mod health;
mod mailbox;
mod recorder;
mod slowest;
mod tally;

pub(crate) use counts::Gauges;
pub(crate) use examples::Examples;
pub(crate) use health::{CpuMeter, MachineTime};
pub(crate) use mailbox::Mailbox;
pub(crate) use recorder::{Limits, Recorder};
pub(crate) use tally::{Completed, Finished, Tally};
