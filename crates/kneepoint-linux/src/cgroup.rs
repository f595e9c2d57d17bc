//! Control groups, version 1, 2 and mixed: where their controllers are, whom they hold, and the CPU time they account.

use crate::file::{keyed, number, read};
use procfs::process::{MountInfo, Process};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Which interface a hierarchy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy for all.
    V2,
}

/// Where a controller is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    /// The mount point.
    pub root: PathBuf,
    /// Its interface.
    pub version: Version,
}

/// The hierarchies of this machine that limit or account what a stack uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hierarchies {
    /// Limits CPU time, and accounts it in version 2.
    pub cpu: Option<Hierarchy>,
    /// Accounts CPU time in version 1.
    pub cpuacct: Option<Hierarchy>,
    /// Limits memory.
    pub memory: Option<Hierarchy>,
    /// Limits what a disk does for its processes (`blkio` in version 1).
    pub io: Option<Hierarchy>,
}

impl Hierarchies {
    /// Finds the controllers. A controller is in version 1 or in version 2, never in both.
    #[must_use]
    pub fn detect() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self::from_mounts(&mounts, |root| {
            fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default()
        })
    }

    pub(crate) fn from_mounts(mounts: &str, controllers_of: impl Fn(&Path) -> String) -> Self {
        let mut found = Self::default();
        for mount in mounts
            .lines()
            .filter_map(|line| MountInfo::from_line(line).ok())
        {
            let (version, controllers): (_, Vec<String>) = match mount.fs_type.as_str() {
                "cgroup" => (Version::V1, mount.super_options.into_keys().collect()),
                "cgroup2" => {
                    let controllers = controllers_of(&mount.mount_point);
                    let controllers = controllers.split_whitespace().map(str::to_owned);
                    (Version::V2, controllers.collect())
                }
                _ => continue,
            };
            let hierarchy = Hierarchy {
                root: mount.mount_point,
                version,
            };
            for controller in &controllers {
                let slot = match (controller.as_str(), version) {
                    ("cpu", _) => &mut found.cpu,
                    ("cpuacct", Version::V1) => &mut found.cpuacct,
                    ("memory", _) => &mut found.memory,
                    ("blkio", Version::V1) | ("io", Version::V2) => &mut found.io,
                    _ => continue,
                };
                slot.get_or_insert_with(|| hierarchy.clone());
            }
        }
        found
    }

    /// The mount points, each once.
    #[must_use]
    pub fn roots(&self) -> BTreeSet<&Path> {
        [&self.cpu, &self.cpuacct, &self.memory, &self.io]
            .into_iter()
            .flatten()
            .map(|hierarchy| hierarchy.root.as_path())
            .collect()
    }
}

/// The processes in a group and the groups below it.
#[must_use]
pub fn pids_below(group: &Path) -> BTreeSet<u32> {
    let own = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    own.lines()
        .filter_map(|line| line.parse().ok())
        .chain(children(group).iter().flat_map(|child| pids_below(child)))
        .collect()
}

/// The groups directly below a group.
#[must_use]
pub fn children(group: &Path) -> Vec<PathBuf> {
    fs::read_dir(group)
        .into_iter()
        .flat_map(|entries| entries.flatten())
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// The paths of a process's groups within their hierarchies; empty when it is gone.
#[must_use]
pub fn of_process(pid: u32) -> Vec<String> {
    let groups = i32::try_from(pid)
        .ok()
        .and_then(|pid| Process::new(pid).ok()?.cgroups().ok());
    groups
        .into_iter()
        .flatten()
        .map(|group| group.pathname)
        .collect()
}

/// Cores that a group may use on average, by its quota; `None` where it has none. The group is known by its directory of `cpu`.
#[must_use]
pub fn quota_cores(cpu: &Path) -> Option<f64> {
    let text = |name: &str| fs::read_to_string(cpu.join(name)).ok();
    let cores = match text("cpu.max") {
        Some(both) => {
            let (quota, period) = both.trim().split_once(' ')?;
            quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?
        }
        // -1 is none.
        None => {
            let number = |name| text(name)?.trim().parse::<f64>().ok();
            number("cpu.cfs_quota_us")? / number("cpu.cfs_period_us")?
        }
    };
    (cores.is_finite() && cores > 0.0).then_some(cores)
}

/// A limit of version 1 that means none: the largest multiple of a page that fits.
const NO_LIMIT_BYTES: u64 = 9_000_000_000_000_000_000;

/// Memory of a group that has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The most it may use.
    pub limit_bytes: u64,
    /// What it uses, without what the kernel keeps of files and can give up: a group that reads much is soon full of that.
    pub used_bytes: u64,
}

impl Memory {
    /// Of the group with this directory of `memory`; `None` where it has no limit.
    #[must_use]
    pub fn of(group: &Path) -> Option<Self> {
        let bytes = |name: &str| number(&read(group.join(name).to_str()?).ok()?);
        let limit_bytes = bytes("memory.max").or_else(|| bytes("memory.limit_in_bytes"))?;
        let used = bytes("memory.current").or_else(|| bytes("memory.usage_in_bytes"));
        let stat = read(group.join("memory.stat").to_str()?).unwrap_or_default();
        let kept = |all: &str, own: &str| keyed(&stat, all).or_else(|| keyed(&stat, own));
        let files = [
            kept("total_inactive_file", "inactive_file"),
            kept("total_active_file", "active_file"),
            kept("total_slab_reclaimable", "slab_reclaimable"),
        ];
        let files = files.into_iter().flatten().fold(0, u64::saturating_add);
        (limit_bytes < NO_LIMIT_BYTES).then(|| Self {
            limit_bytes,
            used_bytes: used.unwrap_or(0).saturating_sub(files),
        })
    }

    /// What could be given out now, as a share of the limit.
    #[must_use]
    pub fn available(&self) -> f64 {
        1.0 - (self.used_bytes as f64 / self.limit_bytes.max(1) as f64).min(1.0)
    }
}

/// CPU time in seconds, all and in the kernel, as a control group accounts it, processes that are gone included. The
/// group is known by its directory of `cpuacct` (version 1) or of `cpu` (version 2).
#[must_use]
pub fn cpu_s(cpuacct: Option<&Path>, cpu: Option<&Path>) -> Option<(f64, f64)> {
    if let Some(dir) = cpuacct {
        let nanoseconds = |name: &str| number(&read(dir.join(name).to_str()?).ok()?);
        return Some((
            nanoseconds("cpuacct.usage")? as f64 / 1e9,
            nanoseconds("cpuacct.usage_sys")? as f64 / 1e9,
        ));
    }
    let stat = read(cpu?.join("cpu.stat").to_str()?).ok()?;
    let microseconds = |key| Some(keyed(&stat, key)? as f64 / 1e6);
    Some((microseconds("usage_usec")?, microseconds("system_usec")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mounts: &str, v2: &str, expected: [Option<(&str, Version)>; 3]) {
        let found = Hierarchies::from_mounts(mounts, |_| v2.to_owned());
        let shown = [&found.cpu, &found.cpuacct, &found.memory].map(|slot| {
            slot.as_ref()
                .map(|it| (it.root.to_str().expect("UTF-8"), it.version))
        });
        assert_eq!(shown, expected);
    }

    const V1: &str = "\
30 25 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

    #[test]
    fn controllers_are_found_in_v1() {
        let both = Some(("/sys/fs/cgroup/cpu,cpuacct", Version::V1));
        let memory = Some(("/sys/fs/cgroup/memory", Version::V1));
        check(V1, "", [both, both, memory]);
    }

    #[test]
    fn controllers_are_found_in_v2() {
        let mounts = "29 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate";
        let root = Some(("/sys/fs/cgroup", Version::V2));
        check(mounts, "cpuset cpu io memory pids", [root, None, root]);
        check(mounts, "pids", [None, None, None]);
    }

    #[test]
    fn a_mixed_machine_uses_each_controller_where_it_is() {
        let mounts = "\
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
        let cpu = Some(("/sys/fs/cgroup/unified", Version::V2));
        let memory = Some(("/sys/fs/cgroup/memory", Version::V1));
        check(mounts, "cpu io", [cpu, None, memory]);
    }

    #[test]
    fn a_group_of_version_2_says_its_cpu_time() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(
            dir.path().join("cpu.stat"),
            "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n",
        )
        .expect("written");
        assert_eq!(cpu_s(None, Some(dir.path())), Some((2.5, 0.5)));
        assert_eq!(cpu_s(None, None), None);
    }

    #[test]
    fn a_quota_is_told_in_cores() {
        let dir = tempfile::tempdir().expect("a directory");
        let check = |files: &[(&str, &str)], expected: Option<f64>| {
            for (name, text) in files {
                fs::write(dir.path().join(name), text).expect("written");
            }
            assert_eq!(quota_cores(dir.path()), expected, "{files:?}");
        };
        check(&[], None);
        let period = ("cpu.cfs_period_us", "100000\n");
        check(&[period, ("cpu.cfs_quota_us", "-1\n")], None);
        check(&[period, ("cpu.cfs_quota_us", "50000\n")], Some(0.5));
        check(&[("cpu.max", "max 100000\n")], None);
        check(&[("cpu.max", "250000 100000\n")], Some(2.5));
        check(&[("cpu.max", "1 0\n")], None);
        check(&[("cpu.max", "\n")], None);
    }

    #[test]
    fn the_memory_of_a_group_is_what_its_limit_leaves() {
        let dir = tempfile::tempdir().expect("a directory");
        let write =
            |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        let memory = || Memory::of(dir.path());
        assert_eq!(memory(), None);
        write("memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(memory(), None);
        write("memory.limit_in_bytes", "1000\n");
        write("memory.usage_in_bytes", "900\n");
        write("memory.stat", "inactive_file 50\ntotal_inactive_file 400\n");
        assert_eq!(
            memory().map(|it| (it.limit_bytes, it.used_bytes)),
            Some((1000, 500))
        );
        write("memory.max", "2000\n");
        write("memory.current", "500\n");
        write(
            "memory.stat",
            "anon 100\ninactive_file 200\nactive_file 60\nslab_reclaimable 40\n",
        );
        assert_eq!(memory().map(|it| it.available()), Some(0.9));
        write("memory.max", "max\n");
        write("memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(memory(), None);
    }

    #[test]
    fn this_process_is_in_a_group_where_there_are_any() {
        let mounted = Hierarchies::detect() != Hierarchies::default();
        assert!(!mounted || !of_process(std::process::id()).is_empty());
        assert!(of_process(u32::MAX).is_empty());
    }
}
