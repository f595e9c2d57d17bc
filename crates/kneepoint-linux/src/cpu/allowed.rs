//! The CPU time that is to be had here: all of the machine's, or in a container a part of it.

use super::CpuTicks;
use crate::cgroup::{self, Hierarchies};
use crate::file::read;
use procfs::process::Process;
use rustix::param::clock_ticks_per_second;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What this process and the stacks that it stands up may use of the machine's CPUs.
///
/// `/proc/stat` counts the whole machine, in a container too: CPUs that nobody here is ever given, and what its neighbours
/// use.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowed {
    /// Numbers of the CPUs that this process may run on (sched_setaffinity(2), cpuset).
    cpus: BTreeSet<usize>,
    quota: Option<Quota>,
}

/// The quota of the topmost group that is seen from here, below which labs have theirs: a container's, where this is one.
#[derive(Debug, Clone, PartialEq)]
struct Quota {
    cores: f64,
    /// The group's directories, as [`cgroup::cpu_s`] takes them.
    cpuacct: Option<PathBuf>,
    cpu: PathBuf,
}

/// How much of it was used until a moment.
#[derive(Debug, Clone, Copy)]
pub struct CpuUse {
    at: Instant,
    cores: f64,
    ticks: CpuTicks,
    /// Seconds of the group that has the quota.
    group_s: Option<f64>,
}

impl Allowed {
    /// Looks at what is allowed now. What cannot be read limits nothing.
    #[must_use]
    pub fn now() -> Self {
        let without = Self {
            cpus: own_cpus(),
            quota: None,
        };
        let quota = Quota::of(&Hierarchies::detect());
        Self {
            quota: quota.filter(|it| it.cores < without.cores()),
            ..without
        }
    }

    /// Cores that can be busy at once, on average: 1.5 with a quota of one and a half.
    #[must_use]
    pub fn cores(&self) -> f64 {
        let all = || match self.cpus.len() {
            0 => std::thread::available_parallelism().map_or(1, Into::into),
            cpus => cpus,
        };
        let quota = self.quota.as_ref();
        quota.map_or_else(|| all() as f64, |quota| quota.cores)
    }

    /// The quota in cores, where there is one that is less than the CPUs.
    #[must_use]
    pub fn quota_cores(&self) -> Option<f64> {
        Some(self.quota.as_ref()?.cores)
    }

    /// How much was used until now; `None` where `/proc/stat` cannot be read.
    #[must_use]
    pub fn used(&self) -> Option<CpuUse> {
        let ticks = CpuTicks::of(&read("/proc/stat").ok()?, &self.cpus)?;
        Some(self.used_by(ticks))
    }

    /// The same where `/proc/stat` was read already.
    fn used_by(&self, ticks: CpuTicks) -> CpuUse {
        let group_s = self
            .quota
            .as_ref()
            .and_then(|quota| Some(cgroup::cpu_s(quota.cpuacct.as_deref(), Some(&quota.cpu))?.0));
        CpuUse {
            at: Instant::now(),
            cores: match group_s {
                Some(_) => self.cores(),
                None => ticks.cpus as f64,
            },
            ticks,
            group_s,
        }
    }
}

impl Quota {
    fn of(hierarchies: &Hierarchies) -> Option<Self> {
        let cpu = hierarchies.cpu.as_ref()?.root.clone();
        Some(Self {
            cores: cgroup::quota_cores(&cpu)?,
            cpuacct: hierarchies.cpuacct.as_ref().map(|it| it.root.clone()),
            cpu,
        })
    }
}

impl CpuUse {
    /// Of a whole machine, by what its `/proc/stat` said at a moment; `None` where that is not what it says.
    #[must_use]
    pub fn of_machine(stat: &[u8], at: Instant) -> Option<Self> {
        let ticks = CpuTicks::parse(stat)?;
        Some(Self {
            at,
            cores: ticks.cpus as f64,
            ticks,
            group_s: None,
        })
    }

    /// When it was read.
    #[must_use]
    pub fn at(&self) -> Instant {
        self.at
    }

    /// Time since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Duration {
        self.at.duration_since(earlier.at)
    }

    /// Core seconds in programs and system calls since an earlier moment. Interrupts are left out: the stack's own network
    /// traffic makes most of them, and they are nobody's. Below a quota, what neighbours of the container used counts where it
    /// left less than the quota allows.
    #[must_use]
    pub fn running_s_since(&self, earlier: &Self) -> f64 {
        match self.group_s_since(earlier) {
            Some(group_s) => {
                let kept_s = self.idle_s_since(earlier) + self.stolen_s_since(earlier);
                group_s + (self.left_s(group_s, earlier) - kept_s).max(0.0)
            }
            None => seconds(self.ticks.running().saturating_sub(earlier.ticks.running())),
        }
    }

    /// Core seconds in which something could have run, and nothing was there to do it.
    #[must_use]
    pub fn idle_s_since(&self, earlier: &Self) -> f64 {
        self.at_most_left(earlier, CpuTicks::idling)
    }

    /// Core seconds that were neither idle nor stolen. Kernels without exact accounting look at each tick who runs, and so miss
    /// much of what runs shorter than that, while idle time is measured from its begin to its end (`NO_HZ`).
    #[must_use]
    pub fn busy_s_since(&self, earlier: &Self) -> f64 {
        let quiet = |ticks: &CpuTicks| ticks.idling().saturating_add(ticks.steal);
        let allowed_s = self.cores * self.since(earlier).as_secs_f64();
        (allowed_s - self.at_most_left(earlier, quiet)).max(0.0)
    }

    /// Core seconds that the hypervisor kept from the CPUs; below a quota, no more than that had left.
    #[must_use]
    pub fn stolen_s_since(&self, earlier: &Self) -> f64 {
        self.at_most_left(earlier, |ticks| ticks.steal)
    }

    /// Seconds of the CPUs by a count of ticks, and no more than the quota had left.
    fn at_most_left(&self, earlier: &Self, count: impl Fn(&CpuTicks) -> u64) -> f64 {
        let counted_s = seconds(count(&self.ticks).saturating_sub(count(&earlier.ticks)));
        match self.group_s_since(earlier) {
            Some(group_s) => counted_s.min(self.left_s(group_s, earlier)),
            None => counted_s,
        }
    }

    /// Core seconds that the quota allowed, and the group did not use.
    fn left_s(&self, group_s: f64, earlier: &Self) -> f64 {
        (self.cores * self.since(earlier).as_secs_f64() - group_s).max(0.0)
    }

    fn group_s_since(&self, earlier: &Self) -> Option<f64> {
        Some((self.group_s? - earlier.group_s?).max(0.0))
    }
}

/// The CPUs that the first thread of this process may run on; empty where the kernel does not say.
fn own_cpus() -> BTreeSet<usize> {
    let status = Process::myself().and_then(|own| own.status());
    let ranges = status.ok().and_then(|status| status.cpus_allowed_list);
    let each = ranges
        .into_iter()
        .flatten()
        .flat_map(|(first, last)| first..=last);
    each.map(|cpu| cpu as usize).collect()
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Ten seconds of two CPUs: `idle` and `stolen` core seconds of them, the rest in programs.
    fn later(before: &CpuUse, idle_s: u64, stolen_s: u64, group_s: Option<f64>) -> CpuUse {
        let per_second = clock_ticks_per_second();
        CpuUse {
            at: before.at + Duration::from_secs(10),
            ticks: CpuTicks {
                idle: before.ticks.idle + idle_s * per_second,
                steal: before.ticks.steal + stolen_s * per_second,
                user: before.ticks.user + (20 - idle_s - stolen_s) * per_second,
                ..before.ticks
            },
            group_s: group_s.map(|used_s| before.group_s.unwrap_or(0.0) + used_s),
            ..*before
        }
    }

    #[track_caller]
    fn check(cores: f64, idle_s: u64, stolen_s: u64, group_s: Option<f64>, expected: [f64; 3]) {
        let before = CpuUse {
            at: Instant::now(),
            cores,
            ticks: CpuTicks {
                cpus: 2,
                ..CpuTicks::default()
            },
            group_s: group_s.map(|_| 7.0),
        };
        let after = later(&before, idle_s, stolen_s, group_s);
        let all = [
            after.running_s_since(&before),
            after.idle_s_since(&before),
            after.busy_s_since(&before),
        ];
        let near = all
            .iter()
            .zip(expected)
            .all(|(is, want)| (is - want).abs() < 1e-6);
        assert!(near, "{all:?}, not {expected:?}");
    }

    #[test]
    fn a_whole_machine_is_as_proc_stat_has_it() {
        check(2.0, 5, 1, None, [14.0, 5.0, 14.0]);
    }

    #[test]
    fn below_a_quota_the_groups_own_use_counts() {
        // One core for ten seconds, of which the group used nine: neighbours were busy as well, and kept nothing from it.
        check(1.0, 5, 0, Some(9.0), [9.0, 1.0, 9.0]);
        // A machine that is idle but for the group: what the quota does not allow is no idle time.
        check(1.0, 10, 0, Some(10.0), [10.0, 0.0, 10.0]);
    }

    #[test]
    fn what_neighbours_took_of_the_quota_is_running_and_not_idle() {
        // A core and a half for ten seconds. Six were used, and of the nine that are left the machine had only two to give.
        check(1.5, 2, 0, Some(6.0), [13.0, 2.0, 13.0]);
        check(1.5, 2, 3, Some(6.0), [10.0, 2.0, 10.0]);
    }

    #[test]
    fn a_quota_is_that_of_the_topmost_group_in_sight() {
        let dir = tempfile::tempdir().expect("a directory");
        let write =
            |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
        write("cgroup.controllers", "cpu memory");
        write("cpu.max", "150000 100000\n");
        write(
            "cpu.stat",
            "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n",
        );
        let mounts = format!(
            "29 25 0:26 / {} rw - cgroup2 cgroup2 rw",
            dir.path().display()
        );
        let found = |mounts: &str| {
            Quota::of(&Hierarchies::from_mounts(mounts, |root| {
                fs::read_to_string(root.join("cgroup.controllers")).expect("a file")
            }))
        };
        let allowed = |cpus: usize| Allowed {
            cpus: (0..cpus).collect(),
            quota: found(&mounts),
        };
        assert_eq!(allowed(4).cores(), 1.5);
        let used = allowed(4).used_by(CpuTicks::default());
        assert_eq!((used.cores, used.group_s), (1.5, Some(2.5)));
        write("cpu.max", "max 100000\n");
        assert_eq!((found(&mounts), allowed(4).cores()), (None, 4.0));
    }

    #[test]
    fn this_process_may_use_something() {
        let allowed = Allowed::now();
        assert!(allowed.cores() > 0.0, "{allowed:?}");
        let before = allowed.used().expect("/proc/stat");
        let after = allowed.used().expect("/proc/stat");
        assert!(after.at() >= before.at() && after.busy_s_since(&before) >= 0.0);
    }
}
