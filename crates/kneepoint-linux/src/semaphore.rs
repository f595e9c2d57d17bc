//! Semaphores of System V, those of the IPC namespace that the calling thread is in (`namespace::inside_ipc_of`).

use crate::file::read;
use std::collections::BTreeMap;
use std::io;

/// The process that operated on a semaphore last (semctl(2), `GETPID`). `None` where nobody did, or this process cannot see
/// it.
///
/// Where others wait for it, that is who took it last: when somebody lets go of it, the kernel gives it to the next in line
/// at once, and counts that as done by the next.
///
/// # Errors
/// There is no such semaphore, or it may not be read.
#[expect(
    unsafe_code,
    reason = "neither the standard library nor rustix asks for semaphores"
)]
pub fn last_user(set: i32, number: u16) -> io::Result<Option<u32>> {
    // SAFETY: the call takes numbers, GETPID has no fourth argument and changes nothing; a set that is not there is an error.
    let pid = unsafe { libc::semctl(set, i32::from(number), libc::GETPID) };
    match u32::try_from(pid) {
        Ok(pid) => Ok(Some(pid).filter(|pid| *pid > 0)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// The key of each set of semaphores, by the number of the set.
///
/// # Errors
/// The kernel does not tell.
pub fn keys() -> io::Result<BTreeMap<i32, i32>> {
    read("/proc/sysvipc/sem").map(|bytes| parse_keys(&bytes))
}

/// The same from `/proc/sysvipc/sem`, whose first two columns are the key and the number (sysvipc(7)).
#[must_use]
pub fn parse_keys(bytes: &[u8]) -> BTreeMap<i32, i32> {
    let line = |line: &[u8]| {
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let key = words.next()?.parse().ok()?;
        Some((words.next()?.parse().ok()?, key))
    };
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(line)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETS: &str = "\
       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime
     19280          3   666          3    33    33    33    33 1700000009 1700000000
-1207908352     32769   600          1     0     0     0     0          0 1700000000
";

    #[test]
    fn sets_have_keys() {
        let keys = parse_keys(SETS.as_bytes());
        assert_eq!(
            keys,
            BTreeMap::from([(3, 19_280), (32_769, -1_207_908_352)])
        );
        assert!(parse_keys(b"").is_empty());
    }

    #[test]
    fn a_set_that_is_not_there_has_no_user() {
        let error = last_user(-1, 0).expect_err("no set has this number");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[-0-9a \n]{0,120}") {
            let _ = parse_keys(&bytes);
            let _ = parse_keys(text.as_bytes());
        }
    }
}
