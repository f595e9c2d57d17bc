//! Says what to measure next, and what it means.
//!
//! This crate alone decides which step comes next: the search for R* ([`limit`]), comparisons in pairs ([`ab`], [`gate`]) and
//! in rounds ([`rounds`]), the prediction of capacity ([`capacity`]), and what tuning tries ([`tune`]). Each is a pure
//! function or a state machine that asks for steps ([`bench`]), and is tested against a simulated stack whose truth is known
//! ([`simulated`]).
//!
//! It must never touch a clock, a file, a thread or a socket, and knows the model only: what is random in it follows from a
//! seed.

pub mod ab;
pub mod bench;
pub mod capacity;
pub mod comparison;
pub mod gate;
pub mod limit;
mod random;
pub mod rounds;
pub mod simulated;
pub mod tune;
