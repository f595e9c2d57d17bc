//! What a run does, from its first step to its last: each sequence asks a planner what to measure, has the testbed measure it,
//! and writes it down.

pub mod ab;
pub mod compare;
pub mod diagnose;
mod findings;
pub mod gate;
pub mod limit;
pub mod plan;
pub mod replay;
mod subject;
pub mod tune;

pub use subject::Subject;
