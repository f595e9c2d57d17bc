//! A function fits a screen, a file has one reason to exist.
//!
//! The lines of a string literal are data, not steps to follow: an expectation or a template does not make
//! its function longer. A file counts in full.

use super::lists::is_extension;
use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use crate::tidy::tree::source::Source;
use proc_macro2::{TokenStream, TokenTree};
use std::ops::RangeInclusive;
use syn::spanned::Spanned as _;
use syn::visit::Visit;

/// Longest function in lines, from its signature to its last brace.
const FUNCTION_LINES: usize = 70;
/// Longest file in lines.
const FILE_LINES: usize = 600;
/// Longest file of an extension in lines, tests included.
const EXTENSION_LINES: usize = 250;

/// What may be larger, in lines, and why. `subject` is a function's name, or empty for the file itself.
struct Exception {
    path: &'static str,
    subject: &'static str,
    lines: usize,
    #[expect(dead_code, reason = "it is there for whoever reads the list")]
    reason: &'static str,
}

/// Aim to keep it empty.
const EXCEPTIONS: &[Exception] = &[];

/// Nothing is larger than its limit, and no exception outlives its need.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    check_with(tree, EXCEPTIONS)
}

fn check_with(tree: &Tree, exceptions: &[Exception]) -> Vec<Violation> {
    let mut violations: Vec<Violation> = tree
        .sources
        .iter()
        .flat_map(|source| too_long(source, exceptions))
        .collect();
    let used = |exception: &&Exception| {
        let source = tree
            .sources
            .iter()
            .find(|source| source.path == exception.path);
        source.is_some_and(|source| !too_long(source, &[]).is_empty())
    };
    let stale = exceptions.iter().filter(|exception| !used(exception));
    violations.extend(stale.map(|exception| {
        let text = "nothing here needs its exception in xtask/src/tidy/structure/sizes.rs any more";
        Violation::new(exception.path, 0, "size", text)
    }));
    violations
}

fn too_long(source: &Source, exceptions: &[Exception]) -> Vec<Violation> {
    let limit = |subject: &str, usual: usize| {
        let mut own = exceptions.iter().filter(|one| one.path == source.path);
        own.find(|one| one.subject == subject)
            .map_or(usual, |one| one.lines)
    };
    let mut violations = Vec::new();
    let (what, usual) = match is_extension(&source.path) {
        true => ("an extension file", EXTENSION_LINES),
        false => ("a file", FILE_LINES),
    };
    if source.lines() > limit("", usual) {
        let text = format!(
            "{} lines; {what} has at most {usual}: split it by reason to change",
            source.lines()
        );
        violations.push(Violation::new(&source.path, 0, "size", text));
    }
    let mut functions = Functions {
        data: source.text.parse().map_or_else(|_| Vec::new(), data_lines),
        found: Vec::new(),
    };
    if let Some(file) = &source.syntax {
        functions.visit_file(file);
    }
    for (name, line, lines) in functions.found {
        if lines > limit(&name, FUNCTION_LINES) {
            let text =
                format!("`{name}` has {lines} lines; a function has at most {FUNCTION_LINES}");
            violations.push(Violation::new(&source.path, line, "size", text));
        }
    }
    violations
}

/// The lines of string literals beyond their first.
fn data_lines(tokens: TokenStream) -> Vec<RangeInclusive<usize>> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => data_lines(group.stream()),
            TokenTree::Literal(literal) => {
                let (start, end) = (literal.span().start().line, literal.span().end().line);
                vec![start + 1..=end]
            }
            _ => Vec::new(),
        })
        .filter(|lines| !lines.is_empty())
        .collect()
}

/// Finds functions and counts their lines.
struct Functions {
    data: Vec<RangeInclusive<usize>>,
    /// Name, first line and number of lines.
    found: Vec<(String, usize, usize)>,
}

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let first = signature.span().start().line;
        let last = block.span().end().line;
        let within =
            |lines: &&RangeInclusive<usize>| first < *lines.start() && *lines.end() <= last;
        let data: usize = self
            .data
            .iter()
            .filter(within)
            .map(|lines| lines.clone().count())
            .sum();
        let name = signature.ident.to_string();
        self.found.push((name, first, last + 1 - first - data));
    }
}

impl<'ast> Visit<'ast> for Functions {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add(&item.sig, &item.block);
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add(&item.sig, &item.block);
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.add(&item.sig, block);
        }
        syn::visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;

    fn function(name: &str, lines: usize) -> String {
        format!(
            "/// Doc.\nfn {name}() {{\n{}}}\n",
            "    f();\n".repeat(lines - 2)
        )
    }

    #[test]
    fn what_is_too_large_is_named_with_its_size() {
        let method = format!("impl X {{\n{}}}\n", function("method", 71));
        let text = format!("fn golden() {{\n    f(\"{}\");\n}}\n", "\n".repeat(80));
        let both = format!("{}{method}{text}", function("fits", 70));
        let file = "\n".repeat(601);
        let rule = "\n".repeat(251);
        let files = &[
            ("crates/x/src/a.rs", both.as_str()),
            ("crates/x/src/b.rs", &file),
            ("crates/kneepoint-diagnosis/src/rules/cpu.rs", &rule),
        ];
        tests::check(
            check,
            files,
            expect![[r#"
            crates/kneepoint-diagnosis/src/rules/cpu.rs:0: size: 251 lines; an extension file has at most 250: split it by reason to change
            crates/x/src/a.rs:74: size: `method` has 71 lines; a function has at most 70
            crates/x/src/b.rs:0: size: 601 lines; a file has at most 600: split it by reason to change
        "#]],
        );
    }

    #[test]
    fn an_exception_holds_as_long_as_it_is_needed() {
        let long = function("long", 90);
        let tree = Tree::of(&[("a.rs", &long), ("b.rs", "")]);
        let exception = |path| Exception {
            path,
            subject: "long",
            lines: 90,
            reason: "planted",
        };
        let found = check_with(&tree, &[exception("a.rs"), exception("b.rs")]);
        let paths: Vec<&str> = found.iter().map(|found| found.path.as_str()).collect();
        assert_eq!(paths, ["b.rs"]);
    }
}
