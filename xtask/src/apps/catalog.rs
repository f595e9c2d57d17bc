//! Which applications there are, and a private copy of one.

use anyhow::{Context as _, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An application that nobody here wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Application {
    pub(super) name: &'static str,
    /// Where it comes from.
    origin: Origin,
    /// The dump of its database, beside its files; `None` where it has none.
    pub(super) dump: Option<&'static str>,
    /// What stands on its pages and on no page of an error; `None` where that is not known.
    pub(super) shows: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Debian's packages, by `scripts/apps/prepare`.
    Packages,
    /// A directory that somebody brings.
    Given,
}

/// All of them, in the order they are tried.
pub(super) const APPLICATIONS: &[Application] = &[
    packaged("wordpress", Some("wordpress.sql"), "The Harbour Paper"),
    packaged("mediawiki", Some("wiki.sql"), "The Harbour Wiki"),
    packaged("dokuwiki", None, "The Harbour Notes"),
    packaged("phpmyadmin", None, "phpMyAdmin"),
    packaged("roundcube", Some("roundcube.sql"), "Harbour Mail"),
    given("kanboard"),
    given("freshrss"),
    given("symfony"),
    given("laravel"),
    given("piwigo"),
    given("opencart"),
    given("matomo"),
];

const fn packaged(
    name: &'static str,
    dump: Option<&'static str>,
    shows: &'static str,
) -> Application {
    Application {
        name,
        origin: Origin::Packages,
        dump,
        shows: Some(shows),
    }
}

const fn given(name: &'static str) -> Application {
    Application {
        name,
        origin: Origin::Given,
        dump: None,
        shows: None,
    }
}

impl Application {
    /// What is wrong with the pages that were measured: where none of them was asked for what stands on the application's
    /// pages only, they may have been those of an error. `None` when nothing is.
    pub(super) fn doubt(&self, measured: &[String]) -> Option<String> {
        let shows = self.shows?;
        let shown = measured.iter().any(|page| page.contains(shows));
        (!shown).then(|| {
            format!("no measured page was asked for `{shows}`: they may have been an error's")
        })
    }
}

/// The application of this name.
pub(super) fn find(name: &str) -> Option<Application> {
    APPLICATIONS
        .iter()
        .copied()
        .find(|application| application.name == name)
}

/// Where applications are.
pub(super) struct Source {
    /// Prepared ones, by name; they stay for the next time.
    pub(super) kept: PathBuf,
    /// Those that somebody brought, by name; `None` where nobody did.
    pub(super) given: Option<PathBuf>,
}

impl Source {
    /// The application's directory, prepared now if it was not yet. It is copied before anything is run on it.
    ///
    /// # Errors
    /// It cannot be had: why, in a sentence that fits a table.
    pub(super) fn directory(&self, application: &Application) -> Result<PathBuf, String> {
        match application.origin {
            Origin::Packages => self.prepared(application.name),
            Origin::Given => {
                let name = application.name;
                let brought = self.given.as_ref().map(|given| given.join(name));
                brought.filter(|dir| dir.is_dir()).ok_or_else(|| {
                    format!("no package brings it: put it into DIR/{name} and add --from DIR")
                })
            }
        }
    }

    fn prepared(&self, name: &str) -> Result<PathBuf, String> {
        let dir = self.kept.join(name);
        if dir.is_dir() {
            return Ok(dir);
        }
        let script = crate::workspace().join("scripts/apps/prepare");
        let done = Command::new(&script).arg(&self.kept).arg(name).output();
        let done =
            done.map_err(|error| format!("`{}` cannot be started: {error}", script.display()))?;
        if done.status.success() {
            return Ok(dir);
        }
        Err(crate::faults::last_words(&String::from_utf8_lossy(
            &done.stderr,
        )))
    }

    /// The shared object of a PHP extension (`xdebug`), unpacked and not installed.
    ///
    /// # Errors
    /// It cannot be had: why, in a sentence.
    pub(super) fn extension(&self, name: &str) -> Result<PathBuf, String> {
        let script = crate::workspace().join("scripts/apps/extension");
        let done = Command::new(&script).arg(&self.kept).arg(name).output();
        let done =
            done.map_err(|error| format!("`{}` cannot be started: {error}", script.display()))?;
        if !done.status.success() {
            return Err(crate::faults::last_words(&String::from_utf8_lossy(
                &done.stderr,
            )));
        }
        Ok(PathBuf::from(String::from_utf8_lossy(&done.stdout).trim()))
    }
}

/// A directory for a copy and what is measured on it. Servers run as users of their own, who have to get to the copy.
///
/// # Errors
/// There is no place for it.
pub(super) fn scratch() -> anyhow::Result<tempfile::TempDir> {
    let dir = tempfile::Builder::new()
        .prefix("kneepoint-app-")
        .tempdir()?;
    std::fs::set_permissions(
        dir.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )?;
    Ok(dir)
}

/// A copy with owners, modes and times as they are.
///
/// # Errors
/// The disk is full, or something cannot be read.
pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    let done = Command::new("cp")
        .args(["-a", "--reflink=auto"])
        .arg(from)
        .arg(to)
        .output()
        .context("cp cannot be started")?;
    ensure!(
        done.status.success(),
        "`{}` cannot be copied: {}",
        from.display(),
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_that_nobody_brought_is_told_with_what_to_do() {
        let dir = tempfile::tempdir().expect("directory");
        let source = |given: Option<&Path>| Source {
            kept: dir.path().join("kept"),
            given: given.map(Path::to_owned),
        };
        let kanboard = find("kanboard").expect("is known");
        let why = source(None)
            .directory(&kanboard)
            .expect_err("nobody brought it");
        assert!(
            why.contains("put it into DIR/kanboard and add --from DIR"),
            "{why}"
        );
        assert!(source(Some(dir.path())).directory(&kanboard).is_err());
        std::fs::create_dir(dir.path().join("kanboard")).expect("directory");
        assert_eq!(
            source(Some(dir.path())).directory(&kanboard),
            Ok(dir.path().join("kanboard"))
        );
    }

    #[test]
    fn pages_that_are_not_shown_to_be_the_applications_are_doubted() {
        let dokuwiki = find("dokuwiki").expect("is known");
        let doubt = |page: &str| dokuwiki.doubt(&[page.to_owned()]);
        assert!(doubt("/ (no text)").is_some_and(|words| words.contains("`The Harbour Notes`")));
        assert!(dokuwiki.doubt(&[]).is_some());
        assert_eq!(doubt("/ \"start [The Harbour Notes]\""), None);
        // Nobody here knows what one that was brought shows.
        assert_eq!(find("laravel").expect("is known").doubt(&[]), None);
    }

    #[test]
    fn one_that_was_prepared_is_not_prepared_again() {
        let dir = tempfile::tempdir().expect("directory");
        std::fs::create_dir(dir.path().join("dokuwiki")).expect("directory");
        let source = Source {
            kept: dir.path().to_owned(),
            given: None,
        };
        let found = source.directory(&find("dokuwiki").expect("is known"));
        assert_eq!(found, Ok(dir.path().join("dokuwiki")));
    }
}
