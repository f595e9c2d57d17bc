//! Acting on files with no more rights than the user they belong to.
//!
//! An application's processes may outlive its requests and change its directory while it is put back. Whoever follows a path
//! of theirs as root goes where they lead him; as their own user he gets nowhere that they do not get by themselves.

use rustix::thread::{Gid, set_thread_groups};
use std::io;

/// Whom everything in a copy belongs to; `None` leaves it to whoever copies.
pub(super) type Owner = Option<OwnerIds>;

/// A user and a group, by their numbers.
#[derive(Debug, Clone, Copy)]
pub(in crate::testbed) struct OwnerIds {
    pub(in crate::testbed) uid: u32,
    pub(in crate::testbed) gid: u32,
    /// The group that passes through the directories above the copy.
    pub(in crate::testbed) passing: Option<u32>,
}

/// Does something with the files' owner's rights, on this thread alone. Without an owner with those of this process.
///
/// # Errors
/// The kernel refused, or what was done failed.
pub(in crate::testbed) fn as_owner<T>(
    owner: Owner,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let Some(OwnerIds { uid, gid, passing }) = owner else {
        return work();
    };
    let _back = Back(rustix::process::getgroups()?);
    let groups: Vec<Gid> = passing.into_iter().map(Gid::from_raw).collect();
    set_thread_groups(&groups)?;
    if take(uid, gid) != uid {
        return Err(io::Error::other(format!("cannot act as user {uid}")));
    }
    work()
}

/// Takes root's rights and groups again, also when a panic passes. Only root hands files to others.
struct Back(Vec<Gid>);

impl Drop for Back {
    fn drop(&mut self) {
        take(0, 0);
        let _ = set_thread_groups(&self.0);
    }
}

/// Sets user and group of this thread's file accesses. Returns the user now.
#[expect(
    unsafe_code,
    reason = "rustix has no call for the user of a thread's file accesses"
)]
fn take(uid: u32, gid: u32) -> u32 {
    // SAFETY: the calls take numbers and change this thread's credentials only; a number that is no user's asks and changes
    // nothing.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
        libc::setfsuid(u32::MAX).cast_unsigned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    #[test]
    fn whose_files_they_are_decides_what_can_be_written() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let (root, theirs) = (dir.path().join("root"), dir.path().join("theirs"));
        fs::write(&root, "root").expect("a file");
        fs::create_dir(&theirs).expect("a directory");
        std::os::unix::fs::chown(&theirs, Some(65534), Some(65534)).expect("handed over");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        fs::set_permissions(dir.path(), open).expect("mode");
        symlink(&root, theirs.join("link")).expect("a link");
        let owner = Some(OwnerIds {
            uid: 65534,
            gid: 65534,
            passing: None,
        });
        let write = |path: &std::path::Path| as_owner(owner, || fs::write(path, "x"));
        assert!(write(&theirs.join("link")).is_err(), "through their link");
        assert!(write(&root).is_err());
        write(&theirs.join("own")).expect("their own");
        let about = fs::metadata(theirs.join("own")).expect("a file");
        assert_eq!((about.uid(), about.gid()), (65534, 65534));
        // A group of root's is none of theirs.
        let of_group = dir.path().join("group");
        fs::write(&of_group, "root").expect("a file");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o660);
        fs::set_permissions(&of_group, mode).expect("mode");
        let before = rustix::process::getgroups().expect("groups");
        set_thread_groups(&[Gid::ROOT]).expect("root's group");
        assert!(write(&of_group).is_err(), "with root's group");
        assert_eq!(rustix::process::getgroups().expect("groups"), [Gid::ROOT]);
        set_thread_groups(&before).expect("as before");
        assert_eq!(fs::read_to_string(&root).expect("a file"), "root");
        fs::write(&root, "again").expect("root is root again");
    }
}
