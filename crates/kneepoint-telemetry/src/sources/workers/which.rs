//! Which processes and threads of a runtime are its workers.

use super::{PROBE, STATUS};
use kneepoint_linux::file::read_once;
use kneepoint_linux::process::{children, threads};
use kneepoint_model::Workers as Kind;
use std::collections::BTreeSet;
use std::io;

/// Workers looked at in one tick; in larger pools they take turns and stand for the rest.
pub(super) const AT_ONCE: usize = 10;

/// Those whose turn it is to be looked at; moves the turn on.
pub(in crate::sources) fn in_turn<'a>(
    pids: &'a [u32],
    turn: &mut usize,
) -> impl Iterator<Item = u32> + use<'a> {
    let looks = AT_ONCE.min(pids.len());
    let start = *turn;
    *turn = (start + looks) % pids.len().max(1);
    pids.iter().copied().cycle().skip(start).take(looks)
}

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
pub(in crate::sources) fn is_titled(pid: u32, title: &str) -> bool {
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

/// Whether a process is a worker of the application; `None` while it has no title of its own, or while that says too little.
/// `all` are the workers of all pools.
pub(super) fn application_worker(pid: u32, all: &[u32]) -> Option<bool> {
    let pool = pool_of_process(pid)?;
    let is_there = |name: &str| {
        let mut pools = all.iter().filter_map(|pid| pool_of_process(*pid));
        pools.any(|pool| pool == name)
    };
    serves_application(&pool, is_there)
}

/// Whether a pool serves the application. FPM adds a pool for the status of another, named after it. One that is called so
/// may also be the application's own: then there is one named after it, and none that it is named after.
fn serves_application(pool: &str, is_there: impl Fn(&str) -> bool) -> Option<bool> {
    if pool == PROBE {
        return Some(false);
    }
    let Some(of) = pool.strip_suffix(STATUS) else {
        return Some(true);
    };
    if is_there(of) {
        return Some(false);
    }
    is_there(&format!("{pool}{STATUS}")).then_some(true)
}

fn pool_of_process(pid: u32) -> Option<String> {
    let mut buffer = [0; 256];
    let title = read_once(&format!("/proc/{pid}/cmdline"), &mut buffer).ok()?;
    pool_of(title).map(str::to_owned)
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

    #[test]
    fn a_pool_whose_name_ends_like_one_for_status_may_be_the_applications() {
        let serves =
            |pool: &str, pools: &[&str]| serves_application(pool, |name| pools.contains(&name));
        let usual = ["www", "www_status", "kneepoint-probe"];
        let told = usual.map(|pool| serves(pool, &usual));
        assert_eq!(told, [Some(true), Some(false), Some(false)]);
        let odd = ["shop_status", "shop_status_status", "my-kneepoint-probe"];
        let told = odd.map(|pool| serves(pool, &odd));
        assert_eq!(told, [Some(true), Some(false), Some(true)]);
        // Its workers of the application have not been forked yet.
        assert_eq!(serves("www_status", &["www_status"]), None);
    }

    proptest! {
        #[test]
        fn no_title_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            pool_of(&bytes);
        }
    }
}
