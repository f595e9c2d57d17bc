//! One Rust file as the checks see it.

use super::Violation;
use super::tree::Tree;
use super::usages::{Usage, usages};
use std::ops::RangeInclusive;
use syn::spanned::Spanned as _;
use syn::visit::Visit;

/// A Rust file.
pub(super) struct Source {
    /// Path relative to the workspace.
    pub(super) path: String,
    pub(super) text: String,
    /// `None` when the text is not Rust; [`check_syntax`] reports it.
    pub(super) syntax: Option<syn::File>,
    /// Every path that is named outside test code.
    pub(super) usages: Vec<Usage>,
    /// Whether a crate root reaches it through `mod` or a catalogue; `mark` sets it.
    pub(super) reachable: bool,
    /// Whether only test code reaches it.
    pub(super) test_only: bool,
}

impl Source {
    pub(super) fn parse(path: &str, text: &str) -> Self {
        let syntax = syn::parse_file(text).ok();
        let usages = syntax.as_ref().map_or_else(Vec::new, |file| {
            let tests = test_lines(file);
            let mut found = usages(text, file);
            found.retain(|usage| !tests.iter().any(|lines| lines.contains(&usage.line)));
            found
        });
        let outside_src = ["/tests/", "/examples/", "/benches/"]
            .iter()
            .any(|part| path.contains(part) && !path.contains("/src/"));
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            syntax,
            usages,
            reachable: false,
            test_only: outside_src,
        }
    }

    /// Lines in the file.
    pub(super) fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

/// The lines of items that are compiled for tests only.
fn test_lines(file: &syn::File) -> Vec<RangeInclusive<usize>> {
    struct Finder(Vec<RangeInclusive<usize>>);
    impl<'ast> Visit<'ast> for Finder {
        fn visit_item(&mut self, item: &'ast syn::Item) {
            if is_test(attributes(item)) {
                let span = item.span();
                self.0.push(span.start().line..=span.end().line);
            } else {
                syn::visit::visit_item(self, item);
            }
        }
    }
    let mut finder = Finder(Vec::new());
    finder.visit_file(file);
    finder.0
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// True for `#[test]` and `#[cfg(test)]`, also within `all(…)`; not for `#[cfg(not(test))]`.
pub(super) fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            let words = || condition.split(|c: char| !c.is_alphanumeric() && c != '_');
            words().any(|word| word == "test") && !words().any(|word| word == "not")
        }
        _ => false,
    })
}

/// Every file parses.
pub(super) fn check_syntax(tree: &Tree) -> Vec<Violation> {
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
    use super::super::tests::check;
    use super::*;
    use expect_test::expect;

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

    #[test]
    fn usages_in_tests_do_not_count() {
        let text = "fn f() { std::fs::read(\"\"); }\n#[cfg(test)]\nmod tests {\n    fn g() { std::env::args(); }\n}\n\
                    #[cfg(not(test))]\nfn h() { a::b(); }\n";
        let source = Source::parse("x.rs", text);
        let names: Vec<String> = source
            .usages
            .iter()
            .map(|usage| usage.path.join("::"))
            .collect();
        assert!(names.contains(&"std::fs::read".into()) && names.contains(&"a::b".into()));
        assert!(!names.contains(&"std::env::args".into()), "{names:?}");
    }
}
