//! Who waits for whose lock on a file, from /proc/locks (proc(5)).

use super::WorkerWait;
use crate::waiting_on::wait::{Syscall, parse_syscall};
use kneepoint_linux::file;
use kneepoint_model::folding::fold_path;
use std::collections::BTreeMap;

/// The workers among these that wait for a lock on a file, each with who holds it.
pub(super) fn waits(workers: &[u32]) -> Vec<WorkerWait> {
    let Ok(text) = file::read("/proc/locks") else {
        return Vec::new();
    };
    parse(&text)
        .into_iter()
        .filter(|(waiter, _, _)| workers.contains(waiter))
        .map(|(waiter, holder, inode)| WorkerWait {
            waiter,
            holder,
            object: path(waiter).unwrap_or_else(|| format!("inode {inode}")),
        })
        .collect()
}

/// Who waits (first), for whom, and for which inode. Locks whose process is not known (of another PID namespace, or of an
/// open file description) are left out.
pub(super) fn parse(text: &[u8]) -> Vec<(u32, u32, u64)> {
    let mut holders: BTreeMap<u64, u32> = BTreeMap::new();
    let mut waits = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        let Some((id, waits_for_it, pid, inode)) = parse_line(line) else {
            continue;
        };
        match (waits_for_it, holders.get(&id)) {
            (false, _) => {
                holders.insert(id, pid);
            }
            (true, Some(holder)) => waits.push((pid, *holder, inode)),
            (true, None) => {}
        }
    }
    waits
}

/// `1: FLOCK  ADVISORY  WRITE 5341 fe:00:10300665 0 EOF`, or `1: -> FLOCK ...` of one that waits for it.
fn parse_line(line: &[u8]) -> Option<(u64, bool, u32, u64)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let id = words.next()?.strip_suffix(':')?.parse().ok()?;
    let mut kind = words.next()?;
    let waits = kind == "->";
    if waits {
        kind = words.next()?;
    }
    if !matches!(kind, "FLOCK" | "POSIX") {
        return None;
    }
    let pid = words.nth(2)?.parse().ok().filter(|pid| *pid > 0)?;
    let inode = words.next()?.rsplit(':').next()?.parse().ok()?;
    Some((id, waits, pid, inode))
}

/// The path of the file that a process waits to lock, from its system call.
fn path(pid: u32) -> Option<String> {
    let mut buffer = [0; 256];
    let call = file::read_once(&format!("/proc/{pid}/syscall"), &mut buffer).ok()?;
    let Some(Syscall::In(libc::SYS_flock | libc::SYS_fcntl, args)) = parse_syscall(call) else {
        return None;
    };
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{}", args[0] as u32)).ok()?;
    Some(named(&link.to_string_lossy()))
}

/// The path as it is told: the file of a session is called by its visitor's secret.
fn named(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((directory, name)) if name.starts_with("sess_") => format!("{directory}/sess_*"),
        _ => fold_path(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOCKS: &str = "\
1: FLOCK  ADVISORY  WRITE 5341 fe:00:10300665 0 EOF
1: -> FLOCK  ADVISORY  WRITE 5342 fe:00:10300665 0 EOF
1:  -> FLOCK  ADVISORY  WRITE 5343 fe:00:10300665 0 EOF
2: POSIX  ADVISORY  READ 5339 fe:00:10300663 128 128
3: LEASE  ACTIVE    READ  77 fe:00:12 0 EOF
4: FLOCK  ADVISORY  WRITE 0 fe:00:99 0 EOF
4: -> FLOCK  ADVISORY  WRITE 5344 fe:00:99 0 EOF
5: OFDLCK ADVISORY  WRITE -1 fe:00:98 0 EOF
";

    #[test]
    fn who_waits_is_joined_to_who_holds() {
        assert_eq!(
            parse(LOCKS.as_bytes()),
            [(5342, 5341, 10_300_665), (5343, 5341, 10_300_665)]
        );
    }

    #[test]
    fn a_session_file_does_not_tell_its_session() {
        for (path, told) in [
            (
                "/var/lib/php/sessions/sess_h2k4",
                "/var/lib/php/sessions/sess_*",
            ),
            ("/srv/app/data/stats.json", "/srv/app/data/stats.json"),
        ] {
            assert_eq!(named(path), told);
        }
    }

    #[test]
    fn a_thread_that_waits_for_this_process_is_none_of_the_workers() {
        assert!(waits(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[-0-9:> FLOCKPSIXa-f\n]{0,120}") {
            parse(&bytes);
            for (waiter, holder, _) in parse(text.as_bytes()) {
                prop_assert!(waiter > 0 && holder > 0);
            }
        }
    }
}
