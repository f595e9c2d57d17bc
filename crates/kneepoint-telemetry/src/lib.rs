//! Samples every layer of a running stack.
//!
//! This crate alone follows the processes, control groups, sockets, status pages, statistics and logs of
//! the tiers of a stack, and it alone knows their wordings and formats. What leaves it is the model's
//! vocabulary: series of metrics, log events by meaning, and notes on what could not be read.
//!
//! It must never judge what it reads, start, stop, signal or trace a process, write a file, or print. A source
//! that fails costs its own series and a note; it never ends the run.
//!
//! A new source is one file in `src/sources/` and one line in [`SOURCES`].
//!
//! # Labels
//!
//! * `source.up`: the name of the source.
//! * `tcp.time_wait`, `tcp.established`: the layer of the peer (`cache`).
//! * `queue.length`, `queue.limit`: empty for a tier with one listener, else the address.
//! * `workers.waiting`: the call and, for a call on a descriptor, whom it waits for: `accept`, `sleep`,
//!   `flock`, `futex`, `recv cache`, `connect db`, `send web`, `send stderr`, `recv file`, `other:WCHAN`. `web` is whoever
//!   connected to the tier's own listener: `recv web` is a worker that holds a connection and waits for a request
//!   on it. A peer that is no tier is written as its address.

mod bounded;
mod collector;
mod foreign;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod locks;
mod log_lines;
mod recorder;
mod source;
mod sources;
mod transport;
mod waiting_on;

pub use collector::{Collector, CollectorOptions, TelemetryError, sample_once};
pub use foreign::CpuAccount;
pub use locks::LockWatch;
pub use log_lines::classify;
pub use recorder::Recording;
pub use source::Source;
pub use sources::{NOT_THE_APPLICATION, SOURCES};
pub use waiting_on::Waits;
