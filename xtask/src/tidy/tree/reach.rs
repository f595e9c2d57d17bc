//! Which files the compiler sees: those a crate root reaches through `mod`, or a catalogue names.

use super::source::Source;
use super::test_code::is_test;
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;

/// Marks what is reachable, and what only tests reach.
pub(crate) fn mark(sources: &mut [Source]) {
    let index: BTreeMap<String, usize> = sources
        .iter()
        .enumerate()
        .map(|(index, source)| (source.path.clone(), index))
        .collect();
    let roots = sources
        .iter()
        .enumerate()
        .filter(|(_, source)| is_root(&source.path));
    let mut pending: Vec<(usize, bool)> = roots.map(|(root, _)| (root, false)).collect();
    while let Some((at, test)) = pending.pop() {
        let source = &sources[at];
        if source.reachable && (test || !source.test_only) {
            continue;
        }
        let children = source.syntax.as_ref().map_or_else(Vec::new, |file| {
            let mut walk = Walk {
                dir: child_dir(&source.path),
                test,
                children: Vec::new(),
            };
            walk.items(&file.items);
            walk.children
        });
        sources[at].test_only = test;
        sources[at].reachable = true;
        let files = children.iter().filter_map(|child| {
            let known = child.candidates.iter().find_map(|path| index.get(path));
            known.map(|file| (*file, child.test))
        });
        pending.extend(files);
    }
}

fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || path.contains("/src/bin/")
}

/// Where the modules that a file declares are.
fn child_dir(path: &str) -> String {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => dir.to_owned(),
        _ => format!("{dir}/{}", name.trim_end_matches(".rs")),
    }
}

/// A module that is declared somewhere: the files it may be in.
struct Child {
    candidates: Vec<String>,
    test: bool,
}

struct Walk {
    dir: String,
    test: bool,
    children: Vec<Child>,
}

impl Walk {
    fn items(&mut self, items: &[syn::Item]) {
        let catalogues = macros_with(items, "mod");
        for item in items {
            match item {
                syn::Item::Mod(module) => self.module(module),
                syn::Item::Macro(call)
                    if catalogues.iter().any(|name| call.mac.path.is_ident(name)) =>
                {
                    for name in idents(call.mac.tokens.clone()) {
                        self.child(&name, self.test);
                    }
                }
                _ => {}
            }
        }
    }

    fn module(&mut self, module: &syn::ItemMod) {
        let test = self.test || is_test(&module.attrs);
        let name = module.ident.to_string();
        let Some((_, items)) = &module.content else {
            match explicit_path(module) {
                Some(path) => self.children.push(Child {
                    candidates: vec![format!("{}/{path}", self.dir)],
                    test,
                }),
                None => self.child(&name, test),
            }
            return;
        };
        let mut inner = Walk {
            dir: format!("{}/{name}", self.dir),
            test,
            children: Vec::new(),
        };
        inner.items(items);
        self.children.append(&mut inner.children);
    }

    fn child(&mut self, name: &str, test: bool) {
        let name = name.trim_start_matches("r#");
        let candidates =
            ["{}.rs", "{}/mod.rs"].map(|form| format!("{}/{}", self.dir, form.replace("{}", name)));
        self.children.push(Child {
            candidates: candidates.to_vec(),
            test,
        });
    }
}

fn explicit_path(module: &syn::ItemMod) -> Option<String> {
    let attribute = module
        .attrs
        .iter()
        .find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(path),
            ..
        }) => Some(path.value()),
        _ => None,
    }
}

/// The macros among some items whose definition holds a word: `mod` for a catalogue that declares its
/// modules, `RULES` for the one that makes that list.
pub(crate) fn macros_with(items: &[syn::Item], word: &str) -> Vec<syn::Ident> {
    let definitions = items.iter().filter_map(|item| match item {
        syn::Item::Macro(item) => Some((item.ident.clone()?, item.mac.tokens.clone())),
        _ => None,
    });
    definitions
        .filter(|(_, tokens)| idents(tokens.clone()).iter().any(|ident| ident == word))
        .map(|(name, _)| name)
        .collect()
}

/// Every identifier in some tokens, groups included.
pub(crate) fn idents(tokens: TokenStream) -> Vec<String> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Ident(ident) => vec![ident.to_string()],
            TokenTree::Group(group) => idents(group.stream()),
            _ => Vec::new(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::tidy::tree::Tree;

    #[test]
    fn a_file_only_tests_reach_is_test_code() {
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", "#[cfg(test)] mod t; mod u;"),
            ("crates/x/src/t.rs", "mod deep;"),
            ("crates/x/src/t/deep.rs", ""),
            ("crates/x/src/u.rs", ""),
        ]);
        let test_only: Vec<bool> = tree.sources.iter().map(|source| source.test_only).collect();
        assert_eq!(test_only, [false, true, true, false]);
    }
}
