//! What the fuzz targets of `fuzz/` call: what a stranger's process sends, and the file of its program.

use super::wire;
use crate::process::elf;

/// Reads the input as what a worker says on a connection.
///
/// # Panics
/// The parser does, or finds words in what has none.
pub fn said(input: &[u8]) {
    let said = wire::said(input);
    assert!(
        !said.is_empty() || input.is_empty() || said.len() <= input.len(),
        "{said:?}"
    );
    let _ = wire::ends_response(input);
}

/// Reads the input as the file of a program.
///
/// # Panics
/// The parser does.
pub fn program(input: &[u8]) {
    if let Some(exports) = elf::look(input) {
        let _ = exports.found();
        let _ = exports.mapped_at(1 << 40).has_php();
    }
}
