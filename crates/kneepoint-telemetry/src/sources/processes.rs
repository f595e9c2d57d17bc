//! CPU time and context switches of the processes of a tier.

use crate::foreign::cgroup_cpu_s;
use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_linux::file::read_once;
use kneepoint_linux::process::{parse_stat, parse_switches};
use kneepoint_linux::{Kept, Stat, Tree};
use kneepoint_model::metric::{
    CONTEXT_SWITCHES, CONTEXT_SWITCHES_FORCED, CPU_HOTTEST, CPU_S, CPU_SYSTEM_S, PROCESSES,
};
use kneepoint_model::{CgroupPaths, Layer, RunningTier};
use rustix::param::clock_ticks_per_second;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "processes",
    about: "CPU time, the hottest process, process count and context switches of a tier",
    requirements: "/proc with CONFIG_PROC_CHILDREN; a control group per host makes CPU time exact to the nanosecond",
    overhead: "about 4 us a process and second, and 5 us more for each of 100 whose context switches are read",
    cadence: Duration::from_secs(1),
    metrics: &[
        CPU_S,
        CPU_SYSTEM_S,
        CPU_HOTTEST,
        PROCESSES,
        CONTEXT_SWITCHES,
        CONTEXT_SWITCHES_FORCED,
    ],
    lane: Lane::Trend,
    open: Open::Tier(|tier| Some(Box::new(Processes::new(tier)))),
};

/// Most processes whose context switches are read in one sample; more take turns.
const SWITCHES: usize = 100;

struct Processes {
    tree: Tree,
    stats: Kept,
    cgroup: CgroupPaths,
    /// Whether the first thread of a process is looked at for the hottest, and not all of them.
    first_thread: bool,
    sampled: Instant,
    known: HashMap<u32, Known>,
    cpu: [f64; 2],
    switches_of_the_gone: (u64, u64),
    turn: usize,
}

/// CPU time of a process in ticks, or of its first thread alone: Redis runs all commands in that one, and its other threads
/// (`io-threads`) keep no command waiting.
fn ticks_of(pid: u32, stat: &Stat, first_thread: bool) -> Option<u64> {
    if !first_thread {
        return Some(stat.own());
    }
    let mut buffer = [0; 512];
    let of_thread = read_once(&format!("/proc/{pid}/task/{pid}/stat"), &mut buffer).ok()?;
    Some(parse_stat(of_thread)?.own())
}

/// What a process had at the sample before.
#[derive(Clone, Copy)]
struct Known {
    start: u64,
    ticks: Option<u64>,
    switches: (u64, u64),
}

impl Processes {
    fn new(tier: &RunningTier) -> Self {
        Self {
            tree: Tree::new(tier.pid),
            stats: Kept::new("stat"),
            cgroup: tier.cgroup.clone(),
            first_thread: tier.layer == Layer::Cache,
            sampled: Instant::now(),
            known: HashMap::new(),
            cpu: [0.0; 2],
            switches_of_the_gone: (0, 0),
            turn: 0,
        }
    }

    /// Pushes CPU time. It never falls: a child that ends between two reads is missing in one sample.
    fn push_cpu(&mut self, sink: &mut Sink, total_s: f64, system_s: f64) {
        for (at, (metric, now_s)) in [(CPU_S, total_s), (CPU_SYSTEM_S, system_s)]
            .into_iter()
            .enumerate()
        {
            self.cpu[at] = self.cpu[at].max(now_s);
            sink.push(metric, self.cpu[at]);
        }
    }

    /// Replaces what is known by what was read; what is gone leaves its context switches behind.
    fn learn(&mut self, stats: &[(u32, Stat, Option<u64>)]) {
        let turns = stats.len().div_ceil(SWITCHES).max(1);
        self.turn = (self.turn + 1) % turns;
        let mut buffer = [0; 4096];
        let mut now = HashMap::with_capacity(stats.len());
        for (at, (pid, stat, ticks)) in stats.iter().enumerate() {
            let before = self
                .known
                .get(pid)
                .filter(|known| known.start == stat.start);
            let mut switches = before.map_or((0, 0), |known| known.switches);
            if before.is_none() || at % turns == self.turn {
                let status = read_once(&format!("/proc/{pid}/status"), &mut buffer);
                switches = status.ok().and_then(parse_switches).unwrap_or(switches);
            }
            now.insert(
                *pid,
                Known {
                    start: stat.start,
                    ticks: *ticks,
                    switches,
                },
            );
        }
        for (pid, known) in &self.known {
            if now.get(pid).is_none_or(|after| after.start != known.start) {
                self.switches_of_the_gone.0 += known.switches.0;
                self.switches_of_the_gone.1 += known.switches.1;
            }
        }
        let pids: Vec<u32> = now.keys().copied().collect();
        self.stats.retain(&pids);
        self.known = now;
    }
}

impl Probe for Processes {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let pids = self
            .tree
            .refresh()
            .map_err(|why| Failure(format!("the tier's first process is gone: {why}")))?;
        let now = Instant::now();
        let elapsed_s = now.duration_since(self.sampled).as_secs_f64();
        self.sampled = now;
        let per_second = clock_ticks_per_second().max(1) as f64;
        let mut buffer = [0; 512];
        let first_thread = self.first_thread;
        let stats: Vec<(u32, Stat, Option<u64>)> = pids
            .iter()
            .filter_map(|pid| {
                let stat = parse_stat(self.stats.read(*pid, &mut buffer).ok()?)?;
                Some((*pid, stat, ticks_of(*pid, &stat, first_thread)))
            })
            .collect();
        let sum = |of: fn(&Stat) -> u64| {
            let each = stats.iter().map(|(_, stat, _)| of(stat) as f64);
            each.sum::<f64>() / per_second
        };
        let all_s = sum(Stat::with_children);
        let system_s = sum(|s| s.system.saturating_add(s.children_system));
        let (all_s, system_s) = cgroup_cpu_s(&self.cgroup).unwrap_or((all_s, system_s));
        self.push_cpu(sink, all_s, system_s);
        let hottest = stats.iter().filter_map(|(pid, stat, ticks)| {
            let before = self
                .known
                .get(pid)
                .filter(|known| known.start == stat.start)?;
            Some((*ticks)?.saturating_sub(before.ticks?))
        });
        // Ticks are 10 ms: over less than half a second a share would be mostly rounding.
        if let (Some(ticks), true) = (hottest.max(), elapsed_s > 0.5) {
            sink.push(CPU_HOTTEST, ticks as f64 / per_second / elapsed_s);
        }
        sink.push(PROCESSES, stats.len() as f64);
        self.learn(&stats);
        let switches = self
            .known
            .values()
            .fold(self.switches_of_the_gone, |sum, known| {
                (sum.0 + known.switches.0, sum.1 + known.switches.1)
            });
        sink.push(CONTEXT_SWITCHES, (switches.0 + switches.1) as f64);
        sink.push(CONTEXT_SWITCHES_FORCED, switches.1 as f64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::tests::tier_without_doors;
    use kneepoint_linux::clock::thread_cpu;

    #[test]
    fn of_a_cache_only_the_thread_that_runs_its_commands_counts() {
        let beside = std::thread::spawn(|| while thread_cpu() < Duration::from_millis(200) {});
        beside.join().expect("it ends by itself");
        let pid = std::process::id();
        let stat = Stat::of(pid).expect("this process");
        let ticks = |layer: Layer| {
            let tier = RunningTier {
                layer,
                ..tier_without_doors(pid)
            };
            let first_thread = Processes::new(&tier).first_thread;
            ticks_of(pid, &stat, first_thread).expect("this process")
        };
        let (all, first) = (ticks(Layer::Php), ticks(Layer::Cache));
        // A tick is 10 ms.
        assert!(first + 15 <= all, "{first} of {all}");
    }
}
