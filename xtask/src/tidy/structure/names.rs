//! A public type name means one thing in the whole workspace.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use std::collections::BTreeMap;
use syn::visit::Visit;

/// No two public types of the crates share a name.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    let mut types: BTreeMap<String, Vec<(String, usize)>> = BTreeMap::new();
    for source in tree
        .under("crates/")
        .filter(|source| !source.test_only && source.path.contains("/src/"))
    {
        let Some(file) = &source.syntax else { continue };
        let mut finder = Finder(Vec::new());
        finder.visit_file(file);
        for (name, line) in finder.0 {
            types
                .entry(name)
                .or_default()
                .push((source.path.clone(), line));
        }
    }
    let twice = types.iter().filter(|(_, places)| places.len() > 1);
    twice
        .flat_map(|(name, places)| {
            places.iter().skip(1).map(move |(path, line)| {
                let text = format!(
                    "`{name}` is a public type of {} too: one name for one thing",
                    places[0].0
                );
                Violation::new(path, *line, "names", text)
            })
        })
        .collect()
}

/// Finds types that are `pub` outright; what is `pub(crate)` is its crate's own affair.
struct Finder(Vec<(String, usize)>);

impl Finder {
    fn add(&mut self, visibility: &syn::Visibility, name: &syn::Ident) {
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.0.push((name.to_string(), name.span().start().line));
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.add(&item.vis, &item.ident);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !crate::tidy::tree::test_code::is_test(&item.attrs) {
            syn::visit::visit_item_mod(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;

    #[test]
    fn a_name_that_is_two_types_is_named() {
        tests::check(
            check,
            &[
                (
                    "crates/x/src/lib.rs",
                    "pub struct Place; pub enum One {} struct Own;",
                ),
                (
                    "crates/y/src/lib.rs",
                    "pub enum Place {} pub(crate) struct One; pub struct Own; #[cfg(test)] mod t { pub struct One; }",
                ),
            ],
            expect![[r#"
                crates/y/src/lib.rs:1: names: `Place` is a public type of crates/x/src/lib.rs too: one name for one thing
            "#]],
        );
    }
}
