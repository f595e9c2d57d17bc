//! Runs a load plan: threads that send, and one that watches them.

mod coalescing;
mod exchange;
mod exchange_tls;
mod generator;
mod priority;
mod run;
mod slow_line;
mod transport;
mod worker;

pub use generator::Generator;
pub use run::Engine;
