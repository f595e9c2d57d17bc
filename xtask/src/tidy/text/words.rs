//! Texts that people read use the words of the glossary.
//!
//! The words that are not used stand in `docs/glossary.md`, below "Do not use": each row's first cell. They are looked for in
//! every document and in every string of the program that is not a test's.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use crate::tidy::tree::test_code::test_lines;
use proc_macro2::{TokenStream, TokenTree};

/// Where the words stand, and under which heading.
const GLOSSARY: &str = "docs/glossary.md";
const HEADING: &str = "## Do not use";

/// No text has a word that the glossary replaces.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(glossary) = tree.files.get(GLOSSARY) else {
        let text =
            "the glossary is not here; when it has moved, say so in xtask/src/tidy/text/words.rs";
        return vec![Violation::new(GLOSSARY, 0, "words", text)];
    };
    let banned = banned(glossary);
    let mut violations = Vec::new();
    for (path, text) in &tree.files {
        if path.ends_with(".md") && path != GLOSSARY {
            for (index, line) in text.lines().enumerate() {
                violations.extend(said(path, index + 1, line, &banned));
            }
        }
    }
    for source in &tree.sources {
        let Some(file) = source.syntax.as_ref() else {
            continue;
        };
        if source.test_only || !source.path.starts_with("crates/") {
            continue;
        }
        let tests = test_lines(file);
        for (line, text) in strings(source.text.parse().unwrap_or_default()) {
            if !tests.iter().any(|lines| lines.contains(&line)) {
                violations.extend(said(&source.path, line, &text, &banned));
            }
        }
    }
    violations
}

/// The words that are not used, and what is said instead.
fn banned(glossary: &str) -> Vec<(String, String)> {
    let after = glossary.split_once(HEADING).map_or("", |(_, after)| after);
    let rows = after.lines().filter_map(|line| {
        let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
        Some((cells.next()?.to_owned(), cells.next()?.to_owned()))
    });
    rows.filter(|(word, _)| !word.is_empty() && word != "not" && !word.starts_with('-'))
        .collect()
}

fn said(path: &str, line: usize, text: &str, banned: &[(String, String)]) -> Vec<Violation> {
    let words = banned.iter().filter(|(word, _)| has_word(text, word));
    words
        .map(|(word, instead)| {
            Violation::new(
                path,
                line,
                "words",
                format!("\"{word}\": say \"{instead}\""),
            )
        })
        .collect()
}

/// Whether a text holds a word by itself, in any case.
fn has_word(text: &str, word: &str) -> bool {
    let text = text.to_lowercase();
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '-');
        ends(before) && ends(after)
    })
}

/// Every string of some code that is no documentation, with its line.
fn strings(tokens: TokenStream) -> Vec<(usize, String)> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(strings(group.stream())),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let is_documentation =
                    at >= 2 && matches!(&tokens[at - 2], TokenTree::Ident(name) if name == "doc");
                if text.contains('"') && !is_documentation {
                    found.push((literal.span().start().line, text));
                }
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;

    #[test]
    fn a_word_that_is_not_used_is_named_where_people_read_it() {
        let glossary =
            "# G\n| knob | x |\n## Do not use\n| not | but |\n|---|---|\n| knob | tunable |\n";
        let code = "//! A knob in documentation.\nconst A: &str = \"turn the Knob\";\nconst B: &str = \"knobs, doorknob\";\n\
                    #[cfg(test)]\nmod tests { const C: &str = \"knob\"; }\n";
        tests::check(
            check,
            &[
                ("docs/glossary.md", glossary),
                ("README.md", "Every knob.\n"),
                ("crates/x/src/lib.rs", code),
            ],
            expect![[r#"
                README.md:1: words: "knob": say "tunable"
                crates/x/src/lib.rs:2: words: "knob": say "tunable"
            "#]],
        );
    }
}
