//! Who must be able to read what an application's links lead to.
//!
//! Root copies the application, and hands the copy to PHP's user. A link is the application's own: without this it could have
//! root read for it whatever it likes.

use super::acting::Owner;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Users, one of whom must have the right; all may where root does not copy for another.
#[derive(Debug)]
pub(super) struct Readers {
    users: Option<Vec<(u32, u32)>>,
    /// The application's directory: what it lies in shuts it off from others, and not from what lies beside it.
    home: PathBuf,
}

impl Readers {
    /// Everybody: the copy is for whoever makes it, or of a copy.
    pub(super) fn all() -> Self {
        Self {
            users: None,
            home: PathBuf::new(),
        }
    }

    /// PHP's user, and whoever the application's directory belongs to, unless that is root.
    ///
    /// # Errors
    /// The directory is not there.
    pub(super) fn of(home: &Path, php: Owner) -> io::Result<Self> {
        let Some(php) = php else {
            return Ok(Self::all());
        };
        let home = home.canonicalize()?;
        let about = fs::metadata(&home)?;
        let mut users = vec![(php.uid, php.gid)];
        if about.uid() != 0 {
            users.push((about.uid(), about.gid()));
        }
        Ok(Self {
            users: Some(users),
            home,
        })
    }

    /// Whether one of them may read a file, or list and enter a directory, by its own mode.
    ///
    /// # Errors
    /// None may, or it is not there.
    pub(super) fn check(&self, path: &Path) -> io::Result<()> {
        let about = fs::symlink_metadata(path)?;
        self.demand(&about, if about.is_dir() { 0o5 } else { 0o4 }, path)
    }

    /// The same, and whether they may pass through the directories on the way to it. `path` has no links in it.
    ///
    /// # Errors
    /// As [`Self::check`].
    pub(super) fn check_way(&self, path: &Path) -> io::Result<()> {
        let above = path.ancestors().skip(1);
        for directory in above.filter(|directory| !self.home.starts_with(directory)) {
            self.demand(&fs::metadata(directory)?, 0o1, path)?;
        }
        self.check(path)
    }

    fn demand(&self, about: &Metadata, bits: u32, path: &Path) -> io::Result<()> {
        let Some(users) = &self.users else {
            return Ok(());
        };
        let has_right = |(uid, gid): &(u32, u32)| {
            let shift = if about.uid() == *uid {
                6
            } else if about.gid() == *gid {
                3
            } else {
                0
            };
            (about.mode() >> shift) & bits == bits
        };
        if users.iter().any(has_right) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "a link leads to {}, which neither PHP's user nor the owner of the application's directory may read; remove the \
             link, or let one of them read it",
            path.display()
        )))
    }
}
