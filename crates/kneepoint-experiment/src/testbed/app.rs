//! The application on disk: its private copy with the scenario's changes, and its environment.

use super::copy::{Pristine, PrivateCopy};
use crate::error::ExperimentError;
use kneepoint_model::{AppKind, FilePatch, Scenario};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// What stands for a private writable directory in values of `[app.env]`.
const STORAGE: &str = "{storage}";

fn unfit(what: &str, path: &Path, error: &dyn std::fmt::Display) -> ExperimentError {
    ExperimentError::Unfit(format!("{what} {}: {error}", path.display()))
}

/// An arm's private copy of the application below `dir`, with the scenario's changes made.
///
/// # Errors
/// The copy cannot be made, or a change does not fit the file.
pub(super) fn private_copy(
    pristine: Arc<Pristine>,
    patches: &[FilePatch],
    dir: &Path,
) -> Result<PrivateCopy, ExperimentError> {
    let copy = PrivateCopy::make(pristine, dir)?;
    for patch in patches {
        apply(&copy.root, patch)?;
        copy.hand_over(&patch.path)?;
    }
    Ok(copy)
}

/// A text in which the application's directory is named, with the copy in its place. A name that only begins like
/// it is another directory's.
pub(super) fn follow(text: &str, original: &Path, copy: &Path) -> String {
    let named = original.to_string_lossy();
    let copy = copy.to_string_lossy();
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(named.as_ref()).filter(|_| named.len() > 1) {
        let (before, found) = rest.split_at(at);
        let (found, after) = found.split_at(named.len());
        let belongs = |c: char| c.is_alphanumeric() || "_-.".contains(c);
        let begins = result.chars().chain(before.chars()).next_back();
        let is_it = !begins.is_some_and(|c| belongs(c) || c == '/')
            && !after.chars().next().is_some_and(belongs);
        result.push_str(before);
        result.push_str(if is_it { &copy } else { found });
        rest = after;
    }
    result + rest
}

fn apply(copy: &Path, patch: &FilePatch) -> Result<(), ExperimentError> {
    let path = copy.join(&patch.path);
    let text = match &patch.find {
        None => patch.text.clone(),
        Some(find) => {
            let text = std::fs::read_to_string(&path)
                .map_err(|error| unfit("cannot read", &path, &error))?;
            if !text.contains(find.as_str()) {
                return Err(ExperimentError::Unfit(format!(
                    "[[app.file]] {}: the text to find is not in it: {find}",
                    patch.path.display()
                )));
            }
            text.replace(find.as_str(), &patch.text)
        }
    };
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|error| unfit("cannot create", parent, &error))?;
    }
    std::fs::write(&path, text).map_err(|error| unfit("cannot write", &path, &error))
}

/// The application's environment, with a private writable directory where it needs one.
///
/// # Errors
/// The directory cannot be made or handed over.
pub(super) fn environment(
    scenario: &Scenario,
    dir: &Path,
    copy: &Path,
) -> Result<BTreeMap<String, String>, ExperimentError> {
    let storage = dir.join("storage");
    std::fs::create_dir_all(&storage).map_err(|error| unfit("cannot create", &storage, &error))?;
    // Whoever PHP runs as must be able to write there; the lab's directory is private to this run.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o1777);
    std::fs::set_permissions(&storage, open)
        .map_err(|error| unfit("cannot open to PHP", &storage, &error))?;
    let storage = storage.display().to_string();
    let mut env: BTreeMap<String, String> = scenario
        .env
        .iter()
        .map(|(name, value)| {
            let value = follow(value, &scenario.root, copy);
            (name.clone(), value.replace(STORAGE, &storage))
        })
        .collect();
    if scenario.kind == AppKind::Laravel {
        // Laravel 11 reads the second by itself; older skeletons need the first.
        for name in ["APP_STORAGE", "LARAVEL_STORAGE_PATH"] {
            env.entry(name.to_owned())
                .or_insert_with(|| storage.clone());
        }
    }
    Ok(env)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let (original, copy) = (Path::new("/srv/app"), Path::new("/lab/php/app"));
        assert_eq!(follow(text, original, copy), expected);
    }

    #[test]
    fn what_names_the_application_names_its_copy() {
        check("/srv/app", "/lab/php/app");
        check(
            "sqlite:/srv/app/data/db.sqlite",
            "sqlite:/lab/php/app/data/db.sqlite",
        );
        check(
            "/srv/app:/tmp:/srv/app/x",
            "/lab/php/app:/tmp:/lab/php/app/x",
        );
    }

    #[test]
    fn a_name_that_only_begins_or_ends_alike_is_another_directorys() {
        for other in [
            "/srv/app2/data",
            "/srv/app-old",
            "/old/srv/app",
            "/srv/app.bak",
        ] {
            check(other, other);
        }
    }
}
