//! Every Rust file is formatted, also those that a macro declares: `cargo fmt` does not see them.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use std::process::Command;

/// Files rustfmt would change.
pub(in crate::tidy) fn check(root: &Path, tree: &Tree) -> Result<Vec<Violation>> {
    let parsed = tree.sources.iter().filter(|source| source.syntax.is_some());
    let paths: Vec<&str> = parsed.map(|source| source.path.as_str()).collect();
    let output = Command::new("rustfmt")
        .args(["--check", "--files-with-diff", "--edition", "2024"])
        .args(&paths)
        .current_dir(root)
        .output()
        .context("`rustfmt` cannot be run")?;
    let listed = String::from_utf8_lossy(&output.stdout);
    let violations = violations(root, &listed);
    if !output.status.success() && violations.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`rustfmt --check` failed: {}", said.trim());
    }
    Ok(violations)
}

fn violations(root: &Path, listed: &str) -> Vec<Violation> {
    listed
        .lines()
        // A `#[path]` with `..` makes rustfmt name a file twice; it is in the tree by its own name.
        .filter(|line| !line.contains("/../"))
        .map(|line| {
            let path = Path::new(line);
            let path = path
                .strip_prefix(root)
                .unwrap_or(path)
                .display()
                .to_string();
            let text = format!("not formatted; run: rustfmt --edition 2024 {path}");
            Violation::new(&path, 0, "format", text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check_text(text: &str, expected: Expect) {
        let dir = tempfile::TempDir::new().expect("a temporary directory");
        std::fs::write(dir.path().join("a.rs"), text).expect("a file");
        let found = check(dir.path(), &Tree::of(&[("a.rs", text)])).expect("rustfmt runs");
        let lines: String = found.iter().map(|found| format!("{found}\n")).collect();
        expected.assert_eq(&lines);
    }

    #[test]
    fn what_rustfmt_would_change_is_named() {
        check_text(
            "fn  f( ) { }\n",
            expect![[r#"
            a.rs:0: format: not formatted; run: rustfmt --edition 2024 a.rs
        "#]],
        );
        check_text("fn f() {}\n", expect![[""]]);
    }
}
