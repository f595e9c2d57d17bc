//! What lies in a directory, and what must be done to put it back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};
use walkdir::WalkDir;

/// One entry of a directory tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    Directory,
    File {
        bytes: u64,
        modified: Option<SystemTime>,
    },
    Link(PathBuf),
}

/// All entries below a directory, by their path relative to it. Parents come before what they hold.
pub(super) type Listing = BTreeMap<PathBuf, Entry>;

/// Lists a directory in one walk. Links are not followed; sockets, pipes and devices are left out.
///
/// # Errors
/// A directory cannot be read. What vanishes during the walk is left out.
pub(super) fn list(root: &Path) -> io::Result<Listing> {
    let mut listing = Listing::new();
    for found in WalkDir::new(root).min_depth(1) {
        let found = match found {
            Ok(found) => found,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(error.into()),
        };
        let Ok(path) = found.path().strip_prefix(root) else {
            continue;
        };
        match entry(&found) {
            Ok(Some(entry)) => {
                listing.insert(path.to_owned(), entry);
            }
            Ok(None) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listing)
}

fn entry(found: &walkdir::DirEntry) -> io::Result<Option<Entry>> {
    let kind = found.file_type();
    Ok(if kind.is_dir() {
        Some(Entry::Directory)
    } else if kind.is_symlink() {
        Some(Entry::Link(fs::read_link(found.path())?))
    } else if kind.is_file() {
        let about = found.metadata().map_err(io::Error::from)?;
        Some(Entry::File {
            bytes: about.len(),
            modified: about.modified().ok(),
        })
    } else {
        None
    })
}

/// Whether what was walked is gone by now.
pub(super) fn is_gone(error: &walkdir::Error) -> bool {
    let io = error.io_error();
    io.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// What puts a directory back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WayBack {
    /// What is to be removed, what a directory holds before the directory.
    pub(super) remove: Vec<PathBuf>,
    /// What is to be brought back, directories before what they hold.
    pub(super) bring: Vec<PathBuf>,
}

/// What turns the tree as it is `now` into the one it was.
pub(super) fn way_back(was: &Listing, now: &Listing) -> WayBack {
    let same_kind = |a: &Entry, b: &Entry| std::mem::discriminant(a) == std::mem::discriminant(b);
    let remove = now.iter().rev().filter(|(path, entry)| {
        let before = was.get(*path);
        !before.is_some_and(|before| same_kind(before, entry))
    });
    let bring = was
        .iter()
        .filter(|(path, entry)| now.get(*path) != Some(*entry));
    WayBack {
        remove: remove.map(|(path, _)| path.clone()).collect(),
        bring: bring.map(|(path, _)| path.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> Entry {
        Entry::File {
            bytes,
            modified: None,
        }
    }

    fn tree(entries: &[(&str, Entry)]) -> Listing {
        let entries = entries.iter();
        entries
            .map(|(path, entry)| (PathBuf::from(path), entry.clone()))
            .collect()
    }

    #[track_caller]
    fn check(was: &[(&str, Entry)], now: &[(&str, Entry)], remove: &[&str], bring: &[&str]) {
        let paths = |all: &[&str]| all.iter().map(PathBuf::from).collect::<Vec<_>>();
        let expected = WayBack {
            remove: paths(remove),
            bring: paths(bring),
        };
        assert_eq!(way_back(&tree(was), &tree(now)), expected);
    }

    #[test]
    fn what_did_not_change_stays() {
        let same = [("a", Entry::Directory), ("a/b", file(1))];
        check(&same, &same, &[], &[]);
    }

    #[test]
    fn new_files_go_before_their_directory() {
        let was = [("index.php", file(1))];
        let now = [
            ("cache", Entry::Directory),
            ("cache/x", file(2)),
            ("index.php", file(1)),
        ];
        check(&was, &now, &["cache/x", "cache"], &[]);
    }

    #[test]
    fn changed_and_lost_files_come_back_after_their_directory() {
        let was = [
            ("data", Entry::Directory),
            ("data/db", file(1)),
            ("log", file(0)),
        ];
        check(&was, &[("log", file(9))], &[], &["data", "data/db", "log"]);
    }

    #[test]
    fn what_became_something_else_is_removed_first() {
        let was = [("x", file(1))];
        let now = [("x", Entry::Directory), ("x/y", file(1))];
        check(&was, &now, &["x/y", "x"], &["x"]);
        let link = |to: &str| Entry::Link(PathBuf::from(to));
        check(&[("l", link("a"))], &[("l", link("b"))], &[], &["l"]);
    }
}
