//! What `/proc/PID` says of one process, with parsers for what is read often. They are pure functions of bytes.

use crate::file::{keyed, number, read, words};
use std::io;

/// What `/proc/PID/stat` says. Times are in clock ticks (proc(5): 100 a second on Linux).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// State letter: `R` running, `S` asleep, `D` in uninterruptible sleep.
    pub state: u8,
    /// Its parent.
    pub parent: u32,
    /// Time in user mode.
    pub user: u64,
    /// Time in the kernel.
    pub system: u64,
    /// Time in user mode of children that ended and were waited for, and of theirs.
    pub children_user: u64,
    /// The same in the kernel.
    pub children_system: u64,
    /// When it started, in ticks since boot: with the PID it names a process for ever.
    pub start: u64,
}

impl Stat {
    /// What it says of a process now; `None` when it is gone.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        parse_stat(&read(&format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether it waits only for its parent to take notice of its end.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }

    /// CPU time of its own and of its children that ended, in ticks.
    #[must_use]
    pub fn with_children(&self) -> u64 {
        self.own()
            .saturating_add(self.children_user)
            .saturating_add(self.children_system)
    }

    /// CPU time of its own, in ticks.
    #[must_use]
    pub fn own(&self) -> u64 {
        self.user.saturating_add(self.system)
    }
}

/// Parses `/proc/PID/stat`. The name of the program may hold blanks and parentheses.
#[must_use]
pub fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let end = bytes.iter().rposition(|b| *b == b')')?;
    let mut fields = words(&bytes[end + 1..]);
    let state = *fields.next()?.first()?;
    let parent = u32::try_from(number(fields.next()?)?).ok()?;
    // Counted as in proc(5): utime is field 14, and 9 fields lie between it and the parent; starttime is field
    // 22, behind priority, nice, num_threads and itrealvalue.
    let mut fields = fields.skip(9).map(number);
    Some(Stat {
        state,
        parent,
        user: fields.next()??,
        system: fields.next()??,
        children_user: fields.next()??,
        children_system: fields.next()??,
        start: fields.nth(4)??,
    })
}

/// The name of the program in `/proc/PID/stat`, cut to 15 bytes.
#[must_use]
pub fn parse_name(bytes: &[u8]) -> Option<String> {
    let begin = bytes.iter().position(|b| *b == b'(')? + 1;
    let end = bytes.iter().rposition(|b| *b == b')')?;
    Some(String::from_utf8_lossy(bytes.get(begin..end)?).into_owned())
}

/// Voluntary and forced context switches from `/proc/PID/status`.
#[must_use]
pub fn parse_switches(bytes: &[u8]) -> Option<(u64, u64)> {
    Some((
        keyed(bytes, "voluntary_ctxt_switches:")?,
        keyed(bytes, "nonvoluntary_ctxt_switches:")?,
    ))
}

/// Proportional set size in bytes from `/proc/PID/smaps_rollup`.
#[must_use]
pub fn parse_pss(bytes: &[u8]) -> Option<u64> {
    keyed(bytes, "Pss:")?.checked_mul(1024)
}

/// Memory of a process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemorySize {
    /// Proportional set size: a page that several processes have counts in parts.
    pub pss: u64,
    /// Pages that nobody else has: what the end of the process would give back.
    pub private: u64,
}

/// Both sizes from `/proc/PID/smaps_rollup`.
#[must_use]
pub fn parse_memory_size(bytes: &[u8]) -> Option<MemorySize> {
    let clean = keyed(bytes, "Private_Clean:")?;
    let private = clean.checked_add(keyed(bytes, "Private_Dirty:")?)?;
    Some(MemorySize {
        pss: parse_pss(bytes)?,
        private: private.checked_mul(1024)?,
    })
}

/// The PIDs of `/proc/PID/task/TID/children`.
#[must_use]
pub fn parse_children(bytes: &[u8]) -> Vec<u32> {
    words(bytes)
        .filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
        .collect()
}

/// The children of a process that its first thread forked.
///
/// # Errors
/// The process is gone.
pub fn children(pid: u32) -> io::Result<Vec<u32>> {
    read(&format!("/proc/{pid}/task/{pid}/children")).map(|bytes| parse_children(&bytes))
}

/// The process a thread belongs to.
#[must_use]
pub fn process_of(thread: u32) -> Option<u32> {
    let status = read(&format!("/proc/{thread}/status")).ok()?;
    u32::try_from(keyed(&status, "Tgid:")?).ok()
}

/// The number by which a process is known where it runs: its own namespace may count anew. `None` when it is gone.
#[must_use]
pub fn number_inside(pid: u32) -> Option<u32> {
    parse_number_inside(&read(&format!("/proc/{pid}/status")).ok()?)
}

/// The last number of `NSpid` in `/proc/PID/status`: the namespaces from the reader's to the process's own.
#[must_use]
pub fn parse_number_inside(bytes: &[u8]) -> Option<u32> {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let numbers = lines.find_map(|line| line.strip_prefix(b"NSpid:"))?;
    u32::try_from(number(words(numbers).last()?)?).ok()
}

/// The threads of a process.
///
/// # Errors
/// The process is gone.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    numbers_in(&format!("/proc/{pid}/task"))
}

/// The parent of a process.
#[must_use]
pub fn parent_of(pid: u32) -> Option<u32> {
    Some(Stat::of(pid)?.parent)
}

/// The name of a process's program, cut to 15 bytes; `None` when it is gone.
#[must_use]
pub fn name_of(pid: u32) -> Option<String> {
    let name = read(&format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii()).into_owned())
}

/// Whether a process has this in the environment it was started with: `NAME=value`. What it starts has it, too, unless somebody
/// takes it out.
#[must_use]
pub fn has_in_environment(pid: u32, entry: &str) -> bool {
    let environment = read(&format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut entries = environment.split(|byte| *byte == 0);
    entries.any(|it| it == entry.as_bytes())
}

/// What a process shows as its command: the first word of its arguments, or what it wrote over them as its title.
#[must_use]
pub fn title_of(pid: u32) -> Option<String> {
    let arguments = read(&format!("/proc/{pid}/cmdline")).ok()?;
    let title = arguments.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(title).into_owned())
}

/// Every process this one may see, in no order.
#[must_use]
pub fn all() -> Vec<u32> {
    numbers_in("/proc").unwrap_or_default()
}

fn numbers_in(directory: &str) -> io::Result<Vec<u32>> {
    let names = std::fs::read_dir(directory)?
        .flatten()
        .map(|entry| entry.file_name());
    Ok(names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect())
}

/// Memory of a process in bytes by a name of `/proc/PID/status`, such as `VmHWM`; `None` when it is gone.
#[must_use]
pub fn memory_bytes(pid: u32, name: &str) -> Option<u64> {
    let status = read(&format!("/proc/{pid}/status")).ok()?;
    keyed(&status, &format!("{name}:"))?.checked_mul(1024)
}

/// Proportional set size of a process in bytes; `None` where the kernel does not tell.
///
/// # Errors
/// The process is gone, or its memory may not be looked into.
pub fn pss_bytes(pid: u32) -> io::Result<Option<u64>> {
    read(&format!("/proc/{pid}/smaps_rollup")).map(|rollup| parse_pss(&rollup))
}

/// Both sizes of a process's memory; `None` where the kernel does not tell.
///
/// # Errors
/// As [`pss_bytes`].
pub fn memory_size(pid: u32) -> io::Result<Option<MemorySize>> {
    read(&format!("/proc/{pid}/smaps_rollup")).map(|rollup| parse_memory_size(&rollup))
}

/// The process that traces this one, if there is one.
#[must_use]
pub fn tracer_of(pid: u32) -> Option<u32> {
    let status = read(&format!("/proc/{pid}/status")).ok()?;
    let tracer = keyed(&status, "TracerPid:")?;
    u32::try_from(tracer).ok().filter(|tracer| *tracer > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let line = b"812 (php-fpm: (pool) www) S 800 800 800 0 -1 4194368 915 77 0 0 12 34 56 78 20 -5 1 0 \
            26213 224272384 3712 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0";
        let stat = parse_stat(line).expect("stat");
        assert_eq!((stat.state, stat.user, stat.system), (b'S', 12, 34));
        assert_eq!((stat.children_user, stat.children_system), (56, 78));
        assert_eq!(stat.parent, 800);
        assert_eq!((stat.start, stat.own()), (26213, 46));
        assert_eq!(parse_stat(b"812 (php"), None);
    }

    #[test]
    fn figures_are_read_by_their_whole_name() {
        let status = b"voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(parse_switches(status), Some((150, 7)));
        let rollup = b"55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss: 9000 kB\nPss:    1200 kB\nPss_Anon: 3 kB\n";
        assert_eq!(parse_pss(rollup), Some(1200 * 1024));
        assert_eq!(parse_memory_size(rollup), None);
        let rollup =
            b"Pss:    1200 kB\nPrivate_Clean: 5 kB\nPrivate_Dirty: 700 kB\nPrivate_Hugetlb: 9 kB\n";
        let size = parse_memory_size(rollup).expect("both sizes");
        assert_eq!((size.pss, size.private), (1200 * 1024, 705 * 1024));
        assert_eq!(keyed(b"nr_throttled 3\n", "nr"), None);
    }

    #[test]
    fn the_number_in_the_innermost_namespace_is_the_last() {
        let status = b"Ngid:\t0\nPid:\t812\nNSpid:\t812\t33\t7\nNSpgid:\t1\n";
        assert_eq!(parse_number_inside(status), Some(7));
        assert_eq!(parse_number_inside(b"NSpid:\t812\n"), Some(812));
        assert_eq!(parse_number_inside(b"Pid:\t812\nNSpid:\n"), None);
        assert!(number_inside(std::process::id()).is_some() && number_inside(u32::MAX).is_none());
    }

    #[test]
    fn this_process_is_known() {
        let own = std::process::id();
        assert_eq!(parent_of(own), Some(std::os::unix::process::parent_id()));
        assert!(all().contains(&own) && !all().contains(&u32::MAX));
        assert!(threads(own).expect("we live").contains(&own));
        assert_eq!(process_of(own), Some(own));
        assert!(memory_bytes(own, "VmHWM").is_some_and(|bytes| bytes > 1 << 16));
        assert!(name_of(own).is_some_and(|name| !name.is_empty()));
        assert_eq!(title_of(own), std::env::args().next());
        assert_eq!(tracer_of(own), None);
        assert!(Stat::of(own).is_some_and(|stat| !stat.has_ended()));
        assert!(Stat::of(u32::MAX).is_none() && children(u32::MAX).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in "[0-9A-Za-z():\\- \n]{0,300}") {
            for bytes in [&bytes[..], text.as_bytes()] {
                let _ = parse_stat(bytes);
                let _ = parse_switches(bytes);
                let _ = parse_pss(bytes);
                let _ = parse_children(bytes);
                let _ = parse_number_inside(bytes);
            }
        }
    }
}
