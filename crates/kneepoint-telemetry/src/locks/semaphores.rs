//! Who waits for whose semaphore of System V, as PHP's sem_acquire() has them: who operated on it last has it.

use super::WorkerWait;
use crate::waiting_on::memory;
use crate::waiting_on::wait::{Syscall, parse_syscall};
use kneepoint_linux::{Kept, namespace, semaphore};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a `struct sembuf` (semop(2)): the number within the set, what is added, flags.
const OPERATION: u64 = 6;
/// Operations of one call that are looked at: sem_get() has three.
const OPERATIONS: u64 = 8;

/// Looks left out behind one at which nobody waited \[ours\]: most applications have no semaphore, and a look reads one file of
/// each worker.
const LEFT_OUT: u32 = 4;

/// A semaphore: its set, and its number within it.
type Semaphore = (i32, u16);

/// What the kernel tells of a semaphore.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    last: u32,
    name: String,
}

/// Finds workers that wait for semaphores.
#[derive(Debug)]
pub(super) struct Semaphores {
    /// A process whose IPC namespace is that of the workers.
    master: u32,
    syscalls: Kept,
    /// Looks that are left out next, since nobody waited yet; `None` from the first one at which somebody did: shares are
    /// counted in looks.
    idle: Option<u32>,
}

impl Semaphores {
    pub(super) fn of(master: u32) -> Self {
        Self {
            master,
            syscalls: Kept::new("syscall"),
            idle: Some(0),
        }
    }

    /// The workers among these that wait for a semaphore which another of them has.
    pub(super) fn waits(&mut self, workers: &[u32]) -> Vec<WorkerWait> {
        if let Some(left) = self.idle.and_then(|left| left.checked_sub(1)) {
            self.idle = Some(left);
            return Vec::new();
        }
        self.syscalls.retain(workers);
        let waiting: BTreeMap<u32, Semaphore> = workers
            .iter()
            .filter_map(|pid| Some((*pid, self.waits_for(*pid)?)))
            .collect();
        if waiting.is_empty() {
            self.idle = self.idle.map(|_| LEFT_OUT);
            return Vec::new();
        }
        self.idle = None;
        let sought: BTreeSet<Semaphore> = waiting.values().copied().collect();
        let told = namespace::inside_ipc_of(self.master, || ask(&sought)).unwrap_or_default();
        joined(&waiting, &told, workers)
    }

    fn waits_for(&mut self, pid: u32) -> Option<Semaphore> {
        let mut buffer = [0; 256];
        let (set, at, count) = operates(self.syscalls.read(pid, &mut buffer).ok()?)?;
        if count > OPERATIONS {
            return None;
        }
        Some((set, awaited(&memory(pid, at, count * OPERATION)?)?))
    }
}

/// The set that a process operates on, where the operations stand, and how many they are.
fn operates(call: &[u8]) -> Option<(i32, u64, u64)> {
    match parse_syscall(call)? {
        // An int: the upper half of the register is not part of it.
        Syscall::In(libc::SYS_semop | libc::SYS_semtimedop, args) => {
            Some((args[0] as u32 as i32, args[1], args[2]))
        }
        _ => None,
    }
}

/// The number of the semaphore that operations wait for. An addition waits for nothing; where several may wait, it is not
/// known which does.
fn awaited(operations: &[u8]) -> Option<u16> {
    let mut waiting = operations
        .chunks_exact(OPERATION as usize)
        .filter_map(|operation| {
            let number = u16::from_ne_bytes(operation[..2].try_into().ok()?);
            let added = i16::from_ne_bytes(operation[2..4].try_into().ok()?);
            (added <= 0).then_some(number)
        });
    let first = waiting.next()?;
    waiting.next().is_none().then_some(first)
}

fn ask(semaphores: &BTreeSet<Semaphore>) -> BTreeMap<Semaphore, Told> {
    let keys = semaphore::keys().unwrap_or_default();
    let told = semaphores.iter().filter_map(|&(set, number)| {
        let told = Told {
            last: semaphore::last_user(set, number).ok()??,
            name: named(set, keys.get(&set).copied()),
        };
        Some(((set, number), told))
    });
    told.collect()
}

/// A set by its key, as `ipcs` and the messages of PHP write it. One that is private to its processes has none.
fn named(set: i32, key: Option<i32>) -> String {
    match key {
        Some(key) if key != 0 => format!("the semaphore with key {key:#x}"),
        _ => format!("a semaphore of set {set}"),
    }
}

/// Whoever operated on a semaphore last has it, where that is a worker. One that was seen waiting for it itself may have got it
/// since, or may use it for something else than a lock: then nobody is named.
fn joined(
    waiting: &BTreeMap<u32, Semaphore>,
    told: &BTreeMap<Semaphore, Told>,
    workers: &[u32],
) -> Vec<WorkerWait> {
    let waits = waiting.iter().filter_map(|(waiter, semaphore)| {
        let Told { last, name } = told.get(semaphore)?;
        let has_it = workers.contains(last) && waiting.get(last) != Some(semaphore);
        has_it.then(|| WorkerWait {
            waiter: *waiter,
            holder: *last,
            object: name.clone(),
        })
    });
    waits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kneepoint_linux::process;
    use proptest::prelude::*;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    /// One process takes a semaphore, its child waits for it; both end when nobody is there to listen to. The number of its
    /// set is that of another namespace.
    const HELD: &str = "\
        my $set = semget(0x4b50, 3, 01666) // die; \
        semop($set, pack('s!3', 0, $_, 0)) for 1, -1; \
        my $child = fork() // die; \
        if (!$child) { semop($set, pack('s!3', 0, -1, 0)); exit } \
        <STDIN>; kill 'KILL', $child;";

    fn operations(list: &[(u16, i16)]) -> Vec<u8> {
        let each = list.iter().map(|(number, added)| {
            let words = [number.to_ne_bytes(), added.to_ne_bytes(), [0; 2]];
            words.concat()
        });
        each.collect::<Vec<_>>().concat()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this crate knows no lab that starts processes"
    )]
    fn held() -> Child {
        Command::new("unshare")
            .args(["--ipc", "perl", "-e", HELD])
            .stdin(Stdio::piped())
            .spawn()
            .expect("unshare starts")
    }

    #[test]
    fn who_has_a_semaphore_is_found_in_its_namespace() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let mut holder = held();
        let pid = holder.id();
        let mut semaphores = Semaphores::of(pid);
        let found = (0..400).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let waiter = *process::children(pid).ok()?.first()?;
            let waits = semaphores.waits(&[pid, waiter]);
            (!waits.is_empty()).then_some((waiter, waits))
        });
        // It ends when its input does.
        drop(holder.stdin.take());
        holder.wait().expect("our own child");
        let (waiter, waits) = found.expect("the child waits");
        let expected = WorkerWait {
            waiter,
            holder: pid,
            object: "the semaphore with key 0x4b50".to_owned(),
        };
        assert_eq!(waits, [expected]);
        assert!(semaphores.waits(&[]).is_empty());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_call_tells_its_set() {
        let tail = "0x0 0x0 0x0 0x7ffc00 0x7f1a00";
        for number in [65, 220] {
            let line = format!("{number} 0xffffffff00000007 0x7ffd10 0x1 {tail}");
            assert_eq!(operates(line.as_bytes()), Some((7, 0x7ffd10, 1)));
        }
        assert_eq!(operates(format!("73 0x7 0x2 0x0 {tail}").as_bytes()), None);
        assert_eq!(operates(b"running\n"), None);
    }

    #[test]
    fn the_semaphore_is_the_one_that_may_be_waited_for() {
        let check = |list: &[(u16, i16)], expected: Option<u16>| {
            assert_eq!(awaited(&operations(list)), expected, "{list:?}");
        };
        // sem_acquire() and sem_get().
        check(&[(0, -1)], Some(0));
        check(&[(2, 0), (2, 1), (1, 1)], Some(2));
        // What waits for nothing, and what may wait for either of two.
        check(&[(0, 1)], None);
        check(&[(0, -1), (1, -1)], None);
    }

    #[test]
    fn only_a_worker_that_does_not_wait_itself_has_it() {
        let lock = (7, 0);
        let check = |last: u32, expected: &[u32]| {
            let told = Told {
                last,
                name: named(7, Some(-2)),
            };
            let waiting = BTreeMap::from([(2, lock), (3, lock), (4, (8, 0))]);
            let waits = joined(&waiting, &BTreeMap::from([(lock, told)]), &[1, 2, 3, 4]);
            let waiters: Vec<u32> = waits.iter().map(|wait| wait.waiter).collect();
            assert_eq!(waiters, expected, "behind {last}");
            assert!(waits.iter().all(|wait| wait.holder == last));
            assert!(waits.iter().all(|wait| wait.object.ends_with("0xfffffffe")));
        };
        check(1, &[2, 3]);
        check(2, &[]);
        // It waits for another one: the chain goes on behind it.
        check(4, &[2, 3]);
        check(99, &[]);
        assert_eq!(named(7, Some(0)), "a semaphore of set 7");
        assert_eq!(named(7, None), "a semaphore of set 7");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = operates(&bytes);
            let _ = awaited(&bytes);
        }
    }
}
