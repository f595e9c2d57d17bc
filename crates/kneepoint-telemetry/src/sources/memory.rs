//! Memory of the processes of a tier, shared pages counted once.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use kneepoint_linux::Tree;
use kneepoint_linux::process::pss_bytes;
use kneepoint_model::RunningTier;
use kneepoint_model::metric::{PSS_BYTES, PSS_WORKER_BYTES};
use std::collections::HashMap;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "memory",
    about: "proportional set size of a tier and of its largest process (resident size over-counts FPM sevenfold)",
    requirements: "/proc/PID/smaps_rollup (Linux 4.14), readable: the same user, or root",
    overhead: "0.1 to 0.5 ms a process; at most 8 processes every five seconds, the rest by their mean",
    cadence: Duration::from_secs(5),
    metrics: &[PSS_BYTES, PSS_WORKER_BYTES],
    lane: Lane::Trend,
    open: Open::Tier(|tier| Some(Box::new(Memory::new(tier)))),
};

/// Processes read in one sample: the kernel walks all their pages and holds their memory map meanwhile.
const AT_ONCE: usize = 8;

struct Memory {
    tree: Tree,
    known: HashMap<u32, u64>,
    turn: usize,
}

impl Memory {
    fn new(tier: &RunningTier) -> Self {
        Self {
            tree: Tree::new(tier.pid),
            known: HashMap::new(),
            turn: 0,
        }
    }
}

impl Probe for Memory {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        let pids = self
            .tree
            .refresh()
            .map_err(|why| Failure(format!("the tier's first process is gone: {why}")))?;
        self.known.retain(|pid, _| pids.contains(pid));
        let start = self.turn;
        self.turn = (start + AT_ONCE) % pids.len().max(1);
        let mut failure = None;
        for pid in pids
            .iter()
            .cycle()
            .skip(start)
            .take(AT_ONCE.min(pids.len()))
        {
            match pss_bytes(*pid) {
                Ok(Some(bytes)) => {
                    self.known.insert(*pid, bytes);
                }
                Ok(None) => {}
                Err(why) => failure = Some(why),
            }
        }
        if self.known.is_empty() {
            let why = failure.map_or_else(
                || "no process could be read".to_owned(),
                |why| why.to_string(),
            );
            return Err(Failure(format!(
                "{why}; run as root to read the memory of other users' processes"
            )));
        }
        sink.push(PSS_BYTES, total(&self.known, pids.len()));
        let largest = self.known.values().max().copied().unwrap_or(0);
        sink.push(PSS_WORKER_BYTES, largest as f64);
        Ok(())
    }
}

/// The sum over all processes, those not read yet counted as the mean of the others.
fn total(known: &HashMap<u32, u64>, processes: usize) -> f64 {
    let sum: f64 = known.values().map(|bytes| *bytes as f64).sum();
    sum * processes.max(known.len()) as f64 / known.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_processes_count_as_the_mean() {
        let known = HashMap::from([(1, 100), (2, 300)]);
        assert_eq!(total(&known, 2), 400.0);
        assert_eq!(total(&known, 10), 2000.0);
        assert_eq!(total(&HashMap::new(), 3), 0.0);
    }
}
