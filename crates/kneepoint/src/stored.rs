//! Finds stored runs by what people call them.

use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::RunStore;
use std::path::{Path, PathBuf};

/// The run file of this name: a path, or the beginning of a run's id in the directory of runs; the newest run for
/// `None`.
///
/// # Errors
/// There is no such run, or several.
pub fn find(runs: &Path, name: Option<&str>) -> Result<PathBuf> {
    if let Some(name) = name
        && Path::new(name).is_file()
    {
        return Ok(name.into());
    }
    let files = RunStore::list(runs);
    let wanted = name.unwrap_or("");
    let matching: Vec<PathBuf> = files
        .into_iter()
        .filter(|path| {
            path.file_name()
                .is_some_and(|file| file.to_string_lossy().starts_with(wanted))
        })
        .collect();
    if matching.len() > 1 && name.is_some() {
        let names = matching
            .iter()
            .map(|path| path.display().to_string())
            .collect::<Vec<_>>()
            .join("\n  ");
        bail!("`{wanted}` fits several runs:\n  {names}");
    }
    matching.into_iter().next_back().with_context(|| {
        format!(
            "no run `{wanted}` in {}; `kneepoint runs` lists them",
            runs.display()
        )
    })
}
