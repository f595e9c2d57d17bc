//! One Rust file as the checks see it.

use super::test_code::test_lines;
use super::usages::{Usage, imports, usages};
use std::collections::BTreeMap;

/// A Rust file.
pub(crate) struct Source {
    /// Path relative to the workspace.
    pub(crate) path: String,
    pub(crate) text: String,
    /// `None` when the text is not Rust; `structure::modules` reports it.
    pub(crate) syntax: Option<syn::File>,
    /// Every path that is named outside test code.
    pub(crate) usages: Vec<Usage>,
    /// What each name it imports stands for, outside tests.
    pub(crate) imports: BTreeMap<String, Vec<String>>,
    /// Whether a crate root reaches it through `mod` or a catalogue; `mark` sets it.
    pub(crate) reachable: bool,
    /// Whether only test code reaches it.
    pub(crate) test_only: bool,
}

impl Source {
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let syntax = syn::parse_file(text).ok();
        let imports = syntax.as_ref().map_or_else(BTreeMap::new, imports);
        let usages = syntax.as_ref().map_or_else(Vec::new, |file| {
            let tests = test_lines(file);
            let mut found = usages(text, &imports);
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
            imports,
            reachable: false,
            test_only: outside_src,
        }
    }

    /// Lines in the file.
    pub(crate) fn lines(&self) -> usize {
        self.text.lines().count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
