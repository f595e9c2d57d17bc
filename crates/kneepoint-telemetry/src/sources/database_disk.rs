//! Whether a database waits for its disk, and in which call.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::waiting_on::{Doing, Peers};
use kneepoint_linux::process::{parse_stat, threads};
use kneepoint_linux::{Kept, Tree};
use kneepoint_model::metric::DB_DISK_WAIT;
use kneepoint_model::{Layer, RunningTier};
use std::collections::BTreeSet;
use std::time::Duration;

/// Metadata.
pub(super) static SOURCE: Source = Source {
    name: "database-disk",
    about: "whether a thread of the database sleeps until the disk has answered, and in which call (fsync, reading or writing a \
            file)",
    requirements: "root (CAP_SYS_PTRACE), to see the calls of another user's processes",
    overhead: "about 4 us a thread of the database, twenty times a second; nothing runs in the database",
    cadence: Duration::from_millis(50),
    metrics: &[DB_DISK_WAIT],
    lane: Lane::Fast,
    open: Open::Tier(|tier| {
        (tier.layer == Layer::Db).then(|| Box::new(DatabaseDisk::new(tier)) as Box<dyn Probe>)
    }),
};

/// Ticks between two looks for new threads.
const REFRESH: u32 = 20;
/// The calls that wait for a disk, as `workers.waiting` names them.
const CALLS: [&str; 3] = ["fsync", "recv file", "send file"];
/// The state of a task that sleeps and takes no signal, as one does that waits for a disk (proc(5)).
const UNINTERRUPTIBLE: u8 = b'D';

struct DatabaseDisk {
    tree: Tree,
    tasks: Vec<u32>,
    stats: Kept,
    peers: Peers,
    ticks: u32,
}

impl DatabaseDisk {
    fn new(tier: &RunningTier) -> Self {
        Self {
            tree: Tree::new(tier.pid),
            tasks: Vec::new(),
            stats: Kept::new("stat"),
            peers: Peers::of(tier),
            ticks: 0,
        }
    }

    fn refresh(&mut self) -> Result<(), Failure> {
        let tick = self.ticks;
        self.ticks = tick.wrapping_add(1);
        if !tick.is_multiple_of(REFRESH) {
            return Ok(());
        }
        let processes = self.tree.refresh().map_err(|why| {
            Failure(format!("the database's first process is gone: {why}"))
        })?;
        let tasks = processes.into_iter().filter_map(|pid| threads(pid).ok());
        self.tasks = tasks.flatten().collect();
        self.stats.retain(&self.tasks);
        self.peers.retain(&self.tasks);
        Ok(())
    }

    /// Whether a task sleeps in a way that only the disk ends, most often.
    fn is_uninterruptible(&mut self, task: u32) -> bool {
        let mut buffer = [0; 512];
        let stat = self.stats.read(task, &mut buffer).ok();
        stat.and_then(parse_stat)
            .is_some_and(|stat| stat.state == UNINTERRUPTIBLE)
    }
}

impl Probe for DatabaseDisk {
    fn sample(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        self.refresh()?;
        let mut met = BTreeSet::new();
        for task in self.tasks.clone() {
            if !self.is_uninterruptible(task) {
                continue;
            }
            if let Doing::Waiting(call) = self.peers.look(task) {
                met.insert(call);
            }
        }
        for call in CALLS {
            let waits = f64::from(u8::from(met.contains(call)));
            sink.labelled(DB_DISK_WAIT, call, waits);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Instant;

    #[test]
    fn a_thread_that_waits_for_the_disk_is_seen_in_its_call() {
        let done = AtomicBool::new(false);
        let dir = tempfile::tempdir_in("/var/tmp").expect("a directory on a disk");
        let mut file = File::create(dir.path().join("log")).expect("a file");
        let seen = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    file.write_all(&[7; 4096]).expect("room");
                    file.sync_data().expect("a disk");
                }
            });
            let tier = crate::source::tests::tier_without_doors(std::process::id());
            let mut probe = DatabaseDisk::new(&tier);
            let start = Instant::now();
            let mut seen = false;
            while !seen && start.elapsed() < Duration::from_secs(20) {
                // New threads are looked for now and then.
                let mut sink = Sink::default();
                probe.sample(&mut sink).expect("this process is there");
                seen = sink.value(DB_DISK_WAIT, "fsync") == Some(1.0);
                std::thread::sleep(Duration::from_millis(1));
            }
            done.store(true, Ordering::Relaxed);
            seen
        });
        assert!(seen, "no thread was seen in fsync");
    }
}
