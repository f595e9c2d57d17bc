//! Every file is Rust that the compiler sees, and a crate says first what it is for.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;

/// A file no root reaches is not compiled, and its tests never run.
pub(in crate::tidy) fn check_dead_files(tree: &Tree) -> Vec<Violation> {
    tree.sources
        .iter()
        .filter(|source| source.path.contains("/src/") && !source.reachable)
        .map(|source| {
            let text = "no `mod` and no catalogue names this file, so it is not compiled";
            Violation::new(&source.path, 0, "dead-file", text)
        })
        .collect()
}

/// A crate says first what it alone is responsible for.
pub(in crate::tidy) fn check_heads(tree: &Tree) -> Vec<Violation> {
    tree.sources
        .iter()
        .filter(|source| source.path.ends_with("/src/lib.rs"))
        .filter(|source| !source.text.starts_with("//!"))
        .map(|source| {
            let text = "a crate opens with `//!`: what it alone does and what it must never do";
            Violation::new(&source.path, 1, "crate-head", text)
        })
        .collect()
}

/// Every file parses.
pub(in crate::tidy) fn check_syntax(tree: &Tree) -> Vec<Violation> {
    let broken = tree.sources.iter().filter(|source| source.syntax.is_none());
    broken
        .map(|source| {
            let error = syn::parse_file(&source.text).err();
            let line = error.as_ref().map_or(0, |error| error.span().start().line);
            let words = error.map_or_else(String::new, |error| error.to_string());
            Violation::new(&source.path, line, "syntax", format!("not Rust: {words}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::check;
    use expect_test::expect;

    #[test]
    fn a_file_without_a_mod_is_dead() {
        let files = &[
            (
                "crates/x/src/lib.rs",
                "mod a; mod b { mod c; }\n#[path = \"other.rs\"]\nmod d;",
            ),
            (
                "crates/x/src/a.rs",
                "macro_rules! catalogue { ($($m:ident,)*) => { $(mod $m;)* } } catalogue! { one, }",
            ),
            ("crates/x/src/a/one.rs", ""),
            ("crates/x/src/a/two.rs", ""),
            ("crates/x/src/b/c/mod.rs", "#[cfg(test)] mod e;"),
            ("crates/x/src/b/c/e.rs", ""),
            ("crates/x/src/other.rs", ""),
            ("crates/x/src/left.rs", "mod behind;"),
            ("crates/x/src/left/behind.rs", ""),
            ("crates/x/src/bin/tool.rs", ""),
            ("crates/x/tests/free.rs", ""),
        ];
        check(
            check_dead_files,
            files,
            expect![[r#"
            crates/x/src/a/two.rs:0: dead-file: no `mod` and no catalogue names this file, so it is not compiled
            crates/x/src/left.rs:0: dead-file: no `mod` and no catalogue names this file, so it is not compiled
            crates/x/src/left/behind.rs:0: dead-file: no `mod` and no catalogue names this file, so it is not compiled
        "#]],
        );
    }

    #[test]
    fn a_crate_opens_with_its_purpose() {
        let files = &[
            ("crates/x/src/lib.rs", "pub mod a;"),
            ("crates/y/src/lib.rs", "//! Y alone counts."),
        ];
        check(
            check_heads,
            files,
            expect![[r#"
            crates/x/src/lib.rs:1: crate-head: a crate opens with `//!`: what it alone does and what it must never do
        "#]],
        );
    }

    #[test]
    fn a_broken_file_is_named() {
        let files = &[("crates/x/src/lib.rs", "//! X.\nfn f( {")];
        check(
            check_syntax,
            files,
            expect![[r#"
            crates/x/src/lib.rs:2: syntax: not Rust: cannot parse string into token stream
        "#]],
        );
    }
}
