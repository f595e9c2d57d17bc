//! A document that a comment or another document names is in the repository.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use crate::tidy::tree::test_code::test_lines;
use std::collections::BTreeSet;

/// Every `*.md` named in a comment of a Rust file, or linked in a document, exists.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    let known: BTreeSet<&str> = tree
        .files
        .keys()
        .filter(|path| path.ends_with(".md"))
        .map(String::as_str)
        .collect();
    let mut violations = Vec::new();
    let mut judge = |path: &str, line: usize, names: Vec<String>| {
        let unknown = names.iter().filter(|name| !exists(&known, path, name));
        violations.extend(unknown.map(|name| {
            let text = format!("there is no document `{name}` in the repository");
            Violation::new(path, line, "documents", text)
        }));
    };
    let documents = tree.files.iter().filter(|(path, _)| path.ends_with(".md"));
    for (path, text) in documents {
        for (index, line) in text.lines().enumerate() {
            judge(path, index + 1, links(line));
        }
    }
    for source in &tree.sources {
        // Tests plant documents that are not there.
        let tests = source.syntax.as_ref().map_or_else(Vec::new, test_lines);
        for (index, line) in source.text.lines().enumerate() {
            if !tests.iter().any(|lines| lines.contains(&(index + 1))) {
                judge(&source.path, index + 1, in_a_comment(line));
            }
        }
    }
    violations
}

/// Documents that a line of Rust names after `//`.
fn in_a_comment(line: &str) -> Vec<String> {
    let Some((code, comment)) = line.split_once("//") else {
        return Vec::new();
    };
    // An address in a string is no comment.
    if code.ends_with(':') {
        return Vec::new();
    }
    let is_part = |c: char| c.is_alphanumeric() || "._-/".contains(c);
    let words = comment.split(|c: char| !is_part(c));
    words
        .map(|word| word.trim_matches(['.', '/']))
        .filter(|word| word.len() > 3 && word.ends_with(".md"))
        .map(str::to_owned)
        .collect()
}

/// Documents that a line of Markdown links to, without those elsewhere in the world.
fn links(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for after in line.split("](").skip(1) {
        let target = after.split([')', '#', ' ']).next().unwrap_or_default();
        if target.ends_with(".md") && !target.contains("://") {
            found.push(target.to_owned());
        }
    }
    found
}

/// Whether a name is that of a document: by its path from the root, from the file that names it, or in `docs/`, or (a bare
/// name in a comment) anywhere.
fn exists(known: &BTreeSet<&str>, from: &str, name: &str) -> bool {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let beside = normal(&format!("{folder}/{name}"));
    let is_bare = !name.contains('/') && from.ends_with(".rs");
    known.contains(name)
        || known.contains(beside.as_str())
        || (is_bare && known.iter().any(|path| path.ends_with(&format!("/{name}"))))
}

/// A path without `.` and `..`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;

    #[test]
    fn a_document_that_nobody_has_is_named() {
        tests::check(
            check,
            &[
                (
                    "README.md",
                    "[a](docs/a.md) [b](docs/b.md#x) [c](https://x.org/c.md)\n",
                ),
                ("docs/a.md", "[up](../README.md) [gone](gone.md)\n"),
                (
                    "crates/x/src/lib.rs",
                    "//! As a.md says, section 2, and docs/a.md.\n// See lost.md.\nconst A: &str = \"https://x.org/d.md\";\n",
                ),
            ],
            expect![[r#"
                README.md:1: documents: there is no document `docs/b.md` in the repository
                crates/x/src/lib.rs:2: documents: there is no document `lost.md` in the repository
                docs/a.md:1: documents: there is no document `gone.md` in the repository
            "#]],
        );
    }
}
