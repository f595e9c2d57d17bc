//! Words on standard error. That nobody reads them is no failure of what they speak of.

use std::io::Write;

/// Prints text to standard error. A reader that has left, or a full disk behind the stream, must not end a run that
/// measures, nor change what its exit code says: what cannot be written is dropped.
pub(crate) fn say(text: &str) {
    say_to(&mut std::io::stderr().lock(), text);
}

/// Prints a line to standard error, as [`say`] does.
pub(crate) fn say_line(text: &str) {
    say(&format!("{text}\n"));
}

fn say_to(out: &mut impl Write, text: &str) {
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
