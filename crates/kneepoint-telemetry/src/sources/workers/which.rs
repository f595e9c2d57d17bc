//! Which processes and threads of a runtime are its workers.

use super::NOT_THE_APPLICATION;
use kneepoint_linux::file::read_once;
use kneepoint_linux::process::{children, threads};
use kneepoint_model::Workers as Kind;
use std::collections::BTreeSet;
use std::io;

/// What may be a worker.
pub(super) fn candidates(kind: &Kind, master: u32) -> io::Result<Vec<u32>> {
    let mut found = match kind {
        Kind::FpmPool | Kind::Processes { .. } => children(master)?,
        Kind::Threads { name, .. } => named_threads(master, name)?,
    };
    if matches!(kind, Kind::Processes { .. }) {
        // Some masters have a manager between them and the workers.
        let grandchildren = found
            .iter()
            .flat_map(|pid| children(*pid).unwrap_or_default());
        let grandchildren: Vec<u32> = grandchildren.collect();
        found.extend(grandchildren);
    }
    Ok(found)
}

/// Whether the title of a process begins so.
pub(super) fn is_titled(pid: u32, title: &str) -> bool {
    let mut buffer = [0; 256];
    let found = read_once(&format!("/proc/{pid}/cmdline"), &mut buffer);
    found.is_ok_and(|found| found.starts_with(title.as_bytes()))
}

/// The threads of a process whose names are these words and a number. A thread that another starts inherits its name
/// for good where its program does not care (the Go runtime's own): the oldest of a name is meant.
fn named_threads(pid: u32, words: &str) -> io::Result<Vec<u32>> {
    let mut tids = threads(pid)?;
    tids.sort_unstable();
    let mut names = BTreeSet::new();
    let is_first = |tid: &u32| {
        let mut buffer = [0; 32];
        let name = read_once(&format!("/proc/{pid}/task/{tid}/comm"), &mut buffer);
        let number = name
            .ok()
            .and_then(|name| name.strip_prefix(words.as_bytes()));
        let number = number.map(|number| number.trim_ascii_end().to_vec());
        number.is_some_and(|number| {
            !number.is_empty() && number.iter().all(u8::is_ascii_digit) && names.insert(number)
        })
    };
    Ok(tids.into_iter().filter(is_first).collect())
}

/// Whether a process is a worker of the application; `None` while it has no title of its own.
pub(super) fn application_worker(pid: u32) -> Option<bool> {
    let mut buffer = [0; 256];
    let title = read_once(&format!("/proc/{pid}/cmdline"), &mut buffer).ok()?;
    pool_of(title).map(|pool| {
        !NOT_THE_APPLICATION
            .iter()
            .any(|other| pool.ends_with(other))
    })
}

/// The pool in the title of a worker: `php-fpm: pool www`.
fn pool_of(title: &[u8]) -> Option<&str> {
    let title = title.split(|b| *b == 0).next()?;
    Some(
        std::str::from_utf8(title)
            .ok()?
            .strip_prefix("php-fpm: pool ")?
            .trim_end(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn titles_name_the_pool() {
        assert_eq!(pool_of(b"php-fpm: pool www\0\0\0"), Some("www"));
        assert_eq!(
            pool_of(b"php-fpm: pool kneepoint-probe   "),
            Some("kneepoint-probe")
        );
        assert_eq!(
            pool_of(b"php-fpm: master process (/etc/php-fpm.conf)"),
            None
        );
    }

    proptest! {
        #[test]
        fn no_title_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            pool_of(&bytes);
        }
    }
}
