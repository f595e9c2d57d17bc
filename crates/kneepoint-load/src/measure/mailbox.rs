//! Where the sending threads hand over to the one that watches them.

use crate::measure::counts::{Gauges, Live, SecondTally};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a thread puts what others may take while it runs.
#[derive(Debug, Default)]
pub(crate) struct Mailbox(Mutex<Snapshot>);

/// What was put since it was last taken.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) live: Live,
    /// Complete seconds, in order.
    pub(crate) seconds: Vec<SecondTally>,
    /// At the last hand-over; `None` when there was none.
    pub(crate) gauges: Option<Gauges>,
    /// When the thread's last request ended, in nanoseconds, once nothing more comes of it.
    pub(crate) ended_at: Option<u64>,
}

impl Mailbox {
    /// Takes what is there, leaving an empty snapshot.
    pub(crate) fn take(&self) -> Snapshot {
        // Made before the lock is held: a sending thread may be waiting for it.
        let empty = Snapshot::default();
        std::mem::replace(&mut *self.open(), empty)
    }

    /// What is there, to be added to.
    pub(crate) fn open(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
