//! What an application's own files of settings say, read without running anything.

pub mod code;
pub mod dotenv;
mod hosts;
pub mod laravel;
mod mentions;
mod switches;

pub use hosts::{NamedHost, host_in_url, named_hosts};
pub use mentions::{Mention, Mentioned, likeliest, mentions, mentions_in};
pub use switches::{FILES, of_file, switches};

/// Most bytes that are read of a file of settings: some applications keep theirs in one of a few hundred kilobytes.
const MOST_BYTES: u64 = 4 << 20;

/// The text of an application's file, through a link, too. `None` when it cannot be read, and when it is no regular file: a
/// pipe is never at its end.
fn text(path: &std::path::Path) -> Option<String> {
    use std::io::Read as _;
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The text of the `.env` of an application with this root; empty when there is none that can be read.
#[must_use]
pub fn dotenv_text(root: &std::path::Path) -> String {
    text(&root.join(".env")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read() {
        let root = tempfile::tempdir().expect("a directory");
        let dotenv = root.path().join(".env");
        assert_eq!(dotenv_text(root.path()), "");
        std::fs::write(root.path().join("shared"), "KEY=1\n").expect("written");
        std::os::unix::fs::symlink("shared", &dotenv).expect("linked");
        assert_eq!(dotenv_text(root.path()), "KEY=1\n");
        std::fs::remove_file(&dotenv).expect("removed");
        std::os::unix::fs::symlink("/dev/zero", &dotenv).expect("linked");
        assert_eq!(dotenv_text(root.path()), "");
        std::fs::remove_file(&dotenv).expect("removed");
        // A socket without a reader stands for all that is no file; opening a pipe would wait for ever if this were wrong.
        let _socket = std::os::unix::net::UnixListener::bind(&dotenv).expect("a socket");
        assert_eq!(dotenv_text(root.path()), "");
        assert!(switches(root.path()).is_empty());
    }
}
