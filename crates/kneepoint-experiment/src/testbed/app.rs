//! The application on disk: the user's own directory, or a private copy where the scenario changes files.

use crate::error::ExperimentError;
use kneepoint_model::{AppKind, CommandSpec, Commands, FilePatch, Scenario};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What stands for a private writable directory in values of `[app.env]`.
const STORAGE: &str = "{storage}";

fn unfit(what: &str, path: &Path, error: &dyn std::fmt::Display) -> ExperimentError {
    ExperimentError::Unfit(format!("{what} {}: {error}", path.display()))
}

/// The directory PHP runs the application from: the scenario's root, or a copy below `dir` with the
/// scenario's file changes made.
///
/// # Errors
/// The copy cannot be made, or a change does not fit the file.
pub(super) fn root(
    scenario: &Scenario,
    dir: &Path,
    commands: &dyn Commands,
) -> Result<PathBuf, ExperimentError> {
    if scenario.app_files.is_empty() {
        return Ok(scenario.root.clone());
    }
    let copy = dir.join("app");
    let from = scenario.root.join(".");
    std::fs::create_dir_all(&copy).map_err(|error| unfit("cannot create", &copy, &error))?;
    let command = CommandSpec::new("/bin/cp").args([
        "-a".to_owned(),
        from.display().to_string(),
        copy.display().to_string(),
    ]);
    let output = commands.run(&command).map_err(ExperimentError::Unfit)?;
    if !output.success() {
        return Err(ExperimentError::Unfit(format!(
            "cannot copy {}: {}",
            scenario.root.display(),
            output.stderr.trim()
        )));
    }
    for patch in &scenario.app_files {
        apply(&copy, patch)?;
    }
    Ok(copy)
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
        .map(|(name, value)| (name.clone(), value.replace(STORAGE, &storage)))
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
