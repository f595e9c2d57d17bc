//! The record of a run: what was measured, found, tried and decided.

pub mod capacity;
pub mod contest;
pub mod finding;
pub mod gate;
pub mod mending;
pub mod replay;
pub mod rule_page;
pub mod run;
