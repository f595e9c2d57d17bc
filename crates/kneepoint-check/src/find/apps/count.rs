//! How many files of PHP applications have. A host has many, and one may be served under many names: all share one
//! allowance and one deadline, and what was counted is not counted again.

use super::once::Once;
use crate::files::Files;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Most names that are looked at for one application, for all together, and how deep below the directory.
const NAMES: usize = 60_000;
const ALL_NAMES: usize = 240_000;
const DEPTH: usize = 14;

/// Files of PHP below a directory, and whether there are more than were counted.
pub(super) type Counted = (u64, bool);

/// The counts of one look.
pub(super) struct Counts {
    deadline: Instant,
    left: AtomicUsize,
    known: Once<Counted>,
}

impl Counts {
    pub(super) fn until(deadline: Instant) -> Self {
        Self {
            deadline,
            left: AtomicUsize::new(ALL_NAMES),
            known: Once::default(),
        }
    }

    /// Of a directory.
    pub(super) fn of(&self, files: &dyn Files, root: &str) -> Counted {
        self.known.of(files, root, || self.count(files, root))
    }

    fn count(&self, files: &dyn Files, root: &str) -> Counted {
        let mut pending = vec![(root.to_owned(), 0)];
        let (mut found, mut looked) = (0, 0);
        while let Some((dir, depth)) = pending.pop() {
            if Instant::now() >= self.deadline || self.left.load(Ordering::Relaxed) == 0 {
                return (found, true);
            }
            let names = files.names(&dir).unwrap_or_default();
            // A directory costs, however few names it has.
            self.take(names.len() + 1);
            for name in names {
                looked += 1;
                if looked > NAMES {
                    return (found, true);
                }
                found += u64::from(!name.is_dir && name.name.ends_with(".php"));
                if name.is_dir && depth < DEPTH && name.name != "node_modules" {
                    pending.push((
                        format!("{}/{}", dir.trim_end_matches('/'), name.name),
                        depth + 1,
                    ));
                }
            }
        }
        (found, false)
    }

    fn take(&self, names: usize) {
        let less = |left: usize| Some(left.saturating_sub(names));
        let _ = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{Memory, Root};
    use std::time::Duration;

    fn counts() -> Counts {
        Counts::until(Instant::now() + Duration::from_secs(60))
    }

    #[test]
    fn files_of_php_are_counted_in_all_directories() {
        let files = Memory::of(&[
            ("/srv/a.php", ""),
            ("/srv/b/c/d.php", ""),
            ("/srv/b/e.txt", ""),
            ("/srv/node_modules/f.php", ""),
        ]);
        assert_eq!(counts().of(&files, "/srv"), (2, false));
    }

    #[test]
    fn a_directory_of_many_names_is_counted_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |name: &str| std::fs::write(dir.path().join(name), "").expect("a file");
        std::fs::create_dir(dir.path().join("app")).expect("a directory");
        put("app/a.php");
        for at in 0..600 {
            let link = dir.path().join(format!("s{at}"));
            std::os::unix::fs::symlink("app", link).expect("a link");
        }
        let files = Root::at(&dir.path().display().to_string()).expect("a root");
        let counts = counts();
        for at in 0..600 {
            assert_eq!(counts.of(&files, &format!("/s{at}")), (1, false));
        }
        assert_eq!(counts.left.into_inner(), ALL_NAMES - 2);
    }

    #[test]
    fn applications_share_an_allowance_and_a_deadline() {
        let files = Memory::of(&[("/a/a.php", ""), ("/b/b.php", "")]);
        let counts = counts();
        counts.take(ALL_NAMES - 2);
        assert_eq!(counts.of(&files, "/a"), (1, false));
        assert_eq!(counts.of(&files, "/b"), (0, true));
        let late = Counts::until(Instant::now());
        assert_eq!(late.of(&files, "/a"), (0, true));
    }
}
