//! The ways to extend Kneepoint are each one file and one line in one list.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use crate::tidy::tree::reach::{idents, macros_with};
use crate::tidy::tree::source::Source;
use std::collections::BTreeSet;
use syn::visit::Visit;

/// A directory of extensions, and the list that must name each.
struct Extension {
    dir: &'static str,
    list: &'static str,
    /// Whether the extensions stand in folders of the directory, as rules do by their stage.
    in_folders: bool,
}

const EXTENSIONS: &[Extension] = &[
    Extension {
        dir: "crates/kneepoint-diagnosis/src/rules/",
        list: "RULES",
        in_folders: true,
    },
    Extension {
        dir: "crates/kneepoint-check/src/rules/",
        list: "CHECKS",
        in_folders: false,
    },
    Extension {
        dir: "crates/kneepoint-telemetry/src/sources/",
        list: "SOURCES",
        in_folders: false,
    },
    Extension {
        dir: "crates/kneepoint-stack/src/servers/",
        list: "SERVERS",
        in_folders: false,
    },
    Extension {
        dir: "crates/kneepoint-report/src/formats/",
        list: "FORMATS",
        in_folders: false,
    },
    Extension {
        dir: "crates/kneepoint-schedules/src/syntaxes/",
        list: "SYNTAXES",
        in_folders: false,
    },
    Extension {
        dir: "crates/kneepoint-profiler/src/abi/",
        list: "PHP_ABIS",
        in_folders: false,
    },
];

/// Whether a file is an extension, or part of one.
pub(super) fn is_extension(path: &str) -> bool {
    EXTENSIONS
        .iter()
        .any(|extension| path.starts_with(extension.dir))
}

/// Every extension is in its list.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    EXTENSIONS
        .iter()
        .flat_map(|extension| check_one(tree, extension))
        .collect()
}

fn check_one(tree: &Tree, extension: &Extension) -> Vec<Violation> {
    let Extension { dir, list, .. } = extension;
    let names: BTreeSet<&str> = tree
        .under(dir)
        .filter_map(|source| name(source, extension))
        .collect();
    if names.is_empty() {
        let text = format!(
            "no extension is here; when {list} has moved, say so in xtask/src/tidy/structure/lists.rs"
        );
        return vec![Violation::new(dir, 0, "lists", text)];
    }
    let src = dir.split_once("/src/").map_or(*dir, |(krate, _)| krate);
    let mut finder = Finder {
        list,
        listed: BTreeSet::new(),
        found: false,
    };
    let files = tree.under(src).filter(|source| !source.test_only);
    files
        .filter_map(|source| source.syntax.as_ref())
        .for_each(|file| finder.visit_file(file));
    if !finder.found {
        let text = format!("nothing declares the list {list}");
        return vec![Violation::new(dir, 0, "lists", text)];
    }
    names
        .into_iter()
        .filter(|name| !finder.listed.contains(*name))
        .map(|name| {
            let text = format!("`{name}` is not in {list}: nobody would ever run it");
            Violation::new(&format!("{dir}{name}"), 0, "lists", text)
        })
        .collect()
}

/// The extension a file belongs to: `nginx` for `nginx.rs` and `nginx/parser.rs`, in a folder or not.
fn name<'s>(source: &'s Source, extension: &Extension) -> Option<&'s str> {
    let rest = source.path.strip_prefix(extension.dir)?;
    let mut parts = rest.split('/');
    let first = match extension.in_folders {
        true => parts.nth(1)?,
        false => parts.next()?,
    };
    let name = first.trim_end_matches(".rs");
    (name != "mod" && !source.test_only).then_some(name)
}

/// Collects what the list, or the catalogue macro that makes it, names.
struct Finder<'l> {
    list: &'l str,
    listed: BTreeSet<String>,
    found: bool,
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        if item.ident == self.list {
            self.list(&item.expr);
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        if item.ident == self.list {
            self.list(&item.expr);
        }
    }

    fn visit_file(&mut self, file: &'ast syn::File) {
        let makers = macros_with(&file.items, self.list);
        for item in &file.items {
            match item {
                syn::Item::Macro(call)
                    if makers.iter().any(|name| call.mac.path.is_ident(name)) =>
                {
                    self.found = true;
                    self.listed.extend(idents(call.mac.tokens.clone()));
                }
                _ => {}
            }
        }
        syn::visit::visit_file(self, file);
    }
}

impl Finder<'_> {
    fn list(&mut self, expression: &syn::Expr) {
        struct Names<'a>(&'a mut BTreeSet<String>);
        impl<'ast> Visit<'ast> for Names<'_> {
            fn visit_ident(&mut self, ident: &'ast syn::Ident) {
                self.0.insert(ident.to_string());
            }
        }
        self.found = true;
        Names(&mut self.listed).visit_expr(expression);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;

    #[test]
    fn an_extension_that_is_not_listed_is_named() {
        let files = &[
            ("crates/kneepoint-diagnosis/src/lib.rs", "mod rules;"),
            (
                "crates/kneepoint-diagnosis/src/rules.rs",
                "macro_rules! rules { ($($s:ident { $($m:ident,)* })*) => { $(mod $s { $(mod $m;)* })* pub static RULES: &[u8] = &[]; } } rules! { kernel { cpu_stolen, } }",
            ),
            (
                "crates/kneepoint-diagnosis/src/rules/kernel/cpu_stolen.rs",
                "",
            ),
            (
                "crates/kneepoint-diagnosis/src/rules/waits/session_lock.rs",
                "",
            ),
            (
                "crates/kneepoint-stack/src/lib.rs",
                "mod servers; pub static SERVERS: &[&dyn Server] = &[&servers::nginx::Nginx];",
            ),
            (
                "crates/kneepoint-stack/src/servers/mod.rs",
                "pub mod nginx; pub mod redis;",
            ),
            (
                "crates/kneepoint-stack/src/servers/nginx/mod.rs",
                "mod parser;",
            ),
            ("crates/kneepoint-stack/src/servers/nginx/parser.rs", ""),
            ("crates/kneepoint-stack/src/servers/redis.rs", ""),
            ("crates/kneepoint-report/src/formats/json.rs", ""),
        ];
        tests::check(
            check,
            files,
            expect![[r#"
            crates/kneepoint-check/src/rules/:0: lists: no extension is here; when CHECKS has moved, say so in xtask/src/tidy/structure/lists.rs
            crates/kneepoint-diagnosis/src/rules/session_lock:0: lists: `session_lock` is not in RULES: nobody would ever run it
            crates/kneepoint-profiler/src/abi/:0: lists: no extension is here; when PHP_ABIS has moved, say so in xtask/src/tidy/structure/lists.rs
            crates/kneepoint-report/src/formats/:0: lists: nothing declares the list FORMATS
            crates/kneepoint-schedules/src/syntaxes/:0: lists: no extension is here; when SYNTAXES has moved, say so in xtask/src/tidy/structure/lists.rs
            crates/kneepoint-stack/src/servers/redis:0: lists: `redis` is not in SERVERS: nobody would ever run it
            crates/kneepoint-telemetry/src/sources/:0: lists: no extension is here; when SOURCES has moved, say so in xtask/src/tidy/structure/lists.rs
        "#]],
        );
    }
}
