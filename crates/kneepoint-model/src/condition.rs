//! Conditions on a load: those that end it, and those that decide the exit code.

pub mod autostop;
pub mod threshold;
