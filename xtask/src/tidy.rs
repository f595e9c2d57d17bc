//! The invariants of ARCHITECTURE.md, as checks of the source tree.
//!
//! Each check is a pure function of the files, so that it is tested on planted violations; only [`run`] and
//! [`tree`] touch the disk. A violation is one line, `path:line: rule: text`.

pub(crate) mod map;
pub(crate) mod structure;
mod text;
pub(crate) mod tree;

use anyhow::Result;
use std::fmt;
use std::path::Path;
use std::process::ExitCode;
use structure::{arrows, doors, edges, lists, modules, names, purity, rooms, sizes};
use text::{architecture, documents, format, machine_paths, words};
use tree::Tree;

/// Something in the tree that must not be.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    /// File relative to the workspace.
    path: String,
    /// Line counted from 1; 0 for the file as a whole.
    line: usize,
    /// Name of the rule.
    rule: &'static str,
    /// What is wrong and what to do instead.
    text: String,
}

impl Violation {
    fn new(path: &str, line: usize, rule: &'static str, text: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            text: text.into(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            line,
            rule,
            text,
        } = self;
        write!(f, "{path}:{line}: {rule}: {text}")
    }
}

/// Checks that read nothing but the tree.
const CHECKS: &[fn(&Tree) -> Vec<Violation>] = &[
    architecture::check,
    arrows::check,
    documents::check,
    doors::check,
    lists::check,
    machine_paths::check,
    modules::check_dead_files,
    modules::check_heads,
    names::check,
    purity::check,
    rooms::check,
    sizes::check,
    modules::check_syntax,
    words::check,
];

/// Runs every check on the workspace and prints what is wrong.
///
/// # Errors
/// The workspace cannot be read, or `git`, `cargo` or `rustfmt` cannot be run.
#[expect(clippy::print_stdout, reason = "a chore talks to people")]
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let tree = Tree::read(root)?;
    let members = edges::members(root)?;
    let mut violations: Vec<Violation> = CHECKS.iter().flat_map(|check| check(&tree)).collect();
    violations.extend(edges::check(&members));
    violations.extend(format::check(root, &tree)?);
    violations.sort();
    violations.dedup();
    for violation in &violations {
        println!("{violation}");
    }
    let files = tree.sources.len();
    if violations.is_empty() {
        println!(
            "tidy: {files} source files in {} crates are in order",
            members.len()
        );
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "tidy: {} violations in {files} source files",
        violations.len()
    );
    Ok(ExitCode::FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::Expect;

    /// A check, on a planted tree, finds this.
    #[track_caller]
    pub(super) fn check(
        run: fn(&Tree) -> Vec<Violation>,
        files: &[(&str, &str)],
        expected: Expect,
    ) {
        let mut violations = run(&Tree::of(files));
        violations.sort();
        let lines: String = violations
            .iter()
            .map(|found| format!("{found}\n"))
            .collect();
        expected.assert_eq(&lines);
    }
}
