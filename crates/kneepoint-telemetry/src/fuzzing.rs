//! What the fuzz targets of `fuzz/` call: what servers answer when they are asked how they are.

use crate::transport;
use crate::waiting_on::wait;

/// Reads the input as each answer there can be, and as what the kernel says of a waiting thread.
///
/// # Panics
/// A parser does.
pub fn answers(input: &[u8]) {
    transport::fuzz(input);
    if let Some(call) = wait::parse_syscall(input) {
        drop(format!("{call:?}"));
    }
    for (verb, fd) in wait::parse_pollfds(input) {
        drop(format!("{verb:?} {fd}"));
    }
    let _ = wait::parse_fd_set(input);
}
