//! Anonymous network namespaces: made, entered, and gone when the last descriptor and process are.

use crate::LabError;
use crate::error::Context as _;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;

/// Makes a network namespace without name or mount. It holds nothing but a loopback device that is down.
///
/// # Errors
/// The kernel refused, as it does without root.
pub(crate) fn create() -> io::Result<OwnedFd> {
    on_a_thread_of_its_own(|| {
        unshare_network()?;
        Ok(File::open("/proc/thread-self/ns/net")?.into())
    })?
}

#[expect(
    unsafe_code,
    reason = "rustix marks unshare unsafe for its CLONE_FILES flag"
)]
fn unshare_network() -> io::Result<()> {
    // SAFETY: only CLONE_NEWNET is asked for, so no descriptor table is taken apart.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Runs `work` in the network of a host, or in the caller's for `None`.
///
/// # Errors
/// The namespace could not be entered.
pub(crate) fn inside<T: Send>(
    netns: Option<impl AsFd + Sync>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, LabError> {
    let Some(netns) = netns else {
        return Ok(work());
    };
    on_a_thread_of_its_own(|| {
        move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(work())
    })
    .and_then(|result: io::Result<T>| result)
    .context(|| "entering the network namespace of a host".into())
}

/// A namespace is a thread's: one that changed it must not serve anything else afterwards.
fn on_a_thread_of_its_own<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        thread::Builder::new()
            .name("netns".into())
            .spawn_scoped(scope, work)?
            .join()
            .map_err(|_| io::Error::other("the thread that entered a namespace panicked"))
    })
}
