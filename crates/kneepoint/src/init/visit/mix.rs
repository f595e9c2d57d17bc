//! What a visit found, and which of the pages it saw make a mix of requests.

use super::links::ROUTING;
use kneepoint_experiment::testbed::Outsider;
use std::collections::BTreeSet;

/// Pages of a proposed mix at most.
pub(super) const MOST_PAGES: usize = 6;
/// Longest text that a page is known by, in bytes.
const LONGEST_MARK: usize = 100;
/// Fewest letters of the first word of a body without HTML by which it is known \[ours\].
const FEWEST_LETTERS: usize = 4;

/// A page of the mix, as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct VisitPage {
    /// Path with query.
    pub path: String,
    /// Text that only this answer's kind has, as it stands in the body; `None` where there is none.
    pub mark: Option<String>,
    /// Length of its body in bytes.
    pub bytes: usize,
    /// Time from the connection to the last byte when nobody else asks, in ms.
    pub time_ms: f64,
    /// CPU time of PHP for it, in ms; `None` where it cannot be read.
    pub php_ms: Option<f64>,
}

/// What came of a visit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VisitOutcome {
    /// What was learned on the way, a sentence each.
    pub told: Vec<String>,
    /// Whom it tried to reach outside of the lab.
    pub outsiders: Vec<Outsider>,
    /// The pages of the mix, the start page first.
    pub pages: Vec<VisitPage>,
    /// Why the application does not answer as it should, in a sentence or two.
    pub failure: Option<String>,
    /// The name by which the site wants to be asked, where it redirects others to it.
    pub host: Option<String>,
    /// Whether it sends everybody away who does not come over TLS.
    pub wants_tls: bool,
}

/// A page that was seen once, while looking round.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) path: String,
    pub(super) body: Vec<u8>,
}

/// The pages for a mix: the first that was seen, then those of other kinds, then more of the same kinds. The same body
/// twice is one page.
pub(super) fn choose(seen: Vec<Seen>) -> Vec<Seen> {
    let mut bodies = BTreeSet::new();
    let mut shapes = BTreeSet::new();
    let (mut first, mut more) = (Vec::new(), Vec::new());
    for page in seen {
        if !bodies.insert(page.body.clone()) {
            continue;
        }
        match shapes.insert(shape(&page.path)) {
            true => first.push(page),
            false => more.push(page),
        }
    }
    first.extend(more);
    first.truncate(MOST_PAGES);
    first
}

/// What paths to pages of one kind have in common: all but the last part, numbers, and values of queries that do not lead to
/// the page.
fn shape(path: &str) -> String {
    let (bare, query) = path.split_once('?').unwrap_or((path, ""));
    let names = query.split('&').map(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        let is_route = ROUTING.iter().any(|route| name.eq_ignore_ascii_case(route));
        if is_route { pair } else { name }
    });
    let names = names.collect::<Vec<_>>().join("&");
    let parts: Vec<&str> = bare.trim_matches('/').split('/').collect();
    let dir = parts[..parts.len() - 1].iter().map(|part| {
        let is_number = part.chars().all(|c| c.is_ascii_digit());
        if is_number { "0" } else { part }
    });
    let dir = dir.collect::<Vec<_>>().join("/");
    format!("{dir}/{}?{names}", bare.ends_with('/'))
}

/// Text by which a page is known: what stands in its `<title>`, or in its first heading where the title is one that a
/// page which is not there has, too. As in the body, escapes included. A short line of text is known by its first word.
pub(super) fn mark(body: &[u8], missing: Option<&[u8]>) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let absent = |mark: &&str| {
        missing.is_none_or(|page| memchr::memmem::find(page, mark.as_bytes()).is_none())
    };
    let mut marks = ["title", "h1", "h2"]
        .into_iter()
        .filter_map(|name| inside(text, name))
        .chain(line(text));
    marks.find(absent).map(str::to_owned)
}

/// The first word of a body that is one short line of text, without HTML and JSON. What follows may be another text soon: the
/// time, or whom the page met.
fn line(body: &str) -> Option<&str> {
    let body = body.trim();
    let is_line = !body.contains(['<', '{']) && !body.chars().any(char::is_control);
    let end = body
        .find(|c: char| !c.is_alphabetic())
        .unwrap_or(body.len());
    let word = &body[..end];
    let letters = word.chars().count();
    (is_line && body.len() <= LONGEST_MARK && letters >= FEWEST_LETTERS).then_some(word)
}

/// The text in the first element of a name that has nothing but text in it, cut where it is long.
pub(super) fn inside<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let small = text.to_ascii_lowercase();
    let open = format!("<{name}");
    for (at, _) in small.match_indices(&open) {
        let rest = &text[at + open.len()..];
        if !rest.starts_with(['>', ' ', '\n', '\t', '\r']) {
            continue;
        }
        let begin = rest.find('>')? + 1;
        let end = begin + rest[begin..].find('<')?;
        let found = cut(rest[begin..end].trim());
        if !found.is_empty() {
            return Some(found);
        }
    }
    None
}

/// The first line's beginning, up to a space where it is long.
fn cut(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default().trim_end();
    if line.len() <= LONGEST_MARK {
        return line;
    }
    let mut end = LONGEST_MARK;
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    let end = line[..end].rfind(' ').unwrap_or(end);
    line[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_known_by_what_a_missing_one_has_not() {
        let page = b"<html><head><TITLE lang=en>\n Fish &amp; chips \n</TITLE></head><h1><a>x</a></h1><h1>Today</h1>";
        assert_eq!(mark(page, None).as_deref(), Some("Fish &amp; chips"));
        let missing = b"<title>Fish &amp; chips</title><h1>Not found</h1>";
        assert_eq!(mark(page, Some(missing)).as_deref(), Some("Today"));
        assert_eq!(mark(page, Some(page)), None);
        assert_eq!(mark(b"{\"a\": 1}", None), None);
        assert_eq!(mark(b"<title>\xff</title>", None), None);
        assert_eq!(mark(b"Hello world!\n", None).as_deref(), Some("Hello"));
        assert_eq!(mark(b"visits 12", None).as_deref(), Some("visits"));
        assert_eq!(mark(b"Hello world!", Some(b"Hello world!")), None);
        assert_eq!(mark(b"ok 200", None), None, "too short");
        assert_eq!(mark(b"Hello\nworld", None), None, "two lines");
        assert_eq!(mark("a word ".repeat(30).as_bytes(), None), None);
        let long = format!("<title>{}</title>", "long words ".repeat(30));
        let mark = mark(long.as_bytes(), None).expect("a mark");
        assert!(
            mark.len() <= LONGEST_MARK && mark.ends_with(['g', 's']),
            "{mark}"
        );
    }

    #[test]
    fn pages_of_other_kinds_come_before_more_of_the_same() {
        let seen = |path: &str, body: &str| Seen {
            path: path.into(),
            body: body.into(),
        };
        let pages = vec![
            seen("/", "start"),
            seen("/post/1", "a"),
            seen("/post/2", "b"),
            seen("/post/3", "c"),
            seen("/again", "start"),
            seen("/about/us/", "d"),
            seen("/?p=3", "e"),
        ];
        let paths: Vec<String> = choose(pages).into_iter().map(|page| page.path).collect();
        assert_eq!(
            paths,
            ["/", "/post/1", "/about/us/", "/?p=3", "/post/2", "/post/3"]
        );
    }

    #[test]
    fn a_query_that_leads_to_a_page_says_its_kind() {
        assert_eq!(shape("/?route=shop&id=1"), shape("/?route=shop&id=2"));
        assert_ne!(shape("/?route=shop&id=1"), shape("/?route=news&id=1"));
        assert_eq!(shape("/?lang=en"), shape("/?lang=de"));
    }
}
