//! Anonymous network namespaces: made, entered, and gone when the last descriptor and process are.

use crate::LabError;
use crate::error::Context as _;
use kneepoint_linux::namespace::{self, on_a_thread_of_its_own};
use rustix::thread::UnshareFlags;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

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
    namespace::inside(netns, work).context(|| "entering the network namespace of a host".into())
}
