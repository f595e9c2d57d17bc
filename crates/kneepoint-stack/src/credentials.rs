//! Passwords of the lab's own servers: new for each, known to nobody, gone with it.

use crate::StackError;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Where the kernel gives random bytes.
const SOURCE: &str = "/dev/urandom";

/// A password of 128 random bits, in characters that no shell, URL or configuration reads as anything else.
///
/// # Errors
/// This machine has no source of random bytes.
pub fn password() -> Result<String, StackError> {
    let mut bytes = [0; 16];
    File::open(SOURCE)
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| StackError::io("read", Path::new(SOURCE), &error))?;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_passwords_are_the_same() {
        let (one, two) = (password().expect("one"), password().expect("two"));
        assert_eq!((one.len(), two.len()), (32, 32));
        assert_ne!(one, two);
    }
}
