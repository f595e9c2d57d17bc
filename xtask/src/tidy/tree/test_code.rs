//! Which code is compiled for tests only.

use std::ops::RangeInclusive;
use syn::spanned::Spanned as _;
use syn::visit::Visit;

/// The lines of items that are compiled for tests only.
pub(crate) fn test_lines(file: &syn::File) -> Vec<RangeInclusive<usize>> {
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
pub(crate) fn is_test(attributes: &[syn::Attribute]) -> bool {
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
