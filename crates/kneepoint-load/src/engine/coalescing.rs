//! How a thread of an open loop sleeps: as seldom as its schedule allows.
//!
//! Falling asleep and waking up costs 10 to 20 microseconds of CPU time on a virtual machine, several times what a
//! request costs by itself, and a generator must leave the CPU to the stack it shares a machine with. So arrivals that
//! follow each other within a moment leave together, the first a little after its time and the last a little before
//! it (a response time never counts from later than the request was sent). Where the next one is near anyway,
//! responses are taken up with it: the kernel has noted when each came, so that no response time grows by the wait.

use crate::connection::{Endpoint, rx_timestamp};
use crate::ledger::Prepared;
use crate::plan::{LoadPlan, Mode};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Arrivals within this span of one another leave together: as exact as generators that count in milliseconds, and
/// at 5 000/s a fifth of the wake-ups (load-engine.md, section 4: yandex.tank cuts starts down to whole milliseconds).
const SPAN_NS: u64 = 1_000_000;
/// Responses wait for the next arrival if it is this near. What a server sends meanwhile fits into the receive buffer.
const NEAR_NS: u64 = 2_000_000;

/// What one thread knows about its sleep.
#[derive(Debug)]
pub(crate) struct Coalescer {
    /// How close to one another arrivals leave together, in nanoseconds.
    pub(crate) span: u64,
    /// Whether the kernel notes when responses come.
    noted: bool,
    /// The wall clock, by which the kernel notes, minus the clock of the load, in nanoseconds.
    offset: u64,
}

impl Coalescer {
    /// Unix sockets note nothing, encryption hides which bytes belong to what, and where responses have a say in what
    /// starts they are wanted at once.
    pub(crate) fn new(plan: &LoadPlan, prepared: &Prepared) -> Self {
        let open = matches!(plan.mode, Mode::Open { .. }) && plan.workload.sessions.is_none();
        let plain = prepared.secure.is_none();
        Self {
            span: if plan.exact_starts { 0 } else { SPAN_NS },
            noted: open && plain && matches!(prepared.endpoint, Endpoint::Tcp(_)),
            offset: 0,
        }
    }

    /// A connection was opened.
    pub(crate) fn opened(&mut self, fd: &OwnedFd) {
        // Without notes of its own, it would have responses late.
        self.noted = self.noted && rx_timestamp::enable(fd).is_ok();
    }

    /// Whether the thread may sleep for so long whatever comes.
    pub(crate) fn may_sleep_through(&self, nanos: u64) -> bool {
        self.noted && nanos > 0 && nanos <= NEAR_NS
    }

    /// The thread is awake, at this time of the load.
    pub(crate) fn awake(&mut self, now: u64) {
        if self.noted {
            self.offset = rx_timestamp::wall_clock_ns().saturating_sub(now);
        }
    }

    /// Reads from a connection: how much, and at what time of the load the last of it came, if that was noted.
    pub(crate) fn receive(
        &self,
        fd: &OwnedFd,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<u64>), Errno> {
        if !self.noted {
            return recv(fd, buffer, RecvFlags::empty()).map(|(count, _)| (count, None));
        }
        let (count, came) = rx_timestamp::receive(fd, buffer)?;
        Ok((count, came.map(|came| came.saturating_sub(self.offset))))
    }
}
