//! Folds identifiers out of paths: `/post/123` and `/post/124` are one route, `/post/{n}`.
//!
//! What looks like an identifier (numbers, UUIDs, hashes, tokens) is folded at sight. Words are folded only where
//! the data show that a position takes many (see [`super`]); what was found to be such a position is
//! remembered here.

use kneepoint_model::folding::fold_word;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

/// Files that pages fetch, as a browser does without being asked.
const ASSETS: &[&str] = &[
    "avif", "bmp", "css", "cur", "eot", "gif", "ico", "jpeg", "jpg", "js", "map", "mjs", "otf",
    "png", "svg", "ttf", "webp", "woff", "woff2",
];

/// Parameters that say where a visitor came from or defeat caches: they make no route of their own.
const TRACKING: &[&str] = &[
    "_", "cb", "fbclid", "gclid", "mc_cid", "mc_eid", "msclkid", "t", "ts", "v", "ver",
];

/// Most parameters of a query that are told apart.
const MOST_PARAMETERS: usize = 20;

/// What a folded word is called.
const SLUG: &str = "{slug}";
/// What a folded query is called.
const QUERY: &str = "?{query}";
/// What a folded value of a parameter is called.
const TEXT: &str = "{text}";

/// Which positions take many words, and which of the words stay.
#[derive(Debug, Default)]
pub(crate) struct Folder {
    /// By what is before the position: a folded path ending in `/`, or one with `?name=`.
    positions: HashMap<String, HashSet<String>>,
    /// Whether queries are not told apart at all.
    whole_queries: bool,
}

impl Folder {
    /// From now on words at this position are folded, except these.
    pub(crate) fn fold_position(&mut self, before: String, kept: HashSet<String>) {
        self.positions.insert(before, kept);
    }

    /// From now on queries are not told apart: a scanner makes up names of parameters without end.
    pub(crate) fn fold_queries(&mut self) {
        self.whole_queries = true;
    }

    /// The route a path with query belongs to, written into a text that is used again. The route of a route is
    /// itself, or what later decisions make of it.
    pub(crate) fn route(&self, target: &str, out: &mut String) {
        out.clear();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let asset = asset_extension(path);
        let mut segments = path.trim_start_matches('/').split('/').peekable();
        while let Some(segment) = segments.next() {
            out.push('/');
            match asset {
                Some(extension) if segments.peek().is_none() => {
                    let _ = write!(out, "*.{extension}");
                }
                _ => self.segment(segment, out),
            }
        }
        if asset.is_some() || query.is_empty() {
            return;
        }
        match self.whole_queries {
            true => out.push_str(QUERY),
            false => self.query(query, out),
        }
    }

    fn segment(&self, segment: &str, out: &mut String) {
        if segment.contains('{') {
            out.push_str(segment);
            return;
        }
        if fold_word(segment, out) {
            return;
        }
        match self.positions.get(out.as_str()) {
            Some(kept) if !segment.is_empty() && !kept.contains(segment) => out.push_str(SLUG),
            _ => out.push_str(segment),
        }
    }

    fn query(&self, query: &str, out: &mut String) {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        if pairs.clone().count() > MOST_PARAMETERS {
            out.push_str(QUERY);
            return;
        }
        let path_ends = out.len();
        let mut before = String::new();
        for pair in pairs {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if name.is_empty() || TRACKING.contains(&name) || name.starts_with("utm_") {
                continue;
            }
            let first = out.len() == path_ends;
            out.push(if first { '?' } else { '&' });
            out.push_str(name);
            if value.is_empty() {
                continue;
            }
            out.push('=');
            if value.contains('{') {
                out.push_str(value);
                continue;
            }
            if fold_word(value, out) {
                continue;
            }
            before.clear();
            let _ = write!(before, "{}?{name}=", &out[..path_ends]);
            match self.positions.get(&before) {
                Some(kept) if !kept.contains(value) => out.push_str(TEXT),
                _ => out.push_str(value),
            }
        }
    }
}

/// The extension of a path that names an asset.
pub(crate) fn asset_extension(path: &str) -> Option<&'static str> {
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let (_, file) = path.rsplit_once('/')?;
    let (_, extension) = file.rsplit_once('.')?;
    let mut assets = ASSETS.iter();
    assets
        .find(|known| known.eq_ignore_ascii_case(extension))
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(folder: &Folder, target: &str, expected: &str) {
        let mut route = "left over".to_owned();
        folder.route(target, &mut route);
        assert_eq!(route, expected, "{target}");
    }

    #[test]
    fn identifiers_are_folded_at_sight() {
        let folder = Folder::default();
        for (target, expected) in [
            ("/", "/"),
            ("/about", "/about"),
            ("/about/", "/about/"),
            ("/post/123", "/post/{n}"),
            ("/post/123/edit", "/post/{n}/edit"),
            ("/2026/11/21/title", "/{n}/{n}/{n}/title"),
            ("/post/123.html", "/post/{n}.html"),
            ("/post/123-a-title", "/post/{n}-{slug}"),
            ("/item-77", "/item-{n}"),
            ("/api/v1/users", "/api/v1/users"),
            ("/o/550e8400-e29b-41d4-a716-446655440000", "/o/{uuid}"),
            ("/c/9fceb02d0ae598e95dc970b74767f193", "/c/{hex}"),
            ("/facade/deadbeef", "/facade/deadbeef"),
            ("/reset/Zk3vX91pQa0LmN7cTyWs", "/reset/{token}"),
            ("/wiki/List_of_2024_Films", "/wiki/List_of_2024_Films"),
            ("/u/ann@example.org", "/u/{email}"),
            ("/search?q=red&page=2", "/search?q=red&page={n}"),
            ("/search?page=2&&flag", "/search?page={n}&flag"),
            ("/?utm_source=x&_=17&p=5", "/?p={n}"),
            ("/?utm_source=x", "/"),
            ("/build/app-9f3a.css?v=3", "/build/*.css"),
            ("/photo/77/big.JPG", "/photo/{n}/*.jpg"),
            ("/favicon.ico", "/*.ico"),
        ] {
            check(&folder, target, expected);
        }
        let many = format!("/a?{}", "x=1&".repeat(30));
        check(&folder, &many, "/a?{query}");
    }

    #[test]
    fn words_are_folded_where_the_data_said_so() {
        let mut folder = Folder::default();
        folder.fold_position("/wiki/".into(), HashSet::from(["Main".to_owned()]));
        folder.fold_position("/search?q=".into(), HashSet::new());
        check(&folder, "/wiki/Paris", "/wiki/{slug}");
        check(&folder, "/wiki/Main", "/wiki/Main");
        check(&folder, "/wiki/", "/wiki/");
        check(&folder, "/wiki/Paris/history", "/wiki/{slug}/history");
        check(
            &folder,
            "/search?lang=en&q=red+car",
            "/search?lang=en&q={text}",
        );
        check(&folder, "/find?q=red", "/find?q=red");
    }

    proptest! {
        #[test]
        fn no_target_makes_it_panic(target in "/\\PC{0,60}") {
            let mut route = String::new();
            Folder::default().route(&target, &mut route);
            prop_assert!(route.starts_with('/'));
            let mut again = String::new();
            Folder::default().route(&route, &mut again);
            prop_assert_eq!(route, again);
        }

        #[test]
        fn a_number_never_makes_a_route_of_its_own(a: u64, b: u64) {
            let mut routes = [String::new(), String::new()];
            for (route, n) in routes.iter_mut().zip([a, b]) {
                Folder::default().route(&format!("/post/{n}?page={n}"), route);
            }
            prop_assert_eq!(&routes[0], &routes[1]);
        }
    }
}
