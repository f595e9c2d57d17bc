//! Copies a directory tree so that nothing in the copy leads out of it.
//!
//! An application that writes through a link would write where the link leads: into the user's own files. So a link
//! within the tree stays a link within the copy; one that leads out of it becomes a copy of what it leads to, where the
//! application's own users may read that.

use super::acting::{Owner, OwnerIds, as_owner};
use super::listing;
use super::readers::Readers;
use kneepoint_linux::file::open_untrusted;
use rustix::fs::OFlags;
use std::fs::{self, FileTimes, OpenOptions};
use std::io;
use std::os::unix::fs::{
    MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown, symlink,
};
use std::path::{Component, Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// What version control keeps: large, and nothing that a page needs.
const LEFT_OUT: [&str; 2] = [".git/objects", ".git/lfs"];
/// How many links out of the tree may follow one another: what one leads to may hold the next.
const DEEPEST: usize = 8;

/// A path that could not be copied, and why.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) path: PathBuf,
    pub(super) why: io::Error,
}

/// Copies what is below `from` into `to`, which is made where it is not there yet.
///
/// # Errors
/// Something cannot be read or written, or a link leads to a directory that holds the tree itself, or to what `readers` may not
/// read.
pub(super) fn copy(from: &Path, to: &Path, owner: Owner, readers: &Readers) -> Result<(), Refused> {
    let root = from.canonicalize().map_err(refused(from))?;
    make_top(&root, to, owner)?;
    let copying = Copying {
        owner,
        readers,
        depth: 0,
    };
    copying.tree(&root, to)
}

/// The directory of the copy itself, which only who owns the directory above it can make.
fn make_top(from: &Path, to: &Path, owner: Owner) -> Result<(), Refused> {
    let about = fs::metadata(from).map_err(refused(from))?;
    fs::create_dir_all(to).map_err(refused(to))?;
    if let Some(OwnerIds { uid, gid, .. }) = owner {
        lchown(to, Some(uid), Some(gid)).map_err(refused(to))?;
    }
    access(&about, to, owner)
}

/// Copies one entry with its time and mode, over what is there. A file is written in place: whoever has it open sees what it
/// was. Each side is touched with the rights of whom it belongs to.
///
/// # Errors
/// It cannot be read or written.
pub(super) fn copy_one(
    (from, from_owner): (&Path, Owner),
    (to, to_owner): (&Path, Owner),
) -> Result<(), Refused> {
    let about = as_owner(from_owner, || fs::symlink_metadata(from)).map_err(refused(from))?;
    let kind = about.file_type();
    if kind.is_symlink() {
        let leads_to = as_owner(from_owner, || fs::read_link(from)).map_err(refused(from))?;
        return link(&leads_to, to, to_owner);
    }
    if kind.is_dir() {
        as_owner(to_owner, || fs::create_dir_all(to)).map_err(refused(to))?;
    } else {
        contents((from, from_owner), (to, to_owner))?;
    }
    access(&about, to, to_owner)
}

fn contents(
    (from, from_owner): (&Path, Owner),
    (to, to_owner): (&Path, Owner),
) -> Result<(), Refused> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut writing = OpenOptions::new();
    writing
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(flags);
    let mut source = as_owner(from_owner, || open_untrusted(from)).map_err(refused(from))?;
    let about = source.metadata().map_err(refused(from))?;
    let mut target = as_owner(to_owner, || writing.open(to)).map_err(refused(to))?;
    // `io::copy` lets the kernel share the blocks where the file system can.
    io::copy(&mut source, &mut target).map_err(refused(to))?;
    let modified = about.modified().map_err(refused(from))?;
    // A script whose time changed would be compiled once more.
    let times = FileTimes::new().set_modified(modified);
    target.set_times(times).map_err(refused(to))
}

fn access(about: &fs::Metadata, to: &Path, owner: Owner) -> Result<(), Refused> {
    // Its new owner can read and write all of it, as on the host where it runs; nothing of it runs as somebody else.
    let least = if about.is_dir() { 0o700 } else { 0o600 };
    let mode = fs::Permissions::from_mode((about.mode() & 0o777) | least);
    as_owner(owner, || fs::set_permissions(to, mode)).map_err(refused(to))
}

fn link(leads_to: &Path, to: &Path, owner: Owner) -> Result<(), Refused> {
    as_owner(owner, || {
        if fs::symlink_metadata(to).is_ok() {
            fs::remove_file(to)?;
        }
        symlink(leads_to, to)
    })
    .map_err(refused(to))
}

/// What makes an error of the system one of this path.
pub(super) fn refused(path: &Path) -> impl Fn(io::Error) -> Refused {
    let path = path.to_owned();
    move |why| Refused {
        path: path.clone(),
        why,
    }
}

/// Whether something could not be copied since it is gone by now, as sessions and caches of a site that serves come and go.
/// `to` is where it would have been copied to.
pub(super) fn is_gone(refused: &Refused, to: &Path) -> bool {
    refused.why.kind() == io::ErrorKind::NotFound && !refused.path.starts_with(to)
}

struct Copying<'a> {
    owner: Owner,
    /// Who must be able to read what a link out of the tree leads to.
    readers: &'a Readers,
    /// Links out of the tree that led here.
    depth: usize,
}

impl Copying<'_> {
    /// `root` has no links in its path.
    fn tree(&self, root: &Path, to: &Path) -> Result<(), Refused> {
        let left_out = |path: &Path| {
            let below = path.strip_prefix(root).unwrap_or(path);
            // The copy may lie below what is copied.
            LEFT_OUT.iter().any(|it| below.ends_with(it)) || path == to
        };
        let walk = WalkDir::new(root).min_depth(1).into_iter();
        for found in walk.filter_entry(|found| !left_out(found.path())) {
            let copied = match found {
                Ok(found) => self.entry(root, &found, to),
                Err(error) if listing::is_gone(&error) && error.depth() > 0 => continue,
                Err(error) => {
                    return Err(Refused {
                        path: error.path().unwrap_or(root).to_owned(),
                        why: error.into(),
                    });
                }
            };
            match copied {
                Err(refused) if !is_gone(&refused, to) => return Err(refused),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    fn entry(&self, root: &Path, found: &DirEntry, to: &Path) -> Result<(), Refused> {
        let Ok(below) = found.path().strip_prefix(root) else {
            return Ok(());
        };
        let target = to.join(below);
        let kind = found.file_type();
        if self.depth > 0 && !kind.is_symlink() {
            self.readers
                .check(found.path())
                .map_err(refused(found.path()))?;
        }
        if kind.is_symlink() {
            return self.link(root, found.path(), &target);
        }
        if kind.is_dir() || kind.is_file() {
            return copy_one((found.path(), None), (&target, self.owner));
        }
        Ok(())
    }

    /// A link to nothing is left out: who wrote through it would make a file elsewhere.
    fn link(&self, root: &Path, path: &Path, to: &Path) -> Result<(), Refused> {
        let Ok(leads_to) = path.canonicalize() else {
            return Ok(());
        };
        if let Ok(within) = leads_to.strip_prefix(root) {
            let below = path.strip_prefix(root).unwrap_or(path);
            return link(&relative(below, within), to, self.owner);
        }
        self.readers.check_way(&leads_to).map_err(refused(path))?;
        let about = fs::metadata(&leads_to).map_err(refused(path))?;
        if about.is_file() {
            return copy_one((&leads_to, None), (to, self.owner));
        }
        if !about.is_dir() {
            return Ok(());
        }
        if root.starts_with(&leads_to) || self.depth >= DEEPEST {
            let words = format!(
                "this link leads to {}, which holds it; remove the link, or name another directory as app.root",
                leads_to.display()
            );
            return Err(refused(path)(io::Error::other(words)));
        }
        let deeper = Self {
            depth: self.depth + 1,
            ..*self
        };
        copy_one((&leads_to, None), (to, self.owner))?;
        deeper.tree(&leads_to, to)
    }
}

/// The way from a link to what it leads to, both relative to the same directory.
fn relative(link: &Path, leads_to: &Path) -> PathBuf {
    let parents = link.components().count().saturating_sub(1);
    let up = std::iter::repeat_n(Component::ParentDir, parents);
    let way: PathBuf = up.chain(leads_to.components()).collect();
    if way.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// An application beside something that is not part of it, and its copy.
    fn check(make: impl Fn(&Path, &Path)) -> (TempDir, PathBuf, Result<(), Refused>) {
        let dir = TempDir::new().expect("a temporary directory");
        let (app, beside) = (dir.path().join("app"), dir.path().join("beside"));
        for path in [&app, &beside] {
            fs::create_dir(path).expect("a directory");
        }
        make(&app, &beside);
        let to = dir.path().join("lab/app");
        fs::create_dir(dir.path().join("lab")).expect("a directory");
        let result = copy(&app, &to, None, &Readers::all());
        (dir, to, result)
    }

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn files_keep_their_text_time_and_mode_but_run_as_nobody_else() {
        let (dir, to, result) = check(|app, _| {
            write(app.join("bin/run"), "x");
            let mode = fs::Permissions::from_mode(0o4755);
            fs::set_permissions(app.join("bin/run"), mode).expect("a mode");
        });
        result.expect("a copy");
        let about = |path: &Path| fs::metadata(path.join("bin/run")).expect("a file");
        let (was, is) = (about(&dir.path().join("app")), about(&to));
        assert_eq!(was.modified().expect("time"), is.modified().expect("time"));
        assert_eq!(is.mode() & 0o7777, 0o755);
    }

    #[test]
    fn what_vanished_is_left_out_and_a_copy_that_cannot_be_written_is_told() {
        let dir = TempDir::new().expect("a temporary directory");
        let (from, to) = (dir.path().join("app"), dir.path().join("copy"));
        write(from.join("page.php"), "x");
        let name = |path: &str| from.join(path);
        let vanished = copy_one((&name("session"), None), (&to.join("session"), None));
        assert!(is_gone(&vanished.expect_err("it is not there"), &to));
        let unwritten = copy_one((&name("page.php"), None), (&to.join("no/page.php"), None));
        assert!(!is_gone(&unwritten.expect_err("no directory"), &to));

        // Of two entries that a walk found, the second was removed before it was copied.
        let copying = Copying {
            owner: None,
            readers: &Readers::all(),
            depth: 0,
        };
        fs::create_dir(&to).expect("a directory");
        write(from.join("session"), "s");
        let walk = WalkDir::new(&from).min_depth(1).sort_by_file_name();
        let found: Vec<DirEntry> = walk.into_iter().flatten().collect();
        fs::remove_file(from.join("session")).expect("removed");
        let copied = found.iter().map(|found| copying.entry(&from, found, &to));
        let copied: Vec<bool> = copied.map(|copied| copied.is_ok()).collect();
        assert_eq!(copied, [true, false]);
    }

    #[test]
    fn a_link_within_the_application_stays_within_the_copy() {
        let (dir, to, result) = check(|app, _| {
            write(app.join("storage/a.txt"), "a");
            write(app.join("public/index.php"), "");
            symlink(app.join("storage"), app.join("public/storage")).expect("a link");
        });
        result.expect("a copy");
        fs::write(to.join("public/storage/a.txt"), "b").expect("written");
        let users = fs::read_to_string(dir.path().join("app/storage/a.txt"));
        assert_eq!(users.expect("a file"), "a");
        assert_eq!(
            fs::read_to_string(to.join("storage/a.txt")).expect("a file"),
            "b"
        );
    }

    #[test]
    fn what_is_written_through_a_link_out_of_the_application_stays_in_the_copy() {
        let (dir, to, result) = check(|app, beside| {
            write(beside.join("env"), "SECRET");
            write(beside.join("shared/log"), "old");
            symlink("../beside/env", app.join(".env")).expect("a link");
            symlink(beside.join("shared"), app.join("shared")).expect("a link");
            symlink(beside.join("nothing"), app.join("nothing")).expect("a link");
        });
        result.expect("a copy");
        for name in [".env", "shared/log", "nothing"] {
            fs::write(to.join(name), "new").expect("written");
        }
        let beside = |name| fs::read_to_string(dir.path().join("beside").join(name)).ok();
        assert_eq!(beside("env").as_deref(), Some("SECRET"));
        assert_eq!(beside("shared/log").as_deref(), Some("old"));
        assert_eq!(beside("nothing"), None);
    }

    #[test]
    fn a_link_to_what_only_root_may_read_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let nobody = |app: &Path| {
            let owner = OwnerIds {
                uid: 65534,
                gid: 65534,
                passing: None,
            };
            Readers::of(app, Some(owner)).expect("the application is there")
        };
        let shut = |path: &Path, mode: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        };
        let check = |plant: &dyn Fn(&Path), is_refused: bool| {
            let dir = TempDir::new().expect("a temporary directory");
            let (app, beside) = (dir.path().join("app"), dir.path().join("beside"));
            write(app.join("index.php"), "");
            write(beside.join("shared/key"), "SECRET");
            plant(&beside);
            for (name, to) in [("file", "shared/key"), ("directory", "shared")] {
                let link = app.join(name);
                symlink(beside.join(to), &link).expect("a link");
                let copied = copy(&app, &dir.path().join("copy"), None, &nobody(&app));
                fs::remove_file(link).expect("the link");
                let words = copied.err().map(|refused| refused.why.to_string());
                assert_eq!(words.is_some(), is_refused, "{name}: {words:?}");
                let said = words.unwrap_or("may read".to_owned());
                assert!(
                    said.contains("may read") && !said.contains("SECRET"),
                    "{said}"
                );
            }
        };
        // The directory that the application lies in is shut, as /root is: its own link to a file beside it may be followed.
        check(
            &|beside| shut(beside.parent().expect("a parent"), 0o700),
            false,
        );
        check(&|beside| shut(&beside.join("shared/key"), 0o640), true);
        check(&|beside| shut(beside, 0o700), true);
    }

    #[test]
    fn a_link_to_what_holds_the_application_is_refused_by_name() {
        let (dir, _, result) = check(|app, _| symlink("..", app.join("up")).expect("a link"));
        let refused = result.expect_err("a circle");
        assert!(
            refused
                .path
                .starts_with(dir.path().canonicalize().expect("a path"))
        );
        assert!(refused.path.ends_with("up"));
    }
}
