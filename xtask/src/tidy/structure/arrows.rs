//! Which module of a crate names which: the arrows between the modules of one folder, and the circles among them.
//!
//! A path is followed through `use`, through what a module re-exports, and through `super` and `crate`. What only tests name
//! does not count. An arrow between a module and its own parent or child is no arrow: they are one room.

use crate::tidy::Violation;
use crate::tidy::tree::Tree;
use crate::tidy::tree::source::Source;
use std::collections::{BTreeMap, BTreeSet};

/// How often a path is followed through re-exports before it is taken as it is.
const FOLLOWED: usize = 8;

/// A module's place in its crate: `["engine", "worker"]`; empty for the root.
type Place = Vec<String>;

/// The modules of one crate and the arrows between those of each folder.
pub(crate) struct Arrows {
    /// For a module, its children in order of name.
    pub(crate) children: BTreeMap<Place, BTreeSet<String>>,
    /// For a module, the arrows between its children: from, to.
    pub(crate) between: BTreeMap<Place, BTreeSet<(String, String)>>,
    /// The first line of each module's documentation, without `//!`.
    pub(crate) heads: BTreeMap<Place, String>,
    /// Where each module's file is.
    paths: BTreeMap<Place, String>,
}

/// The directories of crates in the tree that have modules: `crates/kneepoint-load/src`.
pub(crate) fn crates(tree: &Tree) -> BTreeSet<String> {
    let source_dirs = tree.sources.iter().filter_map(|source| {
        let (dir, rest) = source.path.split_once("/src/")?;
        matches!(rest, "lib.rs" | "main.rs").then(|| format!("{dir}/src"))
    });
    source_dirs.collect()
}

impl Arrows {
    /// Reads the modules of the crate whose source is in a directory.
    pub(crate) fn of(tree: &Tree, dir: &str) -> Self {
        let prefix = format!("{dir}/");
        let sources: Vec<&Source> = tree
            .under(&prefix)
            .filter(|source| source.reachable && !source.test_only)
            .collect();
        let mut arrows = Self {
            children: BTreeMap::new(),
            between: BTreeMap::new(),
            heads: BTreeMap::new(),
            paths: BTreeMap::new(),
        };
        let places: BTreeMap<Place, &Source> = sources
            .iter()
            .filter(|source| !source.path.ends_with("/main.rs") || !has_library(&sources))
            .map(|source| (place(&source.path, &prefix), *source))
            .collect();
        for (place, source) in &places {
            arrows.paths.insert(place.clone(), source.path.clone());
            arrows.heads.insert(place.clone(), head(&source.text));
            if let Some((name, parent)) = place.split_last() {
                let siblings = arrows.children.entry(parent.to_vec()).or_default();
                siblings.insert(name.clone());
            }
        }
        for (place, source) in &places {
            for usage in &source.usages {
                if let Some(target) = resolve(&places, place, &usage.path) {
                    arrows.add(place, &target);
                }
            }
        }
        arrows
    }

    /// Notes that one module names another: an arrow between the two children of their nearest common ancestor.
    fn add(&mut self, from: &[String], to: &[String]) {
        let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        let (Some(a), Some(b)) = (from.get(common), to.get(common)) else {
            return;
        };
        let folder = self.between.entry(from[..common].to_vec()).or_default();
        folder.insert((a.clone(), b.clone()));
    }

    /// Children of a module, those that name others before those that are named; what stands in a circle comes last.
    pub(crate) fn downwards(&self, place: &[String]) -> Vec<String> {
        let mut left: Vec<String> = self
            .children
            .get(place)
            .map_or_else(Vec::new, |names| names.iter().cloned().collect());
        let none = BTreeSet::new();
        let arrows = self.between.get(place).unwrap_or(&none);
        let mut order = Vec::new();
        while !left.is_empty() {
            let is_named = |name: &String| {
                let mut others = arrows.iter().filter(|(from, to)| to == name && from != to);
                others.any(|(from, _)| left.contains(from))
            };
            let next = left.iter().position(|name| !is_named(name)).unwrap_or(0);
            order.push(left.remove(next));
        }
        order
    }

    /// The circles among the children of each module: sets of modules each of which reaches all others of its set.
    pub(crate) fn circles(&self) -> Vec<(Place, Vec<String>)> {
        let mut found = Vec::new();
        for (place, arrows) in &self.between {
            let mut seen = BTreeSet::new();
            for name in self.children.get(place).into_iter().flatten() {
                let circle: Vec<String> = reached(arrows, name)
                    .into_iter()
                    .filter(|other| reached(arrows, other).contains(name))
                    .collect();
                if circle.len() > 1 && seen.insert(circle.clone()) {
                    found.push((place.clone(), circle));
                }
            }
        }
        found
    }
}

fn has_library(sources: &[&Source]) -> bool {
    let mut paths = sources.iter().map(|source| source.path.as_str());
    paths.any(|path| path.ends_with("/src/lib.rs"))
}

/// Every module that arrows lead to from one, itself included when they lead back.
fn reached(arrows: &BTreeSet<(String, String)>, from: &str) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut pending = vec![from.to_owned()];
    while let Some(at) = pending.pop() {
        for (_, to) in arrows.iter().filter(|(start, _)| *start == at) {
            if found.insert(to.clone()) {
                pending.push(to.clone());
            }
        }
    }
    found
}

/// A file's module: `engine/worker.rs` is `["engine", "worker"]`, and so is `engine/worker/mod.rs`.
fn place(path: &str, prefix: &str) -> Place {
    let inside = path.strip_prefix(prefix).unwrap_or(path);
    let names = inside.trim_end_matches(".rs").split('/');
    let mut place: Place = names.map(str::to_owned).collect();
    let is_own_door = |name: &String| matches!(name.as_str(), "mod" | "lib" | "main");
    if place.last().is_some_and(is_own_door) {
        place.pop();
    }
    place
}

/// The first sentence line of a module's documentation.
fn head(text: &str) -> String {
    let first = text.lines().find_map(|line| line.strip_prefix("//! "));
    first.unwrap_or_default().to_owned()
}

/// The module that a path in a module leads to, re-exports followed; `None` for what lies outside the crate.
fn resolve(places: &BTreeMap<Place, &Source>, from: &[String], path: &[String]) -> Option<Place> {
    let mut at = from.to_vec();
    let mut rest = path.to_vec();
    for _ in 0..FOLLOWED {
        let mut started = at != from;
        while let Some(first) = rest.first().cloned() {
            match first.as_str() {
                "crate" => at.clear(),
                "self" if !started => {}
                "super" => drop(at.pop()),
                name => {
                    let below = [at.as_slice(), &[name.to_owned()]].concat();
                    if !places.contains_key(&below) {
                        break;
                    }
                    at = below;
                }
            }
            started = true;
            rest.remove(0);
        }
        if !started {
            return None;
        }
        let source = places.get(&at)?;
        let exported = rest.first().and_then(|name| source.imports.get(name));
        match exported {
            Some(full) if at != from && full != &rest => {
                rest.splice(0..1, full.iter().cloned());
            }
            _ => return Some(at),
        }
        // What another module imports from outside the crate is not the crate's.
        let first = rest.first().map(String::as_str).unwrap_or_default();
        let child = [at.as_slice(), &[first.to_owned()]].concat();
        if !matches!(first, "crate" | "self" | "super") && !places.contains_key(&child) {
            return None;
        }
    }
    Some(at)
}

/// No circle among the modules of a folder.
pub(in crate::tidy) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for dir in crates(tree) {
        let arrows = Arrows::of(tree, &dir);
        for (place, circle) in arrows.circles() {
            let first = [place.as_slice(), &circle[..1]].concat();
            let path = arrows.paths.get(&first).unwrap_or(&dir);
            let text = format!(
                "{} name one another: move what they share to one side",
                circle.join(", ")
            );
            violations.push(Violation::new(path, 0, "circle", text));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests;
    use expect_test::expect;

    #[test]
    fn modules_that_name_one_another_are_a_circle_however_they_say_it() {
        tests::check(
            check,
            &[
                (
                    "crates/x/src/lib.rs",
                    "mod a; mod b; mod c; mod d; pub use d::Deep;",
                ),
                (
                    "crates/x/src/a.rs",
                    "use crate::b::B; pub struct A; fn f(_: B) {}",
                ),
                (
                    "crates/x/src/b.rs",
                    "use crate::{c::C}; pub struct B; fn f(_: C) {}",
                ),
                (
                    "crates/x/src/c.rs",
                    "pub struct C; fn f() { super::a::g(); }",
                ),
                (
                    "crates/x/src/d.rs",
                    "mod deep; mod other; pub use deep::Deep;",
                ),
                (
                    "crates/x/src/d/deep.rs",
                    "pub struct Deep; use super::other::Other; fn f(_: Other) {}",
                ),
                (
                    "crates/x/src/d/other.rs",
                    "pub struct Other; fn f(_: crate::Deep) {}",
                ),
            ],
            expect![[r#"
                crates/x/src/a.rs:0: circle: a, b, c name one another: move what they share to one side
                crates/x/src/d/deep.rs:0: circle: deep, other name one another: move what they share to one side
            "#]],
        );
    }

    #[test]
    fn parents_children_and_tests_make_no_circle() {
        tests::check(
            check,
            &[
                ("crates/x/src/lib.rs", "mod a; mod b; use a::A;"),
                (
                    "crates/x/src/a.rs",
                    "mod inner; pub struct A; use inner::I; #[cfg(test)] mod tests { use crate::b::B; }",
                ),
                (
                    "crates/x/src/a/inner.rs",
                    "pub struct I; fn f(_: super::A, _: crate::b::B) {}",
                ),
                (
                    "crates/x/src/b.rs",
                    "pub struct B; use std::fmt; #[cfg(test)] mod t { use crate::a::A; }",
                ),
            ],
            expect![[""]],
        );
    }

    #[test]
    fn who_names_others_stands_above_them() {
        let tree = Tree::of(&[
            ("crates/x/src/lib.rs", "mod a; mod b; mod c;"),
            ("crates/x/src/a.rs", "pub struct A;"),
            ("crates/x/src/b.rs", "fn f(_: crate::a::A) {}"),
            ("crates/x/src/c.rs", "fn f() { crate::b::g(); }"),
        ]);
        assert_eq!(
            Arrows::of(&tree, "crates/x/src").downwards(&[]),
            ["c", "b", "a"]
        );
    }
}
