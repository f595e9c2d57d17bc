//! The application's private copy: PHP never runs in the user's directory.
//!
//! What is copied is copied once in a run ([`Pristine`]), so that all arms serve the same files whatever happens to the
//! user's meanwhile; each arm has a copy of that ([`PrivateCopy`]). Before each step an arm's copy is put back to what it was
//! after the warm-up, as cache and database are.

mod acting;
mod listing;
mod readers;
mod tree;

use crate::error::ExperimentError;
use acting::Owner;
pub(super) use acting::OwnerIds;
use listing::{Listing, list, way_back};
use readers::Readers;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tree::{Refused, refused};

/// The application as it was when the run began to use it.
#[derive(Debug)]
pub(super) struct Pristine {
    dir: PathBuf,
    listing: Listing,
    owner: Owner,
}

impl Pristine {
    /// Copies an application. The copy is this program's own: what PHP runs, and may change, is made from it.
    ///
    /// # Errors
    /// Something of it cannot be copied; the message names it.
    pub(super) fn of(root: &Path, dir: PathBuf, owner: Owner) -> Result<Self, ExperimentError> {
        Readers::of(root, owner)
            .map_err(refused(root))
            .and_then(|readers| tree::copy(root, &dir, None, &readers))
            .map_err(|refused| unfit("copy the application", refused))?;
        let listing = listed(&dir)?;
        Ok(Self {
            dir,
            listing,
            owner,
        })
    }
}

/// One arm's copy.
#[derive(Debug)]
pub(super) struct PrivateCopy {
    /// Where PHP runs the application from.
    pub(super) root: PathBuf,
    pristine: Arc<Pristine>,
    /// What the arm's copy had beyond the pristine one after the warm-up.
    kept: PathBuf,
    /// What lay in it then; `None` before.
    settled: Option<Listing>,
}

impl PrivateCopy {
    /// Makes an arm's copy below `dir`.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn make(pristine: Arc<Pristine>, dir: &Path) -> Result<Self, ExperimentError> {
        let root = dir.join("app");
        tree::copy(&pristine.dir, &root, pristine.owner, &Readers::all())
            .map_err(|refused| unfit("copy the application", refused))?;
        Ok(Self {
            root,
            pristine,
            kept: dir.join("app-warm"),
            settled: None,
        })
    }

    /// Changes something in the copy with the rights of the user that PHP runs as, to whom all of it belongs.
    ///
    /// # Errors
    /// The change fails.
    pub(super) fn change(
        &self,
        work: impl FnOnce(&Path) -> Result<(), ExperimentError>,
    ) -> Result<(), ExperimentError> {
        let done = acting::as_owner(self.pristine.owner, || Ok(work(&self.root)));
        done.unwrap_or_else(|why| Err(unfit("change the application", refused(&self.root)(why))))
    }

    /// What lies in the copy now is what each step begins with.
    ///
    /// # Errors
    /// It cannot be read, or there is no room to keep what the application wrote.
    pub(super) fn settle(&mut self) -> Result<(), ExperimentError> {
        let mut now = listed(&self.root)?;
        // Who could write into it could lead the next step's files elsewhere.
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.kept)
            .map_err(|why| unfit("keep what the application wrote", refused(&self.kept)(why)))?;
        for path in way_back(&now, &self.pristine.listing).bring {
            let kept = self.kept.join(&path);
            let parents = kept.parent().map_or(Ok(()), fs::create_dir_all);
            let own = self.root.join(&path);
            let copied = parents
                .map_err(refused(&kept))
                .and_then(|()| tree::copy_one((&own, self.pristine.owner), (&kept, None)));
            match copied {
                Ok(()) => {}
                // A session that ended meanwhile is none that a step begins with.
                Err(gone) if tree::is_gone(&gone, &self.kept) => {
                    now.remove(&path);
                }
                Err(refused) => return Err(unfit("keep what the application wrote", refused)),
            }
        }
        self.settled = Some(now);
        Ok(())
    }

    /// Puts the copy back to what it was when it settled; nothing before that.
    ///
    /// # Errors
    /// Something cannot be removed or brought back.
    pub(super) fn restore(&self) -> Result<(), ExperimentError> {
        let Some(settled) = &self.settled else {
            return Ok(());
        };
        let way = way_back(settled, &listed(&self.root)?);
        for path in &way.remove {
            let path = self.root.join(path);
            let removed = acting::as_owner(self.pristine.owner, || {
                let is_dir = fs::symlink_metadata(&path).is_ok_and(|about| about.is_dir());
                if is_dir {
                    fs::remove_dir_all(&path)
                } else {
                    fs::remove_file(&path)
                }
            });
            // The application may have removed it meanwhile.
            if let Err(why) = removed
                && why.kind() != ErrorKind::NotFound
            {
                return Err(unfit("put the application back", refused(&path)(why)));
            }
        }
        for path in &way.bring {
            let kept = self.kept.join(path);
            let from = match fs::symlink_metadata(&kept) {
                Ok(_) => kept,
                Err(_) => self.pristine.dir.join(path),
            };
            let own = self.root.join(path);
            tree::copy_one((&from, None), (&own, self.pristine.owner))
                .map_err(|refused| unfit("put the application back", refused))?;
        }
        Ok(())
    }
}

fn listed(root: &Path) -> Result<Listing, ExperimentError> {
    list(root).map_err(|why| unfit("list the application's files", refused(root)(why)))
}

fn unfit(what: &str, refused: Refused) -> ExperimentError {
    ExperimentError::Unfit(format!(
        "cannot {what}: {}: {}",
        refused.path.display(),
        refused.why
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// An application that was warmed by one function and loaded by another, and put back.
    fn check(warm: impl Fn(&Path), load: impl Fn(&Path), expected: &[(&str, &str)]) {
        let dir = TempDir::new().expect("a temporary directory");
        let app = dir.path().join("user");
        fs::create_dir_all(app.join("data")).expect("a directory");
        fs::write(app.join("data/db"), "begin").expect("a file");
        fs::write(app.join("index.php"), "<?php").expect("a file");
        let pristine = Pristine::of(&app, dir.path().join("pristine"), None).expect("a copy");
        let mut copy = PrivateCopy::make(Arc::new(pristine), dir.path()).expect("a copy");
        warm(&copy.root);
        copy.settle().expect("settled");
        for _ in 0..2 {
            load(&copy.root);
            copy.restore().expect("restored");
            let is: Vec<(String, String)> = list(&copy.root)
                .expect("a listing")
                .keys()
                .filter_map(|path| {
                    let text = fs::read_to_string(copy.root.join(path)).ok()?;
                    Some((path.display().to_string(), text))
                })
                .collect();
            let expected = expected
                .iter()
                .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
            assert_eq!(is, expected.collect::<Vec<_>>());
        }
        assert_eq!(
            fs::read_to_string(app.join("data/db")).expect("a file"),
            "begin"
        );
    }

    fn write(root: &Path, path: &str, text: &str) {
        fs::create_dir_all(root.join(path).parent().expect("a parent")).expect("a directory");
        fs::write(root.join(path), text).expect("a file");
    }

    #[test]
    fn what_load_wrote_is_gone_and_what_the_warm_up_wrote_stays() {
        check(
            |app| {
                write(app, "cache/a", "warm");
                write(app, "data/db", "one row more");
            },
            |app| {
                write(app, "cache/b", "cold");
                write(app, "data/db", "many more rows");
                write(app, "cache/a", "expired");
            },
            &[
                ("cache/a", "warm"),
                ("data/db", "one row more"),
                ("index.php", "<?php"),
            ],
        );
    }

    #[test]
    fn what_load_removed_comes_back() {
        check(
            |_| (),
            |app| {
                fs::remove_dir_all(app.join("data")).expect("removed");
                fs::remove_file(app.join("index.php")).expect("removed");
                fs::create_dir(app.join("index.php")).expect("a directory");
            },
            &[("data/db", "begin"), ("index.php", "<?php")],
        );
    }

    /// What an application plants in its own directory while it is put back leads nobody elsewhere.
    #[test]
    fn nothing_is_put_back_or_kept_through_a_planted_link() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = TempDir::new().expect("a temporary directory");
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        fs::set_permissions(dir.path(), open).expect("mode");
        let (app, victim) = (dir.path().join("user"), dir.path().join("victim"));
        for path in [app.join("data"), victim.clone()] {
            fs::create_dir_all(path).expect("a directory");
        }
        fs::write(app.join("data/db"), "begin").expect("a file");
        fs::write(victim.join("db"), "root's").expect("a file");
        let nobody = Some(OwnerIds {
            uid: 65534,
            gid: 65534,
            passing: None,
        });
        let pristine = Pristine::of(&app, dir.path().join("pristine"), nobody).expect("a copy");
        let mut copy = PrivateCopy::make(Arc::new(pristine), dir.path()).expect("a copy");
        copy.settle().expect("settled");
        let planted = copy.root.join("data");
        let from = dir.path().join("pristine/data/db");
        fs::remove_dir_all(&planted).expect("removed");
        std::os::unix::fs::symlink(&victim, &planted).expect("a link");
        // Between the look and the write: as if the link had come in just then.
        let own = planted.join("db");
        assert!(tree::copy_one((&from, None), (&own, nobody)).is_err());
        fs::remove_file(&planted).expect("removed");
        fs::create_dir(&planted).expect("a directory");
        std::os::unix::fs::chown(&planted, Some(65534), Some(65534)).expect("handed over");
        std::os::unix::fs::symlink(victim.join("db"), &own).expect("a link");
        assert!(tree::copy_one((&from, None), (&own, nobody)).is_err());
        copy.restore().expect("put back");
        assert_eq!(fs::read_to_string(&own).expect("a file"), "begin");
        assert_eq!(
            fs::read_to_string(victim.join("db")).expect("a file"),
            "root's"
        );
    }
}
