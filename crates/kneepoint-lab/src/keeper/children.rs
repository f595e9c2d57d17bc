//! The keeper's children: started under a lock, collected by one thread, remembered by a key of their own.

use crate::LabError;
use crate::launch::Launch;
use kneepoint_model::Signal;
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{self as system, Pid, WaitId, WaitIdOptions, WaitOptions, WaitStatus};
use std::collections::HashMap;
use std::fmt;
use std::process::Child;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    /// `None` when a signal ended it.
    pub(super) code: Option<i32>,
    signal: Option<i32>,
}

impl From<WaitStatus> for Exit {
    fn from(status: WaitStatus) -> Self {
        Self {
            code: status.exit_status(),
            signal: status.terminating_signal(),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}"),
            (None, Some(signal)) => match signal_name(signal) {
                Some(name) => write!(f, "was killed by signal {signal} ({name})"),
                None => write!(f, "was killed by signal {signal}"),
            },
            (None, None) => f.write_str("ended in an unknown way"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    signal_hook::low_level::signal_name(signal)
}

/// A child that has just been started; its pipes are still in `child`.
pub(super) struct Started {
    pub(super) key: u64,
    pub(super) pid: u32,
    pub(super) child: Child,
}

#[derive(Default)]
struct Table {
    last_key: u64,
    running: HashMap<u32, u64>,
    exits: HashMap<u64, Option<Exit>>,
}

/// All children. A pid in `running` is not collected yet, so it cannot mean another process.
#[derive(Default)]
pub(super) struct Children {
    table: Mutex<Table>,
    changed: Condvar,
}

impl Children {
    /// An empty table with a thread that collects whatever dies below this process.
    pub(super) fn watched() -> Arc<Self> {
        let children = Arc::new(Self::default());
        let collector = Arc::clone(&children);
        thread::spawn(move || collector.collect());
        children
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a program; only the main thread may, see [`Launch::spawn`].
    pub(super) fn start(&self, launch: Launch) -> Result<Started, LabError> {
        // Held over the fork: when exec fails the standard library collects the child itself, and must not
        // find that the collector was faster.
        let mut table = self.table();
        let child = launch.spawn()?;
        table.last_key += 1;
        let key = table.last_key;
        table.running.insert(child.id(), key);
        table.exits.insert(key, None);
        self.changed.notify_all();
        Ok(Started {
            key,
            pid: child.id(),
            child,
        })
    }

    fn collect(&self) {
        loop {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            match retry_on_intr(|| system::waitid(WaitId::All, options)) {
                Ok(_) => self.collect_dead(),
                Err(_) => {
                    // No child at all: orphans come only from children, so the next start is the next chance.
                    let table = self.table();
                    let idle = |table: &mut Table| table.running.is_empty();
                    drop(self.changed.wait_while(table, idle));
                }
            }
        }
    }

    fn collect_dead(&self) {
        let mut table = self.table();
        while let Ok(Some((pid, status))) = retry_on_intr(|| system::wait(WaitOptions::NOHANG)) {
            let pid = pid.as_raw_nonzero().get().unsigned_abs();
            if let Some(key) = table.running.remove(&pid) {
                table.exits.insert(key, Some(status.into()));
            }
        }
        self.changed.notify_all();
    }

    /// How a child ended; `None` while it runs.
    pub(super) fn exit(&self, key: u64) -> Option<Exit> {
        self.table().exits.get(&key).copied().flatten()
    }

    /// Waits until a child has ended, at most until `deadline`.
    pub(super) fn wait(&self, key: u64, deadline: Instant) -> Option<Exit> {
        let left = deadline.saturating_duration_since(Instant::now());
        let runs = |table: &mut Table| matches!(table.exits.get(&key), Some(None));
        let (table, _) = self
            .changed
            .wait_timeout_while(self.table(), left, runs)
            .unwrap_or_else(PoisonError::into_inner);
        table.exits.get(&key).copied().flatten()
    }

    /// Sends a signal. False when the child has ended.
    pub(super) fn signal(&self, key: u64, signal: Signal) -> Result<bool, Errno> {
        let table = self.table();
        let pid = table.running.iter().find(|(_, it)| **it == key);
        let Some(pid) = pid.and_then(|(pid, _)| Pid::from_raw(i32::try_from(*pid).ok()?)) else {
            return Ok(false);
        };
        match system::kill_process(pid, number(signal)) {
            Err(Errno::SRCH) => Ok(false),
            result => result.map(|()| true),
        }
    }

    /// Forgets how a child ended.
    pub(super) fn forget(&self, key: u64) {
        self.table().exits.remove(&key);
    }
}

fn number(signal: Signal) -> system::Signal {
    match signal {
        Signal::Hup => system::Signal::HUP,
        Signal::Int => system::Signal::INT,
        Signal::Quit => system::Signal::QUIT,
        Signal::Term => system::Signal::TERM,
        Signal::Usr1 => system::Signal::USR1,
        Signal::Usr2 => system::Signal::USR2,
        Signal::Stop => system::Signal::STOP,
        Signal::Cont => system::Signal::CONT,
        Signal::Kill => system::Signal::KILL,
    }
}
