//! What `/proc` and the control groups say of a process.

mod groups;
mod namespace;
mod program;

pub(crate) use groups::{container, limits, unit};
pub(crate) use namespace::sysctls;
pub(crate) use program::{Marks, Program, program};

use kneepoint_linux::process::parse_name;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

/// Ticks of a second in `/proc` (proc(5): always 100 on Linux).
const TICKS_HZ: f64 = 100.0;
/// Most processes of a machine that are looked at.
const PROCESSES: usize = 200_000;

/// A process.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ServiceProcess {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    /// The name of its program, at most 15 bytes.
    pub(crate) comm: String,
    /// Its program, as it sees the path; empty where that may not be read.
    pub(crate) exe: String,
    /// Its command line, or what it wrote over it.
    pub(crate) args: Vec<String>,
    /// When it was started, in seconds since 1970.
    pub(crate) started_s: f64,
    /// CPU time with that of its children that ended, in seconds.
    pub(crate) cpu_s: f64,
}

impl ServiceProcess {
    /// The name of its program without directories.
    pub(crate) fn program(&self) -> &str {
        let exe = self.exe.strip_suffix(" (deleted)").unwrap_or(&self.exe);
        exe.rsplit('/').next().unwrap_or_default()
    }

    /// Its title.
    pub(crate) fn title(&self) -> String {
        self.args.join(" ").trim().to_owned()
    }
}

/// Every process that can be seen.
pub(crate) fn all() -> Vec<ServiceProcess> {
    let boot = boot_s();
    let pids = kneepoint_linux::process::all().into_iter();
    pids.take(PROCESSES)
        .filter_map(|pid| one(pid, boot))
        .collect()
}

/// One process; `None` when it is gone, or a thread of the kernel.
fn one(pid: u32, boot_s: f64) -> Option<ServiceProcess> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let (parent, comm, cpu_ticks, start_ticks) = parse_stat(&stat)?;
    let args = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let args: Vec<String> = split_zeros(&args);
    if args.is_empty() {
        return None;
    }
    let exe = link(pid, "exe").unwrap_or_default();
    let root = link(pid, "root").unwrap_or_default();
    Some(ServiceProcess {
        pid,
        parent,
        comm,
        exe: within(&exe, &root),
        args,
        started_s: boot_s + start_ticks / TICKS_HZ,
        cpu_s: cpu_ticks / TICKS_HZ,
    })
}

/// Where a link of a process leads.
pub(crate) fn link(pid: u32, name: &str) -> Option<String> {
    let target = fs::read_link(format!("/proc/{pid}/{name}")).ok()?;
    Some(target.to_string_lossy().into_owned())
}

/// A path as a process with another root directory sees it.
pub(crate) fn within(path: &str, root: &str) -> String {
    match path.strip_prefix(root) {
        Some(rest) if root != "/" && rest.starts_with('/') => rest.to_owned(),
        _ => path.to_owned(),
    }
}

/// Its working directory, as it sees the path.
pub(crate) fn working_dir(pid: u32) -> String {
    let root = link(pid, "root").unwrap_or_default();
    within(&link(pid, "cwd").unwrap_or_else(|| "/".into()), &root)
}

/// The environment it was started with, as far as it has not written over it.
pub(crate) fn environment(pid: u32) -> Vec<(String, String)> {
    let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let pair = |word: String| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    split_zeros(&bytes).into_iter().filter_map(pair).collect()
}

fn split_zeros(bytes: &[u8]) -> Vec<String> {
    let words = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// Parent, name, CPU time with that of ended children and start, both in ticks, of `/proc/PID/stat`.
fn parse_stat(stat: &[u8]) -> Option<(u32, String, f64, f64)> {
    let comm = parse_name(stat)?;
    let stat = kneepoint_linux::process::parse_stat(stat)?;
    let (cpu, start) = (stat.with_children() as f64, stat.start as f64);
    Some((stat.parent, comm, cpu, start))
}

/// When the machine was booted, in seconds since 1970. `btime` of `/proc/stat` would be a second off.
fn boot_s() -> f64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let uptime: f64 = text
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(0.0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0.0, |now| now.as_secs_f64() - uptime)
}

/// The inode of a namespace of a process.
pub(crate) fn namespace(pid: u32, name: &str) -> Option<u64> {
    let about = fs::metadata(format!("/proc/{pid}/ns/{name}")).ok()?;
    Some(about.ino())
}

/// Whether a process has the same root directory as we.
pub(crate) fn shares_root(pid: u32) -> bool {
    let key = |pid: &str| {
        let about = fs::metadata(format!("/proc/{pid}/root/")).ok()?;
        Some((about.dev(), about.ino()))
    };
    key(&pid.to_string()) == key("self")
}

/// Memory of a process.
pub(crate) fn memory_size(pid: u32) -> Option<kneepoint_linux::process::MemorySize> {
    kneepoint_linux::process::memory_size(pid).ok()?
}

/// Whether a worker of PHP-FPM serves a request: it is not in accept(2).
pub(crate) fn is_busy(pid: u32) -> Option<bool> {
    /// `accept` and `accept4` of x86-64 and of the generic table (aarch64).
    #[cfg(target_arch = "x86_64")]
    const ACCEPT: [&str; 2] = ["43", "288"];
    #[cfg(not(target_arch = "x86_64"))]
    const ACCEPT: [&str; 2] = ["202", "242"];
    let text = fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let call = text.split_ascii_whitespace().next()?;
    Some(!ACCEPT.contains(&call))
}

/// The soft limit of open files of a process.
pub(crate) fn file_limit(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Cores a process may run on.
pub(crate) fn allowed_cores(pid: u32) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let list = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let cores = list.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<f64>().ok()? - first.parse::<f64>().ok()? + 1.0)
    });
    Some(cores.sum()).filter(|sum| *sum > 0.0)
}

/// The number behind a key at the start of a line.
pub(crate) fn keyed(text: &str, key: &str) -> Option<f64> {
    kneepoint_linux::file::keyed(text.as_bytes(), key).map(|number| number as f64)
}

/// Memory of the machine: all of it, and what could be given out now, in bytes.
pub(crate) fn memory_bytes() -> (f64, f64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |key| keyed(&text, key).unwrap_or(0.0) * 1024.0;
    (bytes("MemTotal:"), bytes("MemAvailable:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = b"7 (a) b (c)) S 1 7 7 0 -1 4194560 1 2 3 4 100 50 20 10 20 0 1 0 8000 1 1";
        let (parent, comm, cpu, start) = parse_stat(stat).expect("parsed");
        assert_eq!(
            (parent, comm.as_str(), cpu, start),
            (1, "a) b (c)", 180.0, 8000.0)
        );
        assert_eq!(parse_stat(b"7 (x"), None);
    }

    #[test]
    fn paths_are_told_as_their_process_sees_them() {
        assert_eq!(within("/jail/usr/sbin/nginx", "/jail"), "/usr/sbin/nginx");
        assert_eq!(within("/usr/sbin/nginx", "/"), "/usr/sbin/nginx");
        assert_eq!(within("/jailed/x", "/jail"), "/jailed/x");
    }

    #[test]
    fn a_process_that_is_gone_is_none() {
        assert_eq!(one(u32::MAX, 0.0), None);
        assert_eq!(memory_size(u32::MAX), None);
        assert_eq!(environment(u32::MAX), []);
        let own = one(std::process::id(), boot_s()).expect("this one");
        assert!(own.started_s > 1.5e9 && !own.exe.is_empty(), "{own:?}");
        assert!(shares_root(own.pid) && allowed_cores(own.pid) >= Some(1.0));
    }
}
