//! The routes of a log: what was asked for, folded, with how often and some real examples of each.

mod fold;

use crate::entry::{LoggedRequest, hash};
use crate::sample::{Distinct, OVERHEAD, Sample};
use fold::{Folder, asset_extension};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;

/// Routes beyond which words are folded while the log is read, so that memory is bounded.
const MOST_ROUTES: usize = 4_000;
/// What has no route of its own when folding words did not make room.
const OTHER: &str = "/{other}";
/// Bytes of example paths beyond which each route keeps half as many.
const MOST_EXAMPLE_BYTES: usize = 64 << 20;
/// Different examples a route keeps at first; the replay uses fewer.
const EXAMPLES: usize = 200;
/// Different values counted exactly; more are estimated within 6 %.
const COUNTED: usize = 256;
/// A word that has at least this share of its position's requests stays a route of its own.
const KEPT_SHARE: f64 = 0.02;

/// One route while the log is read.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) method: String,
    pub(crate) template: String,
    /// The client error that was the answer, where it was one.
    pub(crate) refused: Option<u16>,
    pub(crate) requests: u64,
    /// Answered with a status from 500.
    pub(crate) failed: u64,
    pub(crate) examples: Sample,
    pub(crate) distinct: Distinct,
}

/// All routes.
#[derive(Debug)]
pub(crate) struct Routes {
    folder: Folder,
    /// A position that takes more different words than this is folded.
    words: usize,
    tallies: HashMap<String, Tally>,
    examples: usize,
    example_bytes: usize,
    random: Xoshiro256PlusPlus,
    template: String,
    key: String,
    /// Whether words were folded before the end since there were too many routes.
    pub(crate) crowded: bool,
}

impl Routes {
    pub(crate) fn new(words: usize) -> Self {
        Self {
            folder: Folder::default(),
            words,
            tallies: HashMap::new(),
            examples: EXAMPLES,
            example_bytes: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(1),
            template: String::new(),
            key: String::new(),
            crowded: false,
        }
    }

    /// Counts a request. A path that a client error answers is a route of its own: the replay must expect it.
    pub(crate) fn add(&mut self, request: &LoggedRequest, status: Option<u16>) {
        let refused = status.filter(|status| is_refusal(*status));
        self.folder.route(&request.target, &mut self.template);
        write_key(&mut self.key, &request.method, &self.template, refused);
        if !self.tallies.contains_key(self.key.as_str()) {
            self.begin(request, refused);
        }
        let Some(tally) = self.tallies.get_mut(self.key.as_str()) else {
            return;
        };
        tally.requests += 1;
        tally.failed += u64::from(status.is_some_and(|status| status >= 500));
        if let Sample::Exact(known) = &tally.examples
            && !known.contains_key(request.target.as_str())
        {
            self.example_bytes += request.target.len() + OVERHEAD;
        }
        tally
            .examples
            .add(&request.target, self.examples, &mut self.random);
        tally.distinct.add(hash(request.target.as_str()));
        if self.example_bytes > MOST_EXAMPLE_BYTES {
            self.halve_examples();
        }
    }

    /// Makes room for a new route and takes it up.
    fn begin(&mut self, request: &LoggedRequest, refused: Option<u16>) {
        if self.tallies.len() >= MOST_ROUTES {
            self.crowded = true;
            // Fewer and fewer different words are let stand until there is room.
            while self.tallies.len() >= MOST_ROUTES / 2 && self.words > 0 {
                self.fold_words();
                self.words /= 2;
            }
            if self.tallies.len() >= MOST_ROUTES / 2 {
                self.folder.fold_queries();
                self.refold();
            }
            self.folder.route(&request.target, &mut self.template);
            write_key(&mut self.key, &request.method, &self.template, refused);
        }
        if self.tallies.len() >= 2 * MOST_ROUTES {
            OTHER.clone_into(&mut self.template);
            write_key(&mut self.key, &request.method, OTHER, refused);
        }
        let tally = Tally {
            method: request.method.clone(),
            template: self.template.clone(),
            refused,
            requests: 0,
            failed: 0,
            examples: Sample::default(),
            distinct: Distinct::new(COUNTED),
        };
        self.tallies.entry(self.key.clone()).or_insert(tally);
    }

    fn halve_examples(&mut self) {
        self.examples = (self.examples / 2).max(1);
        let mut bytes = 0;
        for tally in self.tallies.values_mut() {
            let all = std::mem::take(&mut tally.examples);
            tally.examples.merge(all, self.examples, &mut self.random);
            bytes += tally.examples.bytes();
        }
        // At one example a route there is nothing left to halve.
        self.example_bytes = if self.examples > 1 { bytes } else { 0 };
    }

    /// Folds the words of every position that takes many, from the first segment to the last, then the values of
    /// parameters. Folding a position joins what is behind it, so each is looked at with the ones before folded.
    fn fold_words(&mut self) {
        let depths = self.tallies.values().map(|tally| depth(&tally.template));
        for depth in 0..depths.max().unwrap_or(0) {
            self.fold_positions(|template| word_at(template, depth));
        }
        for parameter in 0..PARAMETERS {
            self.fold_positions(|template| value_at(template, parameter));
        }
    }

    fn fold_positions(&mut self, place: impl Fn(&str) -> Option<(String, &str)>) {
        let mut positions: BTreeMap<String, HashMap<String, u64>> = BTreeMap::new();
        for tally in self.tallies.values() {
            if let Some((before, word)) = place(&tally.template) {
                let words = positions.entry(before).or_default();
                *words.entry(word.to_owned()).or_default() += tally.requests;
            }
        }
        positions.retain(|_, words| words.len() > self.words);
        if positions.is_empty() {
            return;
        }
        for (before, words) in positions {
            let all: u64 = words.values().sum();
            let own = |requests: u64| requests as f64 >= all as f64 * KEPT_SHARE;
            let kept = words.into_iter().filter(|(_, requests)| own(*requests));
            let kept: HashSet<String> = kept.map(|(word, _)| word).collect();
            self.folder.fold_position(before, kept);
        }
        self.refold();
    }

    /// Puts every route where it belongs by what is folded now.
    fn refold(&mut self) {
        let mut old: Vec<(String, Tally)> = std::mem::take(&mut self.tallies).into_iter().collect();
        // In an order that is always the same, since the examples are drawn at random.
        old.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let mut template = String::new();
        for (_, mut tally) in old {
            self.folder.route(&tally.template, &mut template);
            tally.template.clone_from(&template);
            write_key(&mut self.key, &tally.method, &template, tally.refused);
            match self.tallies.get_mut(self.key.as_str()) {
                None => {
                    self.tallies.insert(self.key.clone(), tally);
                }
                Some(known) => {
                    known.requests += tally.requests;
                    known.failed += tally.failed;
                    known.distinct.merge(&tally.distinct);
                    known
                        .examples
                        .merge(tally.examples, self.examples, &mut self.random);
                }
            }
        }
    }

    /// Every route, the most frequent first.
    pub(crate) fn finish(mut self) -> Vec<Tally> {
        self.fold_words();
        let mut tallies: Vec<Tally> = self.tallies.into_values().collect();
        tallies.sort_unstable_by(|a, b| {
            let order = b.requests.cmp(&a.requests);
            order.then_with(|| {
                (&a.template, &a.method, a.refused).cmp(&(&b.template, &b.method, b.refused))
            })
        });
        tallies
    }
}

/// Whether a status says that the request itself is refused, now and always: 408, 425, 429 and nginx's 499 depend
/// on the moment.
fn is_refusal(status: u16) -> bool {
    (400..499).contains(&status) && ![408, 425, 429].contains(&status)
}

fn write_key(key: &mut String, method: &str, template: &str, refused: Option<u16>) {
    key.clear();
    let _ = write!(key, "{method} {template} {}", refused.unwrap_or(0));
}

/// Parameters of a query whose values may be folded.
const PARAMETERS: usize = 20;

fn path_of(template: &str) -> &str {
    template.split_once('?').map_or(template, |(path, _)| path)
}

/// Segments of a template's path; an asset's last one is its extension.
fn depth(template: &str) -> usize {
    path_of(template).matches('/').count()
}

/// What is before a segment, and the segment, where it is a word.
fn word_at(template: &str, depth: usize) -> Option<(String, &str)> {
    let path = path_of(template);
    let (start, _) = path.match_indices('/').nth(depth)?;
    let word = path[start + 1..].split('/').next()?;
    is_word(word).then(|| (path[..=start].to_owned(), word))
}

/// What is before the value of a parameter, and the value, where it is a word.
fn value_at(template: &str, parameter: usize) -> Option<(String, &str)> {
    let (path, query) = template.split_once('?')?;
    let (name, value) = query.split('&').nth(parameter)?.split_once('=')?;
    is_word(value).then(|| (format!("{path}?{name}="), value))
}

/// Something that is not folded yet.
fn is_word(word: &str) -> bool {
    !word.is_empty() && !word.contains('{') && !word.starts_with("*.")
}

/// Whether a path names an asset.
pub(crate) fn is_asset(target: &str) -> bool {
    asset_extension(target).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learnt(requests: impl IntoIterator<Item = (String, u16)>) -> Vec<Tally> {
        let mut routes = Routes::new(30);
        for (target, status) in requests {
            let request = LoggedRequest::new("GET", &target).expect("can be asked for");
            routes.add(&request, Some(status));
        }
        routes.finish()
    }

    fn shown(tallies: &[Tally]) -> Vec<String> {
        tallies
            .iter()
            .map(|t| {
                let refused = t
                    .refused
                    .map_or(String::new(), |status| format!(" -> {status}"));
                format!(
                    "{} {}{refused}, {} different",
                    t.requests,
                    t.template,
                    t.distinct.count()
                )
            })
            .collect()
    }

    fn word(i: usize) -> String {
        // Letters only, so that nothing looks like an identifier.
        let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
        [i / 676, i / 26, i].map(letter).iter().collect()
    }

    #[test]
    fn a_position_with_many_words_is_one_route_and_frequent_words_stay() {
        let posts = (0..200).map(|i| (format!("/blog/{}", word(i)), 200));
        let feed = (0..50).map(|_| ("/blog/feed".to_owned(), 200));
        let edits = (0..200).map(|i| (format!("/blog/{}/edit", word(i)), 200));
        let pages = (0..10).map(|i| (format!("/{}", word(i)), 200));
        let tallies = learnt(posts.chain(feed).chain(edits).chain(pages));
        let mut shown = shown(&tallies);
        shown.retain(|line| line.contains("/blog"));
        assert_eq!(
            shown,
            [
                "200 /blog/{slug}, 200 different",
                "200 /blog/{slug}/edit, 200 different",
                "50 /blog/feed, 1 different"
            ]
        );
        assert_eq!(tallies.len(), 13, "ten pages stay pages");
        assert_eq!(tallies[0].examples.weighted().len(), 200);
    }

    #[test]
    fn values_of_a_query_are_folded_likewise() {
        let queries = (0..100).map(|i| (format!("/search?lang=en&q={}", word(i)), 200));
        assert_eq!(
            shown(&learnt(queries)),
            ["100 /search?lang=en&q={text}, 100 different"]
        );
    }

    #[test]
    fn what_is_refused_is_a_route_of_its_own_and_what_fails_is_not() {
        let statuses = [200, 404, 503, 429, 404, 304];
        let requests = statuses.map(|status| ("/a".to_owned(), status));
        let tallies = learnt(requests);
        assert_eq!(
            shown(&tallies),
            ["4 /a, 1 different", "2 /a -> 404, 1 different"]
        );
        assert_eq!(tallies[0].failed, 1);
    }

    #[test]
    fn a_scan_of_a_million_paths_does_not_fill_the_memory() {
        let scan = (0..60_000).map(|i| {
            let (a, b) = (word(i % 5000), word(i / 7));
            (format!("/{a}{b}/{b}?{a}={b}"), 404)
        });
        let home = (0..100).map(|_| ("/".to_owned(), 200));
        let tallies = learnt(scan.chain(home));
        assert!(tallies.len() <= 2 * MOST_ROUTES, "{}", tallies.len());
        assert_eq!(tallies.iter().map(|t| t.requests).sum::<u64>(), 60_100);
        assert!(shown(&tallies).contains(&"100 /, 1 different".to_owned()));
    }
}
