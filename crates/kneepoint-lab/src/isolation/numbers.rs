//! Numbers of processes: a host has its own, by which its programs see, signal and trace each other and nobody else.

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

/// Which numbers a program has, and with them the processes that it can see.
#[derive(Debug, Clone)]
pub(crate) enum Numbers {
    /// Those of whoever starts it.
    Starters,
    /// New ones, of which it has the first: when it ends, so does whatever has the others.
    New,
    /// Those of a host.
    Host(Arc<OwnedFd>),
}

impl Numbers {
    /// Calls `start`; a child that the calling thread forks in it has these numbers. It must start no thread: the kernel
    /// refuses that meanwhile.
    ///
    /// # Errors
    /// The kernel refused, as it does without root, or `start` failed. Numbers whose first process is gone are given
    /// out no more: then a fork fails for lack of memory, as the kernel calls it.
    pub(crate) fn given<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if matches!(self, Self::Starters) {
            return start();
        }
        let own = File::open("/proc/thread-self/ns/pid")?;
        match self {
            Self::Starters => {}
            Self::New => unshare()?,
            Self::Host(host) => enter(host)?,
        }
        let started = start();
        enter(&own.into())?;
        started
    }
}

fn enter(numbers: &OwnedFd) -> io::Result<()> {
    let kind = LinkNameSpaceType::ProcessID;
    Ok(move_into_link_name_space(numbers.as_fd(), Some(kind))?)
}

#[expect(
    unsafe_code,
    reason = "rustix marks unshare unsafe for its CLONE_FILES flag"
)]
fn unshare() -> io::Result<()> {
    // SAFETY: only CLONE_NEWPID is asked for, so no descriptor table is taken apart.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWPID) }?)
}
