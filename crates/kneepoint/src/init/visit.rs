//! Visits an application in the lab: what its first page is, what that page links to, and what each takes.

mod hints;
mod links;
mod mix;
mod needs;

pub use mix::{VisitOutcome, VisitPage};
pub use needs::VisitNeeds;

use super::EnvValue;
use crate::config;
use anyhow::Result;
use hints::{behind_login, installer, is_installer, left_out};
use kneepoint_experiment::testbed::Visited;
use kneepoint_experiment::{ExperimentError, Observer, Testbed};
use kneepoint_load::{Fetched, Page as Read};
use kneepoint_model::{Request, Scenario};
use links::{
    Site, has_unknown_query, is_harmless, is_same_page, known_host, own_host, steady,
    without_session,
};
use mix::{MOST_PAGES, Seen, choose, mark};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The arm that is visited.
const ARM: &str = "visit";
/// Pages looked at on the first round at most, the start page and the one that is not there included.
const MOST_FETCHES: usize = 20;
/// Redirects followed from one page at most, as browsers do not follow many more.
const MOST_REDIRECTS: usize = 5;
/// How often each page of the mix is asked for, to say what it takes.
const ASKED: usize = 5;
/// Most links that the first page of an installer has \[ours\]: those of its steps, its manual and its languages.
const LINKS_OF_INSTALLER: usize = 10;
/// A path that no application has.
const MISSING: &str = "/kneepoint-looks-for-a-page-that-is-not-there";

/// What a visit is told.
pub struct Visit<'v> {
    /// The draft, as text.
    pub draft: &'v str,
    /// The directory that it is meant for.
    pub dir: &'v Path,
    /// What of PHP the application says it needs.
    pub needs: &'v VisitNeeds,
    /// The hosts that its settings call the site's own.
    pub hosts: &'v [String],
    /// Whether to use loopback instead of network namespaces.
    pub loopback: bool,
}

/// Stands the drafted stack up and looks at the application as a visitor would, without doing anything there.
///
/// # Errors
/// The draft cannot be read, or somebody asked to stop. That no lab can be made, or that the application does not answer as
/// it should, is no error: the outcome says so.
pub fn visit(
    visit: &Visit<'_>,
    stop: &Arc<AtomicBool>,
    observer: Arc<dyn Observer + Send + Sync>,
) -> Result<VisitOutcome> {
    let scenario = config::parse(
        visit.draft,
        visit.dir,
        "kneepoint.toml",
        &config::StackServers,
    )
    .map_err(|errors| anyhow::anyhow!("{errors}"))?;
    let mut outcome = VisitOutcome::default();
    let result = Testbed::open(&scenario, visit.loopback, None, Arc::clone(stop), observer)
        .and_then(|testbed| in_testbed(testbed, &scenario, visit, stop, &mut outcome));
    match result {
        _ if stop.load(Ordering::Relaxed) => Err(ExperimentError::Interrupted.into()),
        Ok(()) => Ok(outcome),
        Err(error) => {
            outcome.failure.get_or_insert(error.to_string());
            Ok(outcome)
        }
    }
}

fn in_testbed(
    mut testbed: Testbed,
    scenario: &Scenario,
    visit: &Visit<'_>,
    stop: &AtomicBool,
    outcome: &mut VisitOutcome,
) -> Result<(), ExperimentError> {
    let result = testbed.stand_up_unasked(ARM, scenario).and_then(|()| {
        let mut visitor = Visitor {
            testbed: &testbed,
            stop,
            site: Site::new(&testbed.host_header(ARM)?),
            hosts: visit.hosts,
            host: None,
            over_tls: scenario.env.contains_key(EnvValue::HTTPS),
            fetches: 0,
        };
        visitor.look_round(visit.needs, outcome)
    });
    testbed.close();
    result
}

/// CPU time of PHP in ms below which a page may have been sent without it.
const LEAST_PHP_MS: f64 = 0.02;
/// Endings of pages that web servers send as they lie there.
const STATIC: [&str; 5] = ["html", "htm", "xhtml", "txt", "xml"];

/// A page at the end of its redirects.
struct Arrived {
    path: String,
    visited: Visited,
    read: Read,
}

/// What the first look at a site showed.
struct Looked {
    seen: Vec<Seen>,
    missing: Visited,
    /// Whether the start page has a field for a password.
    asks_for_password: bool,
    /// Links that were not visited because of their queries.
    left_out: Vec<String>,
}

/// Somebody who looks at pages.
struct Visitor<'t> {
    testbed: &'t Testbed,
    stop: &'t AtomicBool,
    site: Site,
    /// What else is taken for the site's once it has answered: a redirect there is one away from the lab.
    hosts: &'t [String],
    /// The name by which the site wants to be asked, where it does.
    host: Option<String>,
    /// Whether it looks to PHP as if it came over TLS.
    over_tls: bool,
    fetches: usize,
}

impl Visitor<'_> {
    fn look_round(
        &mut self,
        needs: &VisitNeeds,
        outcome: &mut VisitOutcome,
    ) -> Result<(), ExperimentError> {
        if let Some(php) = self.testbed.php(ARM)? {
            outcome.told.extend(needs.not_met_by(&php));
        }
        let watch = self.testbed.watch(ARM)?;
        let looked = self.look(outcome);
        match self.testbed.outsiders(ARM, watch)? {
            Ok(outsiders) => outcome.outsiders = outsiders,
            Err(why) => outcome.told.extend((!why.is_empty()).then_some(why)),
        }
        let Some(looked) = looked? else {
            return Ok(());
        };
        for page in choose(looked.seen) {
            let page = self.measure(&page, &looked.missing.fetched)?;
            if is_a_file(&page) && !outcome.pages.is_empty() {
                outcome.told.push(format!(
                    "GET {} is a file that the web server sends without PHP: it is not in the mix.",
                    page.path
                ));
            } else {
                outcome.pages.push(page);
            }
        }
        if let ([page], true) = (outcome.pages.as_slice(), looked.asks_for_password) {
            outcome.told.push(behind_login(&page.path));
        }
        if outcome.pages.len() < MOST_PAGES {
            outcome.told.extend(left_out(&looked.left_out));
        }
        Ok(())
    }

    /// The start page, what it links to, and the page that is not there; `None` where there is no start page.
    fn look(&mut self, outcome: &mut VisitOutcome) -> Result<Option<Looked>, ExperimentError> {
        let Some(start) = self.arrive_at_start(outcome)? else {
            return Ok(None);
        };
        self.site.learn(start.read.hosts());
        self.site.learn(self.hosts.iter().map(String::as_str));
        let links = start.read.links(&start.path, |host| self.site.has(host));
        let links: Vec<String> = links.iter().map(|link| without_session(link)).collect();
        let left_out = links.iter().filter(|link| has_unknown_query(link));
        Ok(Some(Looked {
            missing: self.ask(MISSING)?,
            asks_for_password: start.read.asks_for_password(),
            left_out: left_out.cloned().collect(),
            seen: self.follow_links(start, links)?,
        }))
    }

    fn ask(&mut self, path: &str) -> Result<Visited, ExperimentError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(ExperimentError::Interrupted);
        }
        self.fetches += 1;
        let mut request = Request::get(path);
        let host = self.host.iter().cloned();
        request.headers = host.map(|host| ("Host".to_owned(), host)).collect();
        self.testbed.visit(ARM, &request)
    }

    /// Asks the site from now on by its own name, where a redirect tells it. Whether it does.
    fn takes_name(&mut self, location: &str, path: &str, outcome: &mut VisitOutcome) -> bool {
        let name = own_host(location, path).or_else(|| known_host(location, path, self.hosts));
        let Some(name) = name.filter(|_| self.host.is_none()) else {
            return false;
        };
        outcome.told.push(format!(
            "GET {path} redirects to {name}, the site's own address; the scenario asks it by that name."
        ));
        self.site.learn([name.as_str()]);
        outcome.host = Some(name.clone());
        self.host = Some(name);
        true
    }

    /// The start page; where there is none under the lab's address, the one under the name that settings call the site's own:
    /// some answer to no other.
    fn arrive_at_start(
        &mut self,
        outcome: &mut VisitOutcome,
    ) -> Result<Option<Arrived>, ExperimentError> {
        let told = outcome.told.len();
        let start = self.arrive("/", outcome)?;
        let is_unknown = start.is_none() && self.host.is_none();
        let Some(name) = self.hosts.first().filter(|_| is_unknown) else {
            return Ok(start);
        };
        self.site.learn([name.as_str()]);
        self.host = Some(name.clone());
        let mut again = VisitOutcome::default();
        let start = self.arrive("/", &mut again)?;
        outcome.wants_tls |= again.wants_tls;
        if start.is_none() {
            self.host = None;
            return Ok(None);
        }
        outcome.failure = None;
        outcome.wants_tls = false;
        outcome.told.truncate(told);
        outcome.told.push(format!(
            "GET / answers with a page where it is asked for as {name}, which its settings call its own address; the scenario \
             asks it by that name."
        ));
        outcome.told.extend(again.told);
        outcome.host = Some(name.clone());
        Ok(start)
    }

    /// The start page at the end of its redirects. `None` where it is none to be measured; the outcome says why.
    fn arrive(
        &mut self,
        from: &str,
        outcome: &mut VisitOutcome,
    ) -> Result<Option<Arrived>, ExperimentError> {
        let mut path = from.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let visited = self.ask(&path)?;
            let status = visited.fetched.status;
            let Some(location) = visited.fetched.redirect() else {
                let read = visited.fetched.page();
                outcome.failure = self.failure(&path, &visited, &read)?;
                let arrived = Arrived {
                    path,
                    visited,
                    read,
                };
                return Ok(outcome.failure.is_none().then_some(arrived));
            };
            let Some(next) = self.site.path_of(location, &path) else {
                if self.takes_name(location, &path, outcome) {
                    continue;
                }
                outcome.failure = Some(format!(
                    "GET {path} redirects to {location} (status {status}), away from the lab's address: the application \
                     insists on its own. Make it take the address it is asked by (an [[app.file]] can)"
                ));
                return Ok(None);
            };
            if location.starts_with("https://") && is_same_page(&next, &path) {
                outcome.wants_tls = true;
                let or = match self.over_tls {
                    true => "; it does not go by HTTPS in [app.env]",
                    false => {
                        ", or set HTTPS = \"on\" in [app.env], which most take for a connection over TLS"
                    }
                };
                outcome.failure = Some(format!(
                    "GET {path} redirects to itself over https (status {status}), and the lab speaks http: have the application take \
                     http (an [[app.file]] can){or}"
                ));
                return Ok(None);
            }
            let kept = self.without_tokens(&path, &next)?;
            outcome.told.push(match kept == next {
                true => format!(
                    "GET {path} redirects to {next} (status {status}); the scenario asks for that."
                ),
                false => format!(
                    "GET {path} redirects to {next} (status {status}), with another query each time; the scenario asks for \
                     {kept}."
                ),
            });
            if is_installer(&next) {
                outcome.failure = Some(format!(
                    "GET {path} redirects to {next}, its installer: it does not find its data. Give its database a dump \
                     as `seed`, or install it first"
                ));
                return Ok(None);
            }
            path = kept;
        }
        outcome.failure = Some(format!(
            "GET {from} redirects more than {MOST_REDIRECTS} times, the last time to {path}"
        ));
        Ok(None)
    }

    /// Where a page redirects, without what is otherwise when it is asked for once more.
    fn without_tokens(&mut self, path: &str, next: &str) -> Result<String, ExperimentError> {
        if !next.contains('?') {
            return Ok(next.to_owned());
        }
        let visited = self.ask(path)?;
        let location = visited.fetched.redirect();
        let again = location.and_then(|location| self.site.path_of(location, path));
        let kept = again.map_or_else(|| next.to_owned(), |again| steady(next, &again));
        // A page that sends its visitor to itself with a token takes nobody without one.
        Ok(if kept == path { next.to_owned() } else { kept })
    }

    /// Why an answer is none to be measured.
    fn failure(
        &self,
        path: &str,
        visited: &Visited,
        read: &Read,
    ) -> Result<Option<String>, ExperimentError> {
        let status = visited.fetched.status;
        // A page about installing something leads to many others; an installer has its steps.
        let leads = read.links(path, |host| self.site.has(host)).len();
        let is_bare = status == 200 && (read.asks_for_password() || leads <= LINKS_OF_INSTALLER);
        let title = read.title.as_deref().filter(|_| is_bare);
        if let Some(installer) = title.and_then(|title| installer(path, title)) {
            return Ok(Some(installer));
        }
        let error = read.error();
        if status == 200 && error.is_none() {
            return Ok(None);
        }
        let says = error.unwrap_or_else(|| read.text.clone());
        let says = self.testbed.without_copy(ARM, &says)?;
        let logs = self.testbed.last_words(ARM)?;
        let says = match (says.is_empty(), logs.is_empty()) {
            (true, true) => "It says nothing".to_owned(),
            (true, false) => "It says nothing; the logs do:".to_owned(),
            (false, _) => format!("It says: {says}"),
        };
        Ok(Some(format!(
            "GET {path} answers with status {status}, and no page to be measured. {says}{logs}"
        )))
    }

    /// The start page and what it links to.
    fn follow_links(
        &mut self,
        start: Arrived,
        links: Vec<String>,
    ) -> Result<Vec<Seen>, ExperimentError> {
        let mut known = BTreeSet::from([start.path.clone()]);
        let mut seen = vec![Seen {
            path: start.path,
            body: start.visited.fetched.body,
        }];
        for link in links {
            if self.fetches >= MOST_FETCHES {
                break;
            }
            if !is_harmless(&link) || !known.insert(link.clone()) {
                continue;
            }
            if let Some(page) = self.follow(&link, &mut known)? {
                seen.push(page);
            }
        }
        Ok(seen)
    }

    /// The page that a link leads to, over one redirect; `None` where it is no page, or an error.
    fn follow(
        &mut self,
        link: &str,
        known: &mut BTreeSet<String>,
    ) -> Result<Option<Seen>, ExperimentError> {
        let (mut path, mut visited) = (link.to_owned(), self.ask(link)?);
        if let Some(location) = visited.fetched.redirect() {
            let Some(next) = self.site.path_of(location, link) else {
                return Ok(None);
            };
            let next = self.without_tokens(link, &next)?;
            if !is_harmless(&next) || !known.insert(next.clone()) {
                return Ok(None);
            }
            (visited, path) = (self.ask(&next)?, next);
        }
        let read = visited.fetched.page();
        let good = visited.fetched.status == 200 && read.is_html && read.error().is_none();
        Ok(good.then_some(Seen {
            path,
            body: visited.fetched.body,
        }))
    }

    /// Asks for a page some more times: what it takes, and whether what it is known by is there each time.
    fn measure(&mut self, page: &Seen, missing: &Fetched) -> Result<VisitPage, ExperimentError> {
        let own = mark(&page.body, Some(&missing.body));
        // Some applications show every path the same page, as one that asks everybody for a password does: that is no
        // error page, and its title still tells it from one.
        let shared = || mark(&page.body, None).filter(|_| missing.status == 200);
        let mut mark = own.or_else(shared);
        let (mut times_ms, mut php_ms) = (Vec::new(), Some(0.0));
        for _ in 0..ASKED {
            let visited = self.ask(&page.path)?;
            mark = mark.filter(|mark| visited.fetched.contains(mark));
            times_ms.push(visited.fetched.elapsed.as_secs_f64() * 1e3);
            php_ms = php_ms.zip(visited.php_ms).map(|(sum, ms)| sum + ms);
        }
        times_ms.sort_by(f64::total_cmp);
        Ok(VisitPage {
            path: page.path.clone(),
            mark,
            bytes: page.body.len(),
            time_ms: times_ms[ASKED / 2],
            php_ms: php_ms.map(|sum| sum / ASKED as f64),
        })
    }
}

/// Whether a page is a file that is sent without PHP: by its name, and since PHP did nothing for it. Its CPU time alone does
/// not say so: the kernel counts that of a short script as none.
fn is_a_file(page: &VisitPage) -> bool {
    let bare = page.path.split(['?', '#']).next().unwrap_or_default();
    let name = bare.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let is_sent =
        ending.is_some_and(|ending| STATIC.contains(&ending.to_ascii_lowercase().as_str()));
    is_sent && page.php_ms.is_some_and(|ms| ms < LEAST_PHP_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_for_which_php_did_nothing_is_a_file() {
        let page = |path: &str, php_ms| VisitPage {
            path: path.to_owned(),
            mark: None,
            bytes: 1,
            time_ms: 0.1,
            php_ms,
        };
        assert!(is_a_file(&page("/doc/manual.html", Some(0.0))));
        assert!(!is_a_file(&page("/doc/manual.html", Some(0.2))));
        assert!(
            !is_a_file(&page("/doc/manual.html", None)),
            "nobody could look"
        );
        assert!(
            !is_a_file(&page("/article.php?id=1.html", Some(0.0))),
            "too short to count"
        );
        assert!(!is_a_file(&page("/about", Some(0.0))));
    }
}
