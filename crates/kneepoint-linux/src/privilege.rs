//! Giving up root, for a process that reads what strangers send.

use rustix::process::{Gid, Signal, Uid, geteuid, set_parent_process_death_signal};
use rustix::thread::{set_no_new_privs, set_thread_gid, set_thread_groups, set_thread_uid};
use std::io;

/// The user and group of nobody (base-passwd): it owns no file.
const NOBODY: u32 = 65534;

/// From now on this process is nobody, if it was root, and cannot be root again. It must have no other thread yet: the kernel
/// knows users by thread. It is killed when its parent ends.
///
/// # Errors
/// The kernel refuses. The process may be root still, and must end.
pub fn give_up_root() -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    set_no_new_privs(true)?;
    set_thread_groups(&[])?;
    set_thread_gid(Gid::from_raw(NOBODY))?;
    set_thread_uid(Uid::from_raw(NOBODY))?;
    // The kernel forgets the signal when the user changes (prctl(2)).
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}
