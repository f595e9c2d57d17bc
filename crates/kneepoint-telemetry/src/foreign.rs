//! Whose CPU time it was: the stack's tiers', this program's, others', nobody's.

use kneepoint_linux::clock::process_cpu;
use kneepoint_linux::{Allowed, CpuUse, Stat, Tree, cgroup};
use kneepoint_model::{CgroupPaths, RunningTier};
use rustix::param::clock_ticks_per_second;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

/// What is to be had here. Found out once: it changes only where somebody gives a container that runs other limits.
pub(crate) static ALLOWED: LazyLock<Allowed> = LazyLock::new(Allowed::now);

/// The account of the CPU time that is to be had here, at a moment: the machine's, or in a container its part of it.
#[derive(Debug, Clone)]
pub struct CpuAccount {
    machine: CpuUse,
    /// Seconds of programs and system calls of each tier, by its first process.
    tiers_s: BTreeMap<u32, f64>,
    /// What of it the jobs on its host took.
    jobs_s: BTreeMap<u32, f64>,
    /// The same of this process, and of what works for it.
    own_s: f64,
}

impl CpuAccount {
    /// Reads the account; `None` where `/proc/stat` cannot be read. A tier that cannot be read counts as others'.
    #[must_use]
    pub fn read<'t>(tiers: impl IntoIterator<Item = &'t RunningTier>) -> Option<Self> {
        let tiers: Vec<&RunningTier> = tiers.into_iter().collect();
        let with_jobs = tiers.iter().filter(|tier| !tier.jobs.is_empty());
        let jobs_s: BTreeMap<u32, f64> = with_jobs.map(|tier| (tier.pid, jobs_s(tier))).collect();
        let tier_s = |tier: &RunningTier| {
            let jobs_s = jobs_s.get(&tier.pid).copied().unwrap_or(0.0);
            Some((tier.pid, tier_s(tier, jobs_s)?))
        };
        let tiers_s = tiers.iter().filter_map(|tier| tier_s(tier)).collect();
        let own = process_cpu();
        Some(Self {
            machine: ALLOWED.used()?,
            tiers_s,
            jobs_s,
            own_s: own.as_secs_f64(),
        })
    }

    /// The same where other programs of this machine work for this process, such as generators and doubles, each with its first
    /// process and control group: what they use is its own.
    #[must_use]
    pub fn read_with<'t>(
        tiers: impl IntoIterator<Item = &'t RunningTier>,
        helpers: &[(u32, CgroupPaths)],
    ) -> Option<Self> {
        let mut account = Self::read(tiers)?;
        let used = helpers
            .iter()
            .filter_map(|(pid, group)| group_s(*pid, group));
        account.own_s += used.sum::<f64>();
        Some(account)
    }

    /// How long ago it was read.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.machine.at().elapsed()
    }

    /// Cores that others used on average since an earlier account; 0 where less than a clock tick passed.
    #[must_use]
    pub fn foreign_cores_since(&self, earlier: &Self) -> f64 {
        let known_s = self.tiers_s_since(earlier) + self.own_s - earlier.own_s;
        let running_s = self.machine.running_s_since(&earlier.machine);
        self.cores_since(earlier, running_s - known_s)
    }

    /// Time since an earlier account.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Duration {
        self.machine.since(&earlier.machine)
    }

    /// Cores that had nothing to run, on average since an earlier account; 0 where less than a clock tick passed.
    #[must_use]
    pub fn idle_cores_since(&self, earlier: &Self) -> f64 {
        self.cores_since(earlier, self.machine.idle_s_since(&earlier.machine))
    }

    /// Core seconds since an earlier account as cores; 0 where less than a clock tick passed.
    fn cores_since(&self, earlier: &Self, core_s: f64) -> f64 {
        let elapsed_s = self.since(earlier).as_secs_f64();
        match elapsed_s < 0.01 {
            true => 0.0,
            false => (core_s / elapsed_s).max(0.0),
        }
    }

    /// CPU seconds that the tiers used since an earlier account.
    #[must_use]
    pub fn tiers_s_since(&self, earlier: &Self) -> f64 {
        self.some_tiers_s_since(earlier, |_| true)
    }

    /// CPU seconds that some of the tiers used for requests since an earlier account, and not for the jobs on their hosts: those
    /// whose first process `counts` names.
    #[must_use]
    pub fn for_requests_s_since(&self, earlier: &Self, counts: impl Fn(u32) -> bool) -> f64 {
        let jobs = self.jobs_s.iter().filter(|(pid, _)| counts(**pid));
        let jobs_s: f64 = jobs
            .filter_map(|(pid, now)| Some(now - earlier.jobs_s.get(pid)?))
            .sum();
        // What a job started and nobody waited for is missing in the later account.
        (self.some_tiers_s_since(earlier, counts) - jobs_s.max(0.0)).max(0.0)
    }

    /// CPU seconds that some of the tiers used since an earlier account, jobs included.
    fn some_tiers_s_since(&self, earlier: &Self, counts: impl Fn(u32) -> bool) -> f64 {
        self.tiers_s
            .iter()
            .filter(|(pid, _)| counts(**pid))
            .filter_map(|(pid, now)| Some(now - earlier.tiers_s.get(pid)?))
            .sum()
    }
}

/// CPU time in seconds, all and in the kernel, as a tier's control group accounts it.
pub(crate) fn cgroup_cpu_s(group: &CgroupPaths) -> Option<(f64, f64)> {
    cgroup::cpu_s(group.cpuacct.as_deref(), group.cpu.as_deref())
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second().max(1) as f64
}

/// CPU seconds of a tier and of the jobs on its host, which its control group counts as well.
fn tier_s(tier: &RunningTier, jobs_s: f64) -> Option<f64> {
    if let Some((all_s, _)) = cgroup_cpu_s(&tier.cgroup) {
        return Some(all_s);
    }
    Some(tree_s(tier.pid)? + jobs_s)
}

/// CPU seconds of the jobs on a tier's host.
fn jobs_s(tier: &RunningTier) -> f64 {
    let jobs = tier.jobs.iter().filter_map(|(_, pid)| tree_s(*pid));
    jobs.sum()
}

/// CPU seconds of a program as its control group accounts it, or else of its processes.
fn group_s(pid: u32, group: &CgroupPaths) -> Option<f64> {
    match cgroup_cpu_s(group) {
        Some((all_s, _)) => Some(all_s),
        None => tree_s(pid),
    }
}

/// CPU seconds of a program's processes, those that ended included.
fn tree_s(pid: u32) -> Option<f64> {
    let ticks = Tree::new(pid)
        .refresh()
        .ok()?
        .into_iter()
        .filter_map(|pid| Some(Stat::of(pid)?.with_children()));
    Some(seconds(ticks.sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::tier_without_doors;
    use std::time::Instant;

    /// An account of two cores.
    fn account(at_s: u64, machine_s: f64, tiers_s: &[(u32, f64)], own_s: f64) -> CpuAccount {
        let ticks = |core_s: f64| (core_s * clock_ticks_per_second() as f64) as u64;
        let (user, idle) = (
            ticks(machine_s),
            ticks(2.0 * at_s as f64 - machine_s + 200.0),
        );
        let stat = format!("cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 0\ncpu1 0\n");
        let at = Instant::now() + Duration::from_secs(at_s);
        CpuAccount {
            machine: CpuUse::of_machine(stat.as_bytes(), at).expect("complete"),
            tiers_s: tiers_s.iter().copied().collect(),
            jobs_s: BTreeMap::new(),
            own_s,
        }
    }

    #[test]
    fn what_neither_the_stack_nor_this_program_used_is_others() {
        let before = account(0, 100.0, &[(7, 10.0), (8, 5.0)], 1.0);
        let after = account(10, 118.0, &[(7, 14.0), (9, 3.0)], 3.0);
        // Of 18 core seconds, 4 are a tier's and 2 our own; a tier that was not there before says nothing.
        let foreign = after.foreign_cores_since(&before);
        assert!((foreign - 1.2).abs() < 1e-3, "{foreign}");
        assert!(before.foreign_cores_since(&before).abs() < 1e-9);
        // Of 20 core seconds, 18 were used.
        let idle = after.idle_cores_since(&before);
        assert!((idle - 0.2).abs() < 1e-3, "{idle}");
    }

    #[test]
    fn each_arms_tiers_have_an_account_of_their_own() {
        let before = account(0, 100.0, &[(7, 10.0), (8, 5.0)], 1.0);
        let after = account(10, 118.0, &[(7, 14.0), (8, 5.5)], 3.0);
        let of = |pids: &[u32]| after.some_tiers_s_since(&before, |pid| pids.contains(&pid));
        assert!((of(&[7]) - 4.0).abs() < 1e-9);
        assert!((of(&[8, 9]) - 0.5).abs() < 1e-9);
        assert!((after.tiers_s_since(&before) - 4.5).abs() < 1e-9);
    }

    #[test]
    fn what_a_job_took_no_request_did() {
        let with_job = |at_s, tier_s, job_s| CpuAccount {
            jobs_s: BTreeMap::from([(7, job_s)]),
            ..account(at_s, 100.0, &[(7, tier_s), (8, tier_s)], 0.0)
        };
        let (before, after) = (with_job(0, 10.0, 4.0), with_job(10, 16.0, 6.0));
        assert_eq!(after.for_requests_s_since(&before, |pid| pid == 7), 4.0);
        assert_eq!(after.for_requests_s_since(&before, |_| true), 10.0);
        assert_eq!(after.tiers_s_since(&before), 12.0);
    }

    #[test]
    fn a_job_is_not_foreign_where_no_control_group_counts_it() {
        let mut tier = tier_without_doors(std::process::id());
        let used_s = |tier: &RunningTier| tier_s(tier, jobs_s(tier)).expect("we live");
        while used_s(&tier) < 0.1 {
            std::hint::spin_loop();
        }
        let alone_s = used_s(&tier);
        tier.jobs.push(("backup".to_owned(), tier.pid));
        assert!(used_s(&tier) >= 2.0 * alone_s);
    }

    #[test]
    fn this_process_is_not_foreign_to_itself() {
        let before = CpuAccount::read([]).expect("/proc/stat");
        let until = Instant::now() + Duration::from_millis(300);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let after = CpuAccount::read([]).expect("/proc/stat");
        let own = after.own_s - before.own_s;
        let machine = after.machine.running_s_since(&before.machine);
        assert!(own > 0.0 && machine >= 0.0, "{own} {machine}");
        let others = after.foreign_cores_since(&before) * 0.3;
        assert!(others <= machine - own + 0.15, "{others} {machine} {own}");
    }
}
