//! Whether a process has a core, where the kernel tells it.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Whether a process that is ready to run has no core. The kernel tells the functions it stands in while it is off its core
/// (proc(5): /proc/PID/stack), and none of one that is on a core, where [`tells_cores`] says so.
pub(crate) fn is_off_core(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/stack")).is_ok_and(|stack| !stack.is_empty())
}

/// How often a thread that computes is looked at, and the time between two looks.
const CORE_LOOKS: (u32, Duration) = (2000, Duration::from_millis(1));
/// Looks that tell functions of a thread although it ran meanwhile, after which that is what this kernel does. A thread that
/// lost its core in the middle of a look gives such a look now and then.
const CORE_DENIALS: u32 = 20;
/// A look that took longer lost its own core in between, maybe to the thread: that the thread ran says nothing then. A read of
/// the file takes some microseconds.
const ONE_LOOK: Duration = Duration::from_micros(100);

/// Whether this kernel tells no functions of what is on a core, tried on a thread that computes meanwhile until it is known. It
/// may not be root that asks, there may be one core only, and some kernels tell of a running process where it stood when it
/// last lost its core: then there is no telling. On a busy machine the thread has a core now and then only: looks at it without
/// one say nothing.
pub(crate) fn tells_cores() -> bool {
    static TELLS: OnceLock<bool> = OnceLock::new();
    if let Some(known) = TELLS.get() {
        return *known;
    }
    tried_on_a_thread().is_some_and(|told| *TELLS.get_or_init(|| told))
}

fn tried_on_a_thread() -> Option<bool> {
    let mut denials = 0;
    beside_a_thread(std::hint::spin_loop, CORE_LOOKS, |thread, turns| {
        let (began, before) = (Instant::now(), turns.load(Ordering::Relaxed));
        let stack = std::fs::read(format!("/proc/self/task/{thread}/stack"));
        let ran = turns.load(Ordering::Relaxed) > before && began.elapsed() < ONE_LOOK;
        match stack {
            Ok(stack) if stack.is_empty() => Some(true),
            Ok(_) => {
                denials += u32::from(ran);
                (denials == CORE_DENIALS).then_some(false)
            }
            Err(_) => Some(false),
        }
    })
}

/// What the first look that tells something tells of a thread that does one thing over and over, from its number and how often
/// it did it; a pause before each look, and so many of them. Each has a core of its own among those of this process: on one
/// core, the thread would stand still during every look.
fn beside_a_thread<T: Send>(
    does: impl Fn() + Sync,
    (looks, pause): (u32, Duration),
    mut look: impl FnMut(u32, &AtomicU64) -> Option<T> + Send,
) -> Option<T> {
    let (thread, turns) = (AtomicU32::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            keep_to_core(0);
            let own = rustix::thread::gettid().as_raw_nonzero().get();
            thread.store(own.unsigned_abs(), Ordering::Relaxed);
            while !stop.load(Ordering::Relaxed) {
                does();
                turns.fetch_add(1, Ordering::Relaxed);
            }
        });
        let looking = scope.spawn(|| {
            keep_to_core(1);
            (0..looks).find_map(|_| {
                thread::sleep(pause);
                let thread = thread.load(Ordering::Relaxed);
                (thread > 0).then(|| look(thread, &turns)).flatten()
            })
        });
        let told = looking.join();
        stop.store(true, Ordering::Relaxed);
        told.ok().flatten()
    })
}

/// Keeps this thread to one of the cores that the process may use. Where there are fewer, it stays free.
fn keep_to_core(index: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let core = (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .nth(index);
    if let Some(core) = core {
        let mut own = CpuSet::new();
        own.set(core);
        // Without it the looks take longer to tell, no more.
        let _ = sched_setaffinity(None, &own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_is_off_its_core() {
        if std::fs::read("/proc/self/stack").is_err() {
            // Only root is told.
            return assert!(!tells_cores());
        }
        let sleeps = || thread::sleep(Duration::from_millis(50));
        let looks = (100, Duration::from_millis(5));
        let off = beside_a_thread(sleeps, looks, |thread, _| {
            is_off_core(thread).then_some(true)
        });
        assert_eq!(off, Some(true));
    }

    #[test]
    fn a_busy_machine_tells_cores_as_a_quiet_one_does() {
        let stop = AtomicBool::new(false);
        let quiet = tried_on_a_thread();
        let busy = thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let told = tried_on_a_thread();
            stop.store(true, Ordering::Relaxed);
            told
        });
        assert!(quiet.is_some());
        assert_eq!(quiet, busy);
    }
}
