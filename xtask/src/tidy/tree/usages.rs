//! Which paths a file names, with `use` resolved: `Command::new` is `std::process::Command::new`.
//!
//! It reads tokens, not expressions, so that what stands in a macro's arguments counts too.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::BTreeMap;
use syn::visit::Visit;

/// A path as it is named somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) line: usize,
    /// The segments, the first one resolved through the file's `use`; a glob ends in `*`.
    pub(crate) path: Vec<String>,
    /// Whether it is a macro call.
    pub(crate) is_macro: bool,
}

impl Usage {
    /// Whether the path is the given one or lies below it. A glob reaches everything below its parent.
    pub(crate) fn is_under(&self, forbidden: &str) -> bool {
        let forbidden: Vec<&str> = forbidden.split("::").collect();
        match self.path.split_last() {
            Some((last, parent)) if last == "*" => {
                starts_with(&forbidden, parent) || starts_with(parent, &forbidden)
            }
            _ => starts_with(&self.path, &forbidden),
        }
    }
}

fn starts_with<A: AsRef<str>, B: AsRef<str>>(path: &[A], prefix: &[B]) -> bool {
    path.len() >= prefix.len()
        && path
            .iter()
            .zip(prefix)
            .all(|(a, b)| a.as_ref() == b.as_ref())
}

/// What each name that a file imports stands for: `Command` is `["std", "process", "Command"]`. Tests are left out.
pub(crate) fn imports(file: &syn::File) -> BTreeMap<String, Vec<String>> {
    let mut aliases = Aliases::default();
    aliases.visit_file(file);
    aliases.0
}

/// Every path in a file, its first segment resolved by what the file imports.
pub(crate) fn usages(text: &str, imports: &BTreeMap<String, Vec<String>>) -> Vec<Usage> {
    let mut found = Vec::new();
    if let Ok(tokens) = text.parse() {
        scan(tokens, &mut found);
    }
    for usage in &mut found {
        if let Some(full) = imports.get(&usage.path[0]) {
            usage.path.splice(0..1, full.iter().cloned());
        }
    }
    found
}

/// What each imported name stands for.
#[derive(Default)]
struct Aliases(BTreeMap<String, Vec<String>>);

impl<'ast> Visit<'ast> for Aliases {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !super::test_code::is_test(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !super::test_code::is_test(&item.attrs) {
            self.add(&[], &item.tree);
        }
    }
}

impl Aliases {
    fn add(&mut self, parent: &[String], tree: &syn::UseTree) {
        let below = |name: &syn::Ident| [parent, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add(&below(&path.ident), &path.tree),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add(parent, item));
            }
            syn::UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = parent.last() {
                    self.0.insert(last.clone(), parent.to_vec());
                }
            }
            syn::UseTree::Name(name) => {
                self.0.insert(name.ident.to_string(), below(&name.ident));
            }
            syn::UseTree::Rename(rename) => {
                let full = if rename.ident == "self" {
                    parent.to_vec()
                } else {
                    below(&rename.ident)
                };
                self.0.insert(rename.rename.to_string(), full);
            }
            syn::UseTree::Glob(_) => {}
        }
    }
}

fn scan(tokens: TokenStream, found: &mut Vec<Usage>) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Group(group) => {
                scan(group.stream(), found);
                at += 1;
            }
            TokenTree::Ident(_) if follows(&tokens, at, ".'") => at += 1,
            TokenTree::Ident(_) => at = path(&tokens, at, found),
            _ => at += 1,
        }
    }
}

/// Whether the token before is one of these characters: a field or method, or a lifetime, is no path. A
/// range (`..`) before it is.
fn follows(tokens: &[TokenTree], at: usize, characters: &str) -> bool {
    let is = |back: usize, wanted: &str| {
        let before = at.checked_sub(back).map(|index| &tokens[index]);
        matches!(before, Some(TokenTree::Punct(punct)) if wanted.contains(punct.as_char()))
    };
    is(1, characters) && !(is(1, ".") && is(2, "."))
}

/// Reads the path that begins at a token; the place after it.
fn path(tokens: &[TokenTree], start: usize, found: &mut Vec<Usage>) -> usize {
    let line = tokens[start].span().start().line;
    let mut path = vec![tokens[start].to_string()];
    let mut at = start + 1;
    while is_colons(tokens, at) {
        match tokens.get(at + 2) {
            Some(TokenTree::Ident(ident)) => path.push(ident.to_string()),
            Some(TokenTree::Punct(star)) if star.as_char() == '*' => path.push("*".into()),
            _ => break,
        }
        at += 3;
    }
    let bang = matches!(tokens.get(at), Some(TokenTree::Punct(bang)) if bang.as_char() == '!');
    let arguments = matches!(tokens.get(at + 1), Some(TokenTree::Group(group)) if group.delimiter() != Delimiter::None);
    found.push(Usage {
        line,
        path,
        is_macro: bang && arguments,
    });
    at
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |index: usize| match tokens.get(index) {
        Some(TokenTree::Punct(punct)) if punct.as_char() == ':' => Some(punct.spacing()),
        _ => None,
    };
    colon(at) == Some(Spacing::Joint) && colon(at + 1).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, forbidden: &str, lines: &[usize]) {
        let file = syn::parse_file(text).expect("Rust");
        let mut found: Vec<usize> = usages(text, &imports(&file))
            .iter()
            .filter(|usage| usage.is_under(forbidden))
            .map(|usage| usage.line)
            .collect();
        found.dedup();
        assert_eq!(found, lines, "{text}");
    }

    #[test]
    fn paths_are_found_through_every_kind_of_import() {
        let command = "std::process::Command";
        check(
            "fn f() { std::process::Command::new(\"x\"); }",
            command,
            &[1],
        );
        check(
            "use std::process::{self, ExitCode};\nfn f() { process::Command::new(\"x\"); }",
            command,
            &[2],
        );
        check(
            "use std::process::Command as C;\n\nfn f() { C::new(\"x\"); }",
            command,
            &[1, 3],
        );
        check(
            "fn f() {\n    use std::process;\n    g!(a, process::Command::new(b));\n}",
            command,
            &[3],
        );
        check("use std::process::*;", command, &[1]);
        check(
            "use ::std::{process as p};\nfn f() -> p::Command { todo() }",
            command,
            &[2],
        );
    }

    #[test]
    fn what_only_looks_alike_is_not_found() {
        let command = "std::process::Command";
        check(
            "enum Command { A }\nfn f(c: Command) { c.process.Command(); }",
            command,
            &[],
        );
        check(
            "use std::process::ExitCode;\n/// std::process::Command\nfn f() {}",
            command,
            &[],
        );
        check("fn f<'std>(a: usize) { for _ in 0..a {} }", "std", &[]);
        check("use std::time::Duration;", "std::time::Instant", &[]);
    }
}
