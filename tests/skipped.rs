//! Says that a test cannot run here, and why. Every crate's tests share this file, so that `make test` can list them.

use std::io::Write;

/// Notes that the test of this thread was skipped. `KNEEPOINT_SKIPPED` names the file that `make test` lists at its end.
#[expect(clippy::print_stderr, reason = "a skipped test says why")]
pub(crate) fn skipped(why: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {why}\n", thread.name().unwrap_or("a test"));
    eprint!("skipped: {line}");
    if let Some(path) = std::env::var_os("KNEEPOINT_SKIPPED") {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        let noted = file.and_then(|mut file| file.write_all(line.as_bytes()));
        noted.expect("the list of skipped tests");
    }
}
