//! What a rehearsal saw of each request: in words what will be measured, and what speaks against measuring it.
//!
//! An error page has a limit too, and a high one. So what looks like an error is not loaded, what is doubtful is told, and
//! during the load an answer that is another page counts as failed.

use kneepoint_load::{Fetched, Page, Rehearsed};
use kneepoint_model::{Request, Workload, units};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// CPU time of PHP below which a page is hardly one of an application, in ms \[ours\]: asked one by one, a script of one
/// sentence took 0.18 ms, and the front page of our own smallest application 0.53 ms.
const LITTLE_PHP_MS: f64 = 0.3;
/// CPU time of PHP below which it was not asked at all, in ms \[ours\]: a file that the web server sends itself.
const NO_PHP_MS: f64 = 0.02;
/// Characters that a page which answers every path may have and still be doubted \[ours\].
const FEW_CHARS: usize = 300;
/// Fewest warm requests whose CPU time says something.
const FEWEST_TIMES: usize = 3;
/// Most requests that are told one by one.
const MOST_TOLD: usize = 12;

/// What was seen of one request.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Which of the workload's requests, counted from 0.
    index: usize,
    /// `GET /path`.
    name: String,
    status: u16,
    /// Where a redirect leads.
    location: Option<String>,
    page: Page,
    body_hash: u64,
    /// Texts that all its answers had so far, the most telling first.
    marks: Vec<String>,
    /// CPU time of PHP in ms, of each warm request.
    php_ms: Vec<f64>,
}

impl Seen {
    /// Takes the first answer.
    pub(super) fn new(rehearsed: &Rehearsed, request: &Request, workload: &Workload) -> Self {
        let Rehearsed {
            index,
            request: name,
            fetched,
            missed: _,
        } = rehearsed;
        let page = fetched.page();
        let marks = if may_be_marked(request, workload, fetched) {
            page.marks(&fetched.body)
        } else {
            Vec::new()
        };
        Self {
            index: *index,
            name: name.clone(),
            status: fetched.status,
            location: fetched.redirect().map(str::to_owned),
            body_hash: hash(&fetched.body),
            page,
            marks,
            php_ms: Vec::new(),
        }
    }

    /// Whether it is of this request of the workload.
    pub(super) fn is_of(&self, index: usize) -> bool {
        self.index == index
    }

    /// Takes a later answer, and the CPU time of PHP that it took.
    pub(super) fn again(&mut self, fetched: &Fetched, php_ms: Option<f64>) {
        self.marks.retain(|mark| fetched.contains(mark));
        self.php_ms.extend(php_ms);
    }

    /// The request it is of, counted from 0, and a text that a good answer to it has.
    pub(super) fn mark(&self) -> Option<(usize, &str)> {
        let mark = self.marks.first()?;
        Some((self.index, mark.as_str()))
    }

    /// CPU time of PHP of a warm request in ms: the middle one. `None` where it is not known.
    fn php_ms(&self) -> Option<f64> {
        let mut times = self.php_ms.clone();
        times.sort_by(f64::total_cmp);
        (times.len() >= FEWEST_TIMES).then(|| times[times.len() / 2])
    }

    /// Why it must not be loaded, with what to write where it is what is meant.
    pub(super) fn problem(&self, request: &Request) -> Option<String> {
        if vouched(request) {
            return None;
        }
        let asked = request.expect.status.is_empty();
        let leads = self.location.as_deref().filter(|_| asked);
        if let Some(to) = leads.filter(|to| installs(to)) {
            return Some(format!(
                "{} leads to {to} (status {status}): the application is not installed. Bring it to the state it has in \
                 use, its configuration and its database. If the redirect is meant: expect = {{ status = {status} }}",
                self.name,
                status = self.status
            ));
        }
        // Whoever expects an error by its status means it.
        let error = self.page.error_page().filter(|_| self.status < 400)?;
        Some(format!(
            "{} answers with status {} and what looks like an error page of {}, so its limit would be no application's. \
             It says: {}\nPut that right first. If this is the page that is meant, give the request a text of it: \
             expect = {{ body_contains = \"...\" }}",
            self.name, self.status, error.of, error.sentence
        ))
    }

    /// What makes it doubtful that this is the page that is meant.
    fn doubt(&self, request: &Request) -> Option<String> {
        if vouched(request) {
            return None;
        }
        if self.is_redirect() && request.method.0 == "GET" && request.expect.status.is_empty() {
            let to = self.location.as_deref().unwrap_or("nowhere");
            return Some(format!(
                "{} answers with a redirect to {to} (status {}), and that is what is measured: write path = {to:?} where \
                 the page behind it is meant, or expect = {{ status = {} }} where the redirect is",
                self.name, self.status, self.status
            ));
        }
        let php_ms = self.php_ms()?;
        let says = match self.page.text.as_str() {
            "" => "It says nothing".to_owned(),
            text => format!("It says: {text}"),
        };
        (NO_PHP_MS..LITTLE_PHP_MS).contains(&php_ms).then(|| {
            format!(
                "{} takes {} of PHP's CPU time: a page of an application takes more. Is this the page that is meant? {says}",
                self.name,
                units::format_ms(php_ms)
            )
        })
    }

    fn is_redirect(&self) -> bool {
        (300..400).contains(&self.status)
    }

    /// What will be measured: ``GET /: `My blog`, 24.1 KiB, 12.3 ms of PHP's CPU time``.
    fn describe(&self) -> String {
        let mut parts = vec![match &self.location {
            Some(to) => format!("a redirect to {to}"),
            None => self.page.name(),
        }];
        if self.status != 200 {
            parts.push(format!("status {}", self.status));
        }
        parts.push(units::format_bytes(self.page.size_bytes as u64));
        parts.extend(self.php_ms().map(|ms| match ms < NO_PHP_MS {
            true => "without PHP".to_owned(),
            false => format!("{} of PHP's CPU time", units::format_ms(ms)),
        }));
        format!("{}: {}", self.name, parts.join(", "))
    }
}

/// Whether the scenario says by the body what a good answer is.
fn vouched(request: &Request) -> bool {
    !request.expect.body_contains.is_empty()
}

/// Whether a redirect leads to what installs the application.
fn installs(to: &str) -> bool {
    let path = to.split('?').next().unwrap_or_default().to_lowercase();
    let scripts = ["/install.php", "/setup-config.php", "/mw-config/index.php"];
    let places = [
        "/install",
        "/installer",
        "/installation/index.php",
        "/mw-config",
    ];
    let path = path.trim_end_matches('/');
    scripts.iter().any(|script| path.ends_with(script))
        || places.iter().any(|place| path.ends_with(place))
}

/// Whether answers to a request may be asked for a piece of the title that the first one had: not where the scenario says
/// itself what a good one is, where values or what the user did before may change it, or where the answer may be compressed
/// (what is looked for could not be found, and to forbid it would be another load).
fn may_be_marked(request: &Request, workload: &Workload, fetched: &Fetched) -> bool {
    let compressed = |(name, _): &(String, String)| name.eq_ignore_ascii_case("accept-encoding");
    let personal = !workload.feeders.is_empty() && (workload.sessions.is_some() || request.session);
    request.method.0 == "GET"
        && (200..300).contains(&fetched.status)
        && !vouched(request)
        && request.variables().is_empty()
        && !personal
        && !request.headers.iter().any(compressed)
        && fetched.header("content-encoding").is_none()
}

fn hash(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

/// A rehearsal in words: what will be measured, and what is doubtful about it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Told {
    pub(super) results: Vec<String>,
    pub(super) doubts: Vec<String>,
}

/// Tells what was seen of a workload.
pub(super) fn tell(seen: &[Seen], workload: &Workload) -> Told {
    let mut results: Vec<String> = seen.iter().take(MOST_TOLD).map(Seen::describe).collect();
    if let Some(more) = seen.len().checked_sub(MOST_TOLD).filter(|more| *more > 0) {
        results.push(format!("and {more} requests more"));
    }
    if let Some(rule) = rule(seen) {
        results.push(rule);
    }
    let requests = seen
        .iter()
        .map(|seen| (seen, &workload.requests[seen.index]));
    let doubts = requests
        .clone()
        .filter_map(|(seen, request)| seen.doubt(request));
    Told {
        results,
        doubts: doubts.chain(same_everywhere(requests)).collect(),
    }
}

/// By what an answer counts as failed that arrives with the right status.
fn rule(seen: &[Seen]) -> Option<String> {
    let marked: Vec<String> = seen
        .iter()
        .filter_map(|seen| Some(format!("{} `{}`", seen.name, seen.mark()?.1)))
        .take(MOST_TOLD)
        .collect();
    (!marked.is_empty()).then(|| {
        format!(
            "Answers count as failed without the piece of the title that all had so far: {}. body_contains says it better",
            marked.join("; ")
        )
    })
}

/// One short answer to requests for different paths: the application may not look at what it is asked for.
fn same_everywhere<'s>(
    mut requests: impl Iterator<Item = (&'s Seen, &'s Request)> + Clone,
) -> Option<String> {
    let (first, request) = requests.clone().next()?;
    let path = |request: &'s Request| request.path.split('?').next().unwrap_or_default();
    let others = requests
        .clone()
        .any(|(_, other)| path(other) != path(request));
    let same = requests.all(|(seen, request)| {
        seen.body_hash == first.body_hash && !vouched(request) && !seen.is_redirect()
    });
    let short = first.page.text.chars().count() <= FEW_CHARS;
    (others && same && short).then(|| {
        format!(
            "Every path answers with the same body, {}: check that the application looks at what it is asked for",
            first.page.name()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use kneepoint_model::Feeder;
    use std::time::Duration;

    fn answer(
        index: usize,
        name: &str,
        status: u16,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Rehearsed {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Rehearsed {
            index,
            request: name.to_owned(),
            fetched: Fetched {
                status,
                headers: headers.collect(),
                body: body.as_bytes().to_vec(),
                stderr: String::new(),
                first_byte: Duration::ZERO,
                elapsed: Duration::ZERO,
            },
            missed: None,
        }
    }

    fn html(index: usize, name: &str, body: &str) -> Rehearsed {
        answer(index, name, 200, &[("Content-Type", "text/html")], body)
    }

    fn workload(paths: &[&str]) -> Workload {
        Workload {
            requests: paths.iter().map(|path| Request::get(path)).collect(),
            ..Workload::single("/")
        }
    }

    /// What is told of answers to requests, each seen with a CPU time of PHP.
    #[track_caller]
    fn check(workload: &Workload, answers: &[(Rehearsed, f64)], expected: Expect) {
        let seen: Vec<Seen> = answers
            .iter()
            .map(|(answer, php_ms)| {
                let mut seen = Seen::new(answer, &workload.requests[answer.index], workload);
                (0..FEWEST_TIMES).for_each(|_| seen.again(&answer.fetched, Some(*php_ms)));
                seen
            })
            .collect();
        let problems = seen
            .iter()
            .filter_map(|seen| seen.problem(&workload.requests[seen.index]));
        let problems: Vec<String> = problems.map(|text| format!("stop: {text}\n")).collect();
        let Told { results, doubts } = tell(&seen, workload);
        let results = results.iter().map(|text| format!("{text}\n"));
        let doubts = doubts.iter().map(|text| format!("doubt: {text}\n"));
        expected.assert_eq(
            &problems
                .into_iter()
                .chain(results)
                .chain(doubts)
                .collect::<String>(),
        );
    }

    #[test]
    fn what_will_be_measured_is_told() {
        let page = html(0, "GET /", "<title>My blog</title><p>Hello</p>");
        let json = answer(
            1,
            "GET /api",
            200,
            &[("content-type", "application/json")],
            "{\"visits\": 3}",
        );
        check(
            &workload(&["/", "/api"]),
            &[(page, 12.34), (json, 0.0)],
            expect![[r#"
                GET /: `My blog`, 34 B, 12.3 ms of PHP's CPU time
                GET /api: "{"visits": 3}", 13 B, without PHP
                Answers count as failed without the piece of the title that all had so far: GET / `<title>My blog</title>`. body_contains says it better
            "#]],
        );
    }

    #[test]
    fn an_error_page_stops_unless_the_scenario_vouches_for_it() {
        let page = || {
            html(
                0,
                "GET /",
                "<title>DokuWiki Setup Error</title><p>The datadir is not writable.</p>",
            )
        };
        let mut workload = workload(&["/"]);
        check(
            &workload,
            &[(page(), 0.5)],
            expect![[r#"
                stop: GET / answers with status 200 and what looks like an error page of DokuWiki, so its limit would be no application's. It says: DokuWiki Setup Error. The datadir is not writable.
                Put that right first. If this is the page that is meant, give the request a text of it: expect = { body_contains = "..." }
                GET /: `DokuWiki Setup Error`, 70 B, 0.50 ms of PHP's CPU time
                Answers count as failed without the piece of the title that all had so far: GET / `<title>DokuWiki Setup Error</title>`. body_contains says it better
            "#]],
        );
        workload.requests[0].expect.body_contains = vec!["datadir".into()];
        check(
            &workload,
            &[(page(), 0.1)],
            expect![[r#"
                GET /: `DokuWiki Setup Error`, 70 B, 0.10 ms of PHP's CPU time
            "#]],
        );
    }

    #[test]
    fn an_error_that_is_expected_by_its_status_is_loaded() {
        let mut workload = workload(&["/none"]);
        workload.requests[0].expect.status = vec![404.into()];
        let page = answer(0, "GET /none", 404, &[], "<title>404 Not Found</title>");
        check(
            &workload,
            &[(page, 1.0)],
            expect![[r#"
                GET /none: `404 Not Found`, status 404, 28 B, 1.00 ms of PHP's CPU time
            "#]],
        );
    }

    #[test]
    fn redirects_are_told_and_those_to_an_installer_stop() {
        let to = |to: &str| answer(0, "GET /", 302, &[("Location", to)], "");
        check(
            &workload(&["/"]),
            &[(to("/wiki/Main_Page"), 3.0)],
            expect![[r#"
                GET /: a redirect to /wiki/Main_Page, status 302, 0 B, 3.00 ms of PHP's CPU time
                doubt: GET / answers with a redirect to /wiki/Main_Page (status 302), and that is what is measured: write path = "/wiki/Main_Page" where the page behind it is meant, or expect = { status = 302 } where the redirect is
            "#]],
        );
        check(
            &workload(&["/"]),
            &[(to("http://a/wp-admin/install.php?x=1"), 3.0)],
            expect![[r#"
                stop: GET / leads to http://a/wp-admin/install.php?x=1 (status 302): the application is not installed. Bring it to the state it has in use, its configuration and its database. If the redirect is meant: expect = { status = 302 }
                GET /: a redirect to http://a/wp-admin/install.php?x=1, status 302, 0 B, 3.00 ms of PHP's CPU time
                doubt: GET / answers with a redirect to http://a/wp-admin/install.php?x=1 (status 302), and that is what is measured: write path = "http://a/wp-admin/install.php?x=1" where the page behind it is meant, or expect = { status = 302 } where the redirect is
            "#]],
        );
    }

    #[test]
    fn a_page_that_costs_nothing_and_one_that_answers_everything_are_doubted() {
        let same = |index, name| html(index, name, "<p>Nothing here</p>");
        check(
            &workload(&["/a", "/b?c"]),
            &[(same(0, "GET /a"), 0.13), (same(1, "GET /b?c"), 4.0)],
            expect![[r#"
                GET /a: "Nothing here", 19 B, 0.13 ms of PHP's CPU time
                GET /b?c: "Nothing here", 19 B, 4.00 ms of PHP's CPU time
                doubt: GET /a takes 0.13 ms of PHP's CPU time: a page of an application takes more. Is this the page that is meant? It says: Nothing here
                doubt: Every path answers with the same body, "Nothing here": check that the application looks at what it is asked for
            "#]],
        );
        let once = |index, name, n| html(index, name, &format!("<p>Number {n}</p>"));
        check(
            &workload(&["/a", "/b"]),
            &[(once(0, "GET /a", 1), 1.0), (once(1, "GET /b", 2), 1.0)],
            expect![[r#"
                GET /a: "Number 1", 15 B, 1.00 ms of PHP's CPU time
                GET /b: "Number 2", 15 B, 1.00 ms of PHP's CPU time
            "#]],
        );
    }

    #[test]
    fn a_title_that_may_change_is_no_mark() {
        let body = "<title>My blog</title>";
        let marked = |change: &dyn Fn(&mut Workload), headers: &[(&str, &str)]| {
            let mut workload = workload(&["/"]);
            change(&mut workload);
            let answer = answer(0, "GET /", 200, headers, body);
            let seen = Seen::new(&answer, &workload.requests[0], &workload);
            seen.mark().map(|(_, mark)| mark.to_owned())
        };
        let kind = [("content-type", "text/html")];
        assert_eq!(
            marked(&|_| {}, &kind).as_deref(),
            Some("<title>My blog</title>")
        );
        let feeder = Feeder {
            name: "users".into(),
            columns: vec!["id".into()],
            order: kneepoint_model::RowOrder::InTurn,
            rows: [vec!["1".into()]].into(),
        };
        for change in [
            &|w: &mut Workload| w.requests[0].path = "/{{users.id}}".into(),
            &|w: &mut Workload| w.requests[0].method.0 = "POST".into(),
            &|w: &mut Workload| w.requests[0].expect.body_contains = vec!["blog".into()],
            &|w: &mut Workload| {
                w.requests[0]
                    .headers
                    .push(("accept-encoding".into(), "gzip".into()))
            },
            &|w: &mut Workload| {
                w.requests[0].session = true;
                w.feeders = vec![feeder.clone()];
            },
        ] as [&dyn Fn(&mut Workload); 5]
        {
            assert_eq!(marked(change, &kind), None);
        }
        assert_eq!(
            marked(&|_| {}, &[("content-type", "application/json")]),
            None
        );
    }

    #[test]
    fn a_mark_is_what_all_answers_had() {
        let workload = workload(&["/"]);
        let first = html(0, "GET /", "<title>My blog</title>");
        let mut seen = Seen::new(&first, &workload.requests[0], &workload);
        seen.again(
            &html(0, "GET /", "<title>My blog - page two</title>").fetched,
            None,
        );
        assert_eq!(seen.mark(), Some((0, "<title>My blog")));
        seen.again(&html(0, "GET /", "<title>Another</title>").fetched, None);
        assert_eq!(seen.mark(), None);
    }
}
