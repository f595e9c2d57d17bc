//! Files below a directory that somebody else may write to: found by handles, never through a link.
//!
//! A path that is looked up twice can mean two things; a handle means one. No link is followed on the way: a directory that
//! was replaced by a link to `/etc` is an error, and not `/etc`.

use crate::identity::users::Account;
use rustix::fs::{FileType, Mode, OFlags, fstat, mkdirat, openat};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

/// Opens a directory for looking up what is in it.
fn directory(parent: impl AsFd, name: &std::ffi::OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

fn outside(path: &Path) -> io::Error {
    io::Error::other(format!("{} leads out of its directory", path.display()))
}

/// The directory that holds `path`, which lies below `base`, and its last component.
fn parent_of(base: &Path, path: &Path) -> io::Result<(OwnedFd, std::ffi::OsString)> {
    let below = path.strip_prefix(base).map_err(|_| outside(path))?;
    let mut names = Vec::new();
    for component in below.components() {
        match component {
            Component::Normal(name) => names.push(name),
            _ => return Err(outside(path)),
        }
    }
    let last = names.pop().ok_or_else(|| outside(path))?;
    // The base itself is this program's own, however its path is spelled.
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut at = rustix::fs::open(base, flags, Mode::empty())?;
    for name in names {
        at = directory(&at, name)?;
    }
    Ok((at, last.to_owned()))
}

/// Opens a file for appending, which is made where it is not there, and hands it to a user.
///
/// # Errors
/// A part of the way is a link or no directory; what is there is no file of its own: a link, a device, or a file that has
/// another name too; or it belongs to a third user.
pub(crate) fn append(base: &Path, path: &Path, owner: Option<&Account>) -> io::Result<File> {
    let (parent, name) = parent_of(base, path)?;
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let file = openat(&parent, &name, flags, Mode::from_raw_mode(0o640))?;
    let about = fstat(&file)?;
    let own = [rustix::process::geteuid().as_raw()];
    let known = own
        .into_iter()
        .chain(owner.map(|account| account.uid.as_raw()));
    let regular = FileType::from_raw_mode(about.st_mode) == FileType::RegularFile;
    if !regular || about.st_nlink != 1 || !known.into_iter().any(|uid| uid == about.st_uid) {
        return Err(io::Error::other(
            "what lies there is not this server's own file",
        ));
    }
    // Only the opening must not block.
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    if let Some(account) = owner {
        rustix::fs::fchown(&file, Some(account.uid), Some(account.gid))?;
    }
    Ok(file.into())
}

/// Makes a directory with those above it that are not there, and hands it to a user.
///
/// # Errors
/// A part of the way is a link or no directory, or the system refused.
pub(crate) fn make_dir(base: &Path, path: &Path, owner: Option<&Account>) -> io::Result<()> {
    let below = path.strip_prefix(base).map_err(|_| outside(path))?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut at = rustix::fs::open(base, flags, Mode::empty())?;
    for component in below.components() {
        let Component::Normal(name) = component else {
            return Err(outside(path));
        };
        match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        at = directory(&at, name)?;
    }
    if let Some(account) = owner {
        rustix::fs::fchown(&at, Some(account.uid), Some(account.gid))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A base with a victim beside it; whether a log in it could be opened, and that the victim is as it was.
    fn check(plant: impl Fn(&Path, &Path), opens: bool) {
        let dir = tempfile::tempdir().expect("a directory");
        let (base, victim) = (dir.path().join("base"), dir.path().join("victim"));
        fs::create_dir_all(base.join("log")).expect("a directory");
        fs::create_dir(&victim).expect("a directory");
        fs::write(victim.join("a.log"), "theirs").expect("a file");
        plant(&base, &victim);
        let opened = append(&base, &base.join("log/a.log"), None);
        assert_eq!(opened.is_ok(), opens, "{opened:?}");
        let text = fs::read_to_string(victim.join("a.log")).expect("a file");
        assert_eq!(text, "theirs");
    }

    #[test]
    fn a_log_is_made_or_opened_where_it_is_the_servers_own() {
        check(|_, _| (), true);
        check(
            |base, _| fs::write(base.join("log/a.log"), "old").expect("a file"),
            true,
        );
    }

    #[test]
    fn a_log_is_no_link_to_anything() {
        check(
            |base, victim| symlink(victim.join("a.log"), base.join("log/a.log")).expect("a link"),
            false,
        );
        check(
            |base, victim| {
                fs::hard_link(victim.join("a.log"), base.join("log/a.log")).expect("linked")
            },
            false,
        );
        check(
            |base, victim| {
                fs::remove_dir(base.join("log")).expect("removed");
                symlink(victim, base.join("log")).expect("a link");
            },
            false,
        );
        check(
            |base, _| fs::create_dir(base.join("log/a.log")).expect("made"),
            false,
        );
    }

    #[test]
    fn nothing_is_made_through_a_link_or_above_the_base() {
        let dir = tempfile::tempdir().expect("a directory");
        let (base, victim) = (dir.path().join("base"), dir.path().join("victim"));
        fs::create_dir_all(&base).expect("a directory");
        fs::create_dir(&victim).expect("a directory");
        symlink(&victim, base.join("link")).expect("a link");
        make_dir(&base, &base.join("a/b"), None).expect("made");
        assert!(base.join("a/b").is_dir());
        for path in ["link/x", "../victim/x"] {
            assert!(make_dir(&base, &base.join(path), None).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(&victim).expect("a directory").count(), 0);
    }
}
