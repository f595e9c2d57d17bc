//! Reads the files of `/proc` that several sources share. The parsers are pure functions of bytes.

use kneepoint_model::CgroupPaths;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Reads a whole small file.
///
/// # Errors
/// The file cannot be opened or read, with its path in the message.
pub(crate) fn read(path: &str) -> io::Result<Vec<u8>> {
    let named = |why: io::Error| io::Error::new(why.kind(), format!("`{path}`: {why}"));
    let mut file = File::open(path).map_err(named)?;
    // `fs::read` asks for the size first, which `/proc` does not know.
    let mut bytes = vec![0; 4096];
    let mut length = 0;
    loop {
        if length == bytes.len() {
            bytes.resize(length * 2, 0);
        }
        match file.read(&mut bytes[length..]).map_err(named)? {
            0 => break,
            n => length += n,
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}

/// Reads a file of `/proc` that fits one read: half the system calls of [`read`], for what is read often.
pub(crate) fn read_once<'a>(path: &str, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let length = File::open(path)?.read(buffer)?;
    Ok(&buffer[..length])
}

/// Most files of `/proc` that one reader keeps open.
const KEPT: usize = 1024;

/// One file of `/proc/PID` of many processes, read again and again: kept open, since opening costs more than
/// reading. A kept file never shows another process that got the same PID.
#[derive(Debug)]
pub(crate) struct Kept {
    name: &'static str,
    files: HashMap<u32, File>,
}

impl Kept {
    /// Of a name within `/proc/PID`.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            files: HashMap::new(),
        }
    }

    /// Reads the file of a process.
    ///
    /// # Errors
    /// The process is gone, or may not be read.
    pub(crate) fn read<'a>(&mut self, pid: u32, buffer: &'a mut [u8]) -> io::Result<&'a [u8]> {
        if let Some(file) = self.files.get(&pid) {
            if let Ok(length @ 1..) = file.read_at(buffer, 0) {
                return Ok(&buffer[..length]);
            }
            self.files.remove(&pid);
        }
        let file = File::open(format!("/proc/{pid}/{}", self.name))?;
        let length = file.read_at(buffer, 0)?;
        if self.files.len() >= KEPT {
            self.files.clear();
        }
        self.files.insert(pid, file);
        Ok(&buffer[..length])
    }

    /// Closes the files of processes that are not among these.
    pub(crate) fn retain(&mut self, pids: &[u32]) {
        if self.files.len() > pids.len() {
            let pids: HashSet<_> = pids.iter().collect();
            self.files.retain(|pid, _| pids.contains(pid));
        }
    }
}

/// A decimal number at the start of some bytes.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&bytes[..digits]).ok()?.parse().ok()
}

/// The blank-separated words of some bytes.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
}

/// The number behind `key` at the start of a line: `nr_periods 5`, `Pss:   120 kB`.
pub(crate) fn keyed(bytes: &[u8], key: &str) -> Option<u64> {
    bytes.split(|b| *b == b'\n').find_map(|line| {
        let rest = line.strip_prefix(key.as_bytes())?;
        rest.first()?.is_ascii_whitespace().then_some(())?;
        number(rest.trim_ascii_start())
    })
}

/// CPU time in seconds, all and in the kernel, as the control group accounts it: processes that are gone included.
pub(crate) fn cgroup_cpu_s(cgroup: &CgroupPaths) -> Option<(f64, f64)> {
    if let Some(dir) = &cgroup.cpuacct {
        let nanoseconds = |name: &str| number(&read(dir.join(name).to_str()?).ok()?);
        return Some((
            nanoseconds("cpuacct.usage")? as f64 / 1e9,
            nanoseconds("cpuacct.usage_sys")? as f64 / 1e9,
        ));
    }
    let stat = read(cgroup.cpu.as_ref()?.join("cpu.stat").to_str()?).ok()?;
    let microseconds = |key| Some(keyed(&stat, key)? as f64 / 1e6);
    Some((microseconds("usage_usec")?, microseconds("system_usec")?))
}

/// The ticks of all CPUs in `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, and what else there is.
pub(crate) fn cpu_ticks(stat: &[u8]) -> Option<Vec<u64>> {
    let line = stat
        .split(|b| *b == b'\n')
        .find(|line| line.starts_with(b"cpu "))?;
    Some(words(line).skip(1).map_while(number).collect())
}

/// What `/proc/PID/stat` says. Times are in clock ticks (proc(5): 100 a second on Linux).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// State letter: `R` running, `S` asleep, `D` in uninterruptible sleep.
    pub(crate) state: u8,
    /// Time in user mode.
    pub(crate) user: u64,
    /// Time in the kernel.
    pub(crate) system: u64,
    /// Time in user mode of children that ended and were waited for, and of theirs.
    pub(crate) children_user: u64,
    /// The same in the kernel.
    pub(crate) children_system: u64,
    /// When it started, in ticks since boot: with the PID it names a process for ever.
    pub(crate) start: u64,
}

impl Stat {
    /// CPU time of its own and of its children that ended, in ticks.
    pub(crate) fn with_children(&self) -> u64 {
        self.own()
            .saturating_add(self.children_user)
            .saturating_add(self.children_system)
    }

    /// CPU time of its own, in ticks.
    pub(crate) fn own(&self) -> u64 {
        self.user.saturating_add(self.system)
    }
}

/// Parses `/proc/PID/stat`. The name of the program may hold blanks and parentheses.
pub(crate) fn parse_stat(bytes: &[u8]) -> Option<Stat> {
    let end = bytes.iter().rposition(|b| *b == b')')?;
    let mut fields = words(&bytes[end + 1..]);
    let state = *fields.next()?.first()?;
    // Counted as in proc(5): utime is field 14, and 10 fields lie between it and the state; starttime is field
    // 22, behind priority, nice, num_threads and itrealvalue.
    let mut fields = fields.skip(10).map(number);
    Some(Stat {
        state,
        user: fields.next()??,
        system: fields.next()??,
        children_user: fields.next()??,
        children_system: fields.next()??,
        start: fields.nth(4)??,
    })
}

/// Voluntary and forced context switches from `/proc/PID/status`.
pub(crate) fn parse_switches(bytes: &[u8]) -> Option<(u64, u64)> {
    Some((
        keyed(bytes, "voluntary_ctxt_switches:")?,
        keyed(bytes, "nonvoluntary_ctxt_switches:")?,
    ))
}

/// Proportional set size in bytes from `/proc/PID/smaps_rollup`.
pub(crate) fn parse_pss(bytes: &[u8]) -> Option<u64> {
    keyed(bytes, "Pss:")?.checked_mul(1024)
}

/// The PIDs of `/proc/PID/task/TID/children`.
pub(crate) fn parse_children(bytes: &[u8]) -> Vec<u32> {
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
pub(crate) fn process_of(thread: u32) -> Option<u32> {
    let status = read(&format!("/proc/{thread}/status")).ok()?;
    let line = status
        .split(|byte| *byte == b'\n')
        .find_map(|line| line.strip_prefix(b"Tgid:"))?;
    u32::try_from(number(words(line).next()?)?).ok()
}

/// The threads of a process.
///
/// # Errors
/// The process is gone.
pub(crate) fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let names = entries.map(|entry| entry.file_name());
    Ok(names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect())
}

/// Refreshes between two looks for children of processes that had none.
const LEAF_LOOKS: u32 = 5;
/// Most processes of one tier that are followed.
const PROCESSES: usize = 4096;

/// The processes of a tier: a first process and its descendants.
#[derive(Debug)]
pub(crate) struct Tree {
    root: u32,
    parents: HashSet<u32>,
    seen: HashSet<u32>,
    looks: u32,
}

impl Tree {
    pub(crate) fn new(root: u32) -> Self {
        Self {
            root,
            parents: HashSet::from([root]),
            seen: HashSet::new(),
            looks: 0,
        }
    }

    /// The processes there are now, the first one first.
    ///
    /// # Errors
    /// The first process is gone.
    pub(crate) fn refresh(&mut self) -> io::Result<Vec<u32>> {
        // Three hundred idle workers have no children: asking each of them every second is wasted.
        let look_at_all = self.looks.is_multiple_of(LEAF_LOOKS);
        self.looks = self.looks.wrapping_add(1);
        let mut pids = vec![self.root];
        let mut parents = HashSet::from([self.root]);
        let mut at = 0;
        while at < pids.len() && pids.len() < PROCESSES {
            let pid = pids[at];
            at += 1;
            if !look_at_all && !self.parents.contains(&pid) && self.seen.contains(&pid) {
                continue;
            }
            match children(pid) {
                Ok(found) if found.is_empty() => {}
                Ok(found) => {
                    parents.insert(pid);
                    pids.extend(found);
                }
                Err(why) if pid == self.root => return Err(why),
                Err(_) => {}
            }
        }
        self.parents = parents;
        self.seen = pids.iter().copied().collect();
        Ok(pids)
    }
}

/// A table of `/proc/PID/net/snmp` or `netstat`: the number below a column.
pub(crate) fn parse_counter(bytes: &[u8], table: &str, column: &str) -> Option<u64> {
    let prefix = format!("{table}:");
    let mut lines = bytes
        .split(|b| *b == b'\n')
        .filter_map(|line| line.strip_prefix(prefix.as_bytes()));
    let at = words(lines.next()?).position(|word| word == column.as_bytes())?;
    number(words(lines.next()?).nth(at)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_control_group_of_version_2_says_its_cpu_time() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(
            dir.path().join("cpu.stat"),
            "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n",
        )
        .expect("written");
        let cgroup = CgroupPaths {
            cpu: Some(dir.path().into()),
            ..CgroupPaths::default()
        };
        assert_eq!(cgroup_cpu_s(&cgroup), Some((2.5, 0.5)));
        assert_eq!(cgroup_cpu_s(&CgroupPaths::default()), None);
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let line = b"812 (php-fpm: (pool) www) S 800 800 800 0 -1 4194368 915 77 0 0 12 34 56 78 20 -5 1 0 \
            26213 224272384 3712 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 1 0 0 0 0 0";
        let stat = parse_stat(line).expect("stat");
        assert_eq!((stat.state, stat.user, stat.system), (b'S', 12, 34));
        assert_eq!((stat.children_user, stat.children_system), (56, 78));
        assert_eq!((stat.start, stat.own()), (26213, 46));
        assert_eq!(parse_stat(b"812 (php"), None);
    }

    #[test]
    fn keyed_numbers_need_the_whole_key() {
        let status = b"voluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(parse_switches(status), Some((150, 7)));
        let rollup = b"55d0-7ffc ---p 00000000 00:00 0 [rollup]\nRss: 9000 kB\nPss:    1200 kB\nPss_Anon: 3 kB\n";
        assert_eq!(parse_pss(rollup), Some(1200 * 1024));
        assert_eq!(keyed(b"nr_throttled 3\n", "nr"), None);
    }

    #[test]
    fn counters_are_found_by_column() {
        let text =
            b"Ip: A B\nIp: 1 2\nTcp: RtoMin MaxConn ActiveOpens RetransSegs\nTcp: 200 -1 17 4\n";
        assert_eq!(parse_counter(text, "Tcp", "ActiveOpens"), Some(17));
        assert_eq!(parse_counter(text, "Tcp", "RetransSegs"), Some(4));
        assert_eq!(parse_counter(text, "TcpExt", "ListenDrops"), None);
    }

    #[test]
    fn this_process_is_in_its_own_tree() {
        let mut tree = Tree::new(std::process::id());
        assert_eq!(tree.refresh().expect("we live")[0], std::process::id());
        assert!(Tree::new(u32::MAX).refresh().is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in "[0-9A-Za-z():\\- \n]{0,300}") {
            for bytes in [&bytes[..], text.as_bytes()] {
                parse_stat(bytes);
                parse_switches(bytes);
                parse_pss(bytes);
                parse_children(bytes);
                parse_counter(bytes, "Tcp", "ActiveOpens");
            }
        }
    }
}
