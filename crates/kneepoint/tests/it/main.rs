//! The program as a person runs it, on real servers. Tests that need root say so and pass without it.
#![allow(
    clippy::disallowed_methods,
    reason = "tests start the program they test"
)]
#![allow(clippy::print_stderr, reason = "a test that cannot run here says so")]

mod bad_input;
mod check;
mod cleanup;
mod closed;
mod init;
mod load;
mod scenario;
mod seeds;
mod sequences;
mod support;
mod visitors;
mod workers;
