//! Sleeping to the nanosecond under tokio, whose own timer counts milliseconds.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;

/// A timer of the kernel that wakes the runtime.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: AsyncFd<OwnedFd>,
    /// What it is set to, in the nanoseconds of the load's clock; 0 when it is not set.
    set_to: u64,
}

impl Timer {
    /// Makes a timer, inside a runtime that drives IO.
    #[expect(
        unsafe_code,
        reason = "tokio has no safe way to wait for a descriptor of another kind than its own"
    )]
    pub(crate) fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // SAFETY: an `OwnedFd` is open and names the same descriptor until it is dropped, and what is registered here
        // owns it and never gives it away.
        let registered = unsafe { AsyncFd::register(fd) };
        let fd = registered.map_err(|refused| {
            let (_, error) = refused.into_parts();
            Errno::from_io_error(&error).unwrap_or(Errno::IO)
        })?;
        Ok(Self { fd, set_to: 0 })
    }

    /// Sets it to a time that is later than now. Setting it to what it is set to costs nothing.
    pub(crate) fn set(&mut self, at: u64, now: u64) -> Result<(), Errno> {
        if self.set_to == at {
            return Ok(());
        }
        // Zero would disarm it.
        let nanos = at.saturating_sub(now).max(1);
        let spec = Itimerspec {
            it_interval: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: Timespec {
                tv_sec: (nanos / 1_000_000_000) as i64,
                tv_nsec: (nanos % 1_000_000_000) as _,
            },
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &spec)?;
        self.set_to = at;
        Ok(())
    }

    /// Waits for it. It may wake once too often, when it was set anew just as it expired.
    pub(crate) fn poll_expired(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Errno>> {
        let woken = ready!(self.fd.poll_read_ready(context));
        self.set_to = 0;
        Poll::Ready(match woken {
            Ok(mut guard) => {
                // It is not read: the next time it expires, epoll reports it again.
                guard.clear_ready();
                Ok(())
            }
            Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::Clock;
    use std::future::poll_fn;
    use std::time::Instant;

    #[test]
    fn it_never_wakes_early_for_good_and_can_be_set_again() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let clock = Clock {
                began: Instant::now(),
            };
            let mut timer = Timer::new().expect("a timer");
            for _ in 0..3 {
                let at = clock.now() + 3_000_000;
                while clock.now() < at {
                    timer.set(at, clock.now()).expect("set");
                    poll_fn(|context| timer.poll_expired(context))
                        .await
                        .expect("woken");
                }
            }
        });
    }
}
