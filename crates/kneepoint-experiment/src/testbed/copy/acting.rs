//! Acting on files with no more rights than the user they belong to.
//!
//! An application's processes may outlive its requests and change its directory while it is put back. Whoever follows a path
//! of theirs as root goes where they lead him; as their own user he gets nowhere that they do not get by themselves.

use std::io;

/// User and group that everything in a copy belongs to; `None` leaves it to whoever copies.
pub(super) type Owner = Option<(u32, u32)>;

/// Does something with the files' owner's rights, on this thread alone. Without an owner with those of this process.
///
/// # Errors
/// The kernel refused, or what was done failed.
pub(in crate::testbed) fn as_owner<T>(
    owner: Owner,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let Some((uid, gid)) = owner else {
        return work();
    };
    let _back = Back;
    if take(uid, gid) != uid {
        return Err(io::Error::other(format!("cannot act as user {uid}")));
    }
    work()
}

/// Takes root's rights again, also when a panic passes. Only root hands files to others.
struct Back;

impl Drop for Back {
    fn drop(&mut self) {
        take(0, 0);
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
        let owner = Some((65534, 65534));
        let write = |path: &std::path::Path| as_owner(owner, || fs::write(path, "x"));
        assert!(write(&theirs.join("link")).is_err(), "through their link");
        assert!(write(&root).is_err());
        write(&theirs.join("own")).expect("their own");
        let about = fs::metadata(theirs.join("own")).expect("a file");
        assert_eq!((about.uid(), about.gid()), (65534, 65534));
        assert_eq!(fs::read_to_string(&root).expect("a file"), "root");
        fs::write(&root, "again").expect("root is root again");
    }
}
