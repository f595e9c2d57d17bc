//! Finds stored runs by what people call them.

use anyhow::{Context as _, Result, bail};
use kneepoint_experiment::RunStore;
use std::path::{Path, PathBuf};

/// The ending of run files.
const EXTENSION: &str = "kneepoint.sqlite";

/// The run file of this name: a path, or a run's id in the directory of runs, or the beginning of one; the newest run for
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
    if files.is_empty() && name.is_none() {
        bail!(
            "there are no runs in {} yet: kneepoint limit, diagnose or tune makes one, --runs DIR names another directory",
            runs.display()
        );
    }
    // A run that began in the same second as another has its id and a number.
    let of = |id: &str| {
        let whole = format!("{id}.{EXTENSION}");
        files.iter().find(|path| path.ends_with(&whole))
    };
    if let Some(file) = name.and_then(of) {
        return Ok(file.clone());
    }
    let wanted = name.unwrap_or("");
    let matching: Vec<PathBuf> = files
        .into_iter()
        .filter(|path| {
            path.file_name()
                .is_some_and(|file| file.to_string_lossy().starts_with(wanted))
        })
        .collect();
    if matching.is_empty() && is_path(wanted) {
        bail!("there is no file {wanted}");
    }
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

/// Whether a name that is no run's was meant as a file's: it has directories or an ending.
fn is_path(name: &str) -> bool {
    name.contains('/') || Path::new(name).extension().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(runs: &Path, name: Option<&str>, says: &str) {
        let why = find(runs, name).expect_err("nothing is there").to_string();
        assert!(why.contains(says), "{why}");
    }

    #[test]
    fn what_is_not_there_is_named_as_what_it_was_meant_for() {
        let runs = tempfile::tempdir().expect("temp dir");
        check(runs.path(), None, "there are no runs in");
        check(
            runs.path(),
            Some("nofile.json"),
            "there is no file nofile.json",
        );
        check(runs.path(), Some("a/b"), "there is no file a/b");
        let one = runs.path().join("20260101-a-limit.kneepoint.sqlite");
        std::fs::write(&one, "").expect("written");
        check(runs.path(), Some("2027"), "no run `2027` in");
        assert_eq!(find(runs.path(), None).expect("the newest"), one);
    }

    #[test]
    fn a_run_is_found_by_the_id_that_it_is_listed_with() {
        let runs = tempfile::tempdir().expect("temp dir");
        let ids = [
            "20260101-000000-shop.example.com-limit",
            "20260101-000000-shop.example.com-limit_2",
        ];
        for id in ids {
            let file = runs.path().join(format!("{id}.{EXTENSION}"));
            std::fs::write(&file, "").expect("written");
            assert_eq!(find(runs.path(), Some(id)).expect("it is there"), file);
        }
        // Both are there by now.
        let first = find(runs.path(), Some(ids[0])).expect("one of two");
        assert!(first.ends_with(format!("{}.{EXTENSION}", ids[0])));
        let begun = "20260101-000000-shop.example";
        check(runs.path(), Some(begun), "fits several runs");
        check(runs.path(), Some("shop.example"), "there is no file");
    }
}
