//! The program as a person runs it, on real servers. Tests that need root say so and pass without it.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start the program they test"
)]
#![allow(clippy::print_stderr, reason = "a test that cannot run here says so")]

mod account;
mod bad_input;
mod by_hand;
mod closed;
mod closed_pipe;
mod compare;
mod forms;
mod gate;
mod init;
mod inside;
mod interrupted;
mod load;
mod nothing_left;
mod pages;
mod plan;
mod profile;
mod replay;
mod scenario;
mod support;
mod untouched;
mod visits;
