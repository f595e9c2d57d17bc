//! What is seen of a stack at work: series, log events, stacks, calls, and how CPU and time divide.

pub mod account;
pub mod chain;
pub mod folding;
pub mod inside;
pub mod log;
pub mod metric;
pub mod place;
pub mod running;
