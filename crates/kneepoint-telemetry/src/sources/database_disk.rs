//! Whether a database waits for its disk, and in which call.

use crate::source::{Failure, Lane, Open, Probe, Sink, Source};
use crate::waiting_on::{Doing, Peers};
use kneepoint_linux::file::read;
use kneepoint_linux::process::{parse_stat, threads};
use kneepoint_linux::{Kept, Tree};
use kneepoint_model::metric::DB_DISK_WAIT;
use kneepoint_model::{Layer, RunningTier};
use std::collections::{BTreeMap, BTreeSet};
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

/// Ticks between two looks for new threads. New processes, such as PostgreSQL's one for each connection, are seen at once.
const REFRESH: u32 = 20;
/// The calls that wait for a disk, as `workers.waiting` names them.
const CALLS: [&str; 3] = ["fsync", "recv file", "send file"];
/// Those of them that wait until something is written. Whether one or both were met is told under a label of its own:
/// MariaDB writes its log in the one and flushes it in the other.
const WRITES: [&str; 2] = ["fsync", "send file"];
const WRITING: &str = "write";
/// The state of a task that sleeps and takes no signal, as one does that waits for a disk (proc(5)).
const UNINTERRUPTIBLE: u8 = b'D';

struct DatabaseDisk {
    tree: Tree,
    /// The threads of each process.
    threads: BTreeMap<u32, Vec<u32>>,
    stats: Kept,
    peers: Peers,
    ticks: u32,
}

impl DatabaseDisk {
    fn new(tier: &RunningTier) -> Self {
        Self {
            tree: Tree::new(tier.pid),
            threads: BTreeMap::new(),
            stats: Kept::new("stat"),
            peers: Peers::of(tier),
            ticks: 0,
        }
    }

    /// The tasks that there are now.
    fn refresh(&mut self) -> Result<Vec<u32>, Failure> {
        let processes = self
            .tree
            .refresh()
            .map_err(|why| Failure(format!("the database's first process is gone: {why}")))?;
        if self.ticks.is_multiple_of(REFRESH) {
            // What nobody may see must not count as not being there: the next tick tries again.
            read(&format!("/proc/{}/syscall", processes[0])).map_err(|why| {
                Failure::on("the calls of the database's process", processes[0], why)
            })?;
            let threads = processes.iter().map(|pid| (*pid, threads(*pid)));
            let threads = threads.filter_map(|(pid, found)| Some((pid, found.ok()?)));
            self.threads = threads.collect();
            let tasks: Vec<u32> = self.threads.values().flatten().copied().collect();
            self.stats.retain(&tasks);
            self.peers.retain(&tasks);
        }
        self.ticks = self.ticks.wrapping_add(1);
        let of_process = |pid: &u32| self.threads.get(pid).cloned().unwrap_or(vec![*pid]);
        Ok(processes.iter().flat_map(of_process).collect())
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
        let mut met = BTreeSet::new();
        for task in self.refresh()? {
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
        let writes = WRITES.iter().any(|call| met.contains(*call));
        sink.labelled(DB_DISK_WAIT, WRITING, f64::from(u8::from(writes)));
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
        const TMPFS: i64 = 0x0102_1994;
        let done = AtomicBool::new(false);
        let dir = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let about = rustix::fs::statfs(dir.path()).expect("a file system");
        if about.f_type == TMPFS {
            return;
        }
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
