//! Where a redirect leads, and which links are visited: pages of the same site that a visitor may look at without doing anything.

use kneepoint_load::resolve_link;
use kneepoint_stack::application::host_in_url;

/// Words of a path or query that do something, or that lead to what does.
const DOING: &[&str] = &[
    "logout",
    "log-out",
    "signout",
    "sign-out",
    "logoff",
    "delete",
    "remove",
    "destroy",
    "trash",
    "unsubscribe",
    "subscribe",
    "edit",
    "create",
    "update",
    "upload",
    "import",
    "export",
    "install",
    "setup",
    "upgrade",
    "migrate",
    "cron",
    "add-to-cart",
    "add_to_cart",
    "checkout",
    "vote",
    "print",
    "download",
    "revert",
    "purge",
    "reset",
    "new",
    "wp-admin",
    "wp-login",
    "wp-json",
    "xmlrpc",
    "register",
    "login",
    "signin",
    "sign-in",
    "signup",
    "sign-up",
    "password",
    "lostpassword",
    "forgot",
    "identification",
    "admin",
    "switch",
    "toggle",
    "rollback",
    "add",
    "save",
    "submit",
    "send",
    "clear",
];
/// Those of them that are not looked at even as a part of a word: `delete-all`, `deleteAll`. (`new-products` is a page.)
const UNDOING: &[&str] = &[
    "logout",
    "signout",
    "logoff",
    "delete",
    "remove",
    "destroy",
    "edit",
    "purge",
    "unsubscribe",
    "install",
    "login",
    "password",
    "forgot",
];
/// Names in a query that say what kind of page is asked for, where the query is what leads to it.
pub(super) const ROUTING: &[&str] = &[
    "route",
    "r",
    "path",
    "c",
    "a",
    "get",
    "controller",
    "action",
    "module",
    "option",
    "view",
];
/// Names in a query that only say what is looked at.
const READING: &[&str] = &[
    "p", "page", "paged", "cat", "category", "tag", "title", "q", "lang", "language", "sort",
    "order", "m", "author", "topic", "f", "t", "slug", "year", "month", "name", "post",
];
/// Names that end in `id` and carry a session, which is another one each time.
const SESSIONS: &[&str] = &["sid", "oscsid", "zenid"];
/// Shortest key by which a query names a session \[ours\]: PHP's own have at least 22 characters. `session=12` may be a talk.
const SHORTEST_KEY: usize = 16;
/// Ends of paths that are no pages.
const FILES: &[&str] = &[
    ".css", ".js", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".ico", ".pdf", ".zip", ".gz",
    ".xml", ".rss", ".json", ".txt", ".woff", ".woff2", ".mp3", ".mp4", "feed", "feed/", "/rss",
    "/atom",
];
/// Longest path that is visited, in bytes.
const LONGEST: usize = 500;

/// Whether a path with query of the site may be visited.
pub(super) fn is_harmless(path: &str) -> bool {
    let (bare, query) = path.split_once('?').unwrap_or((path, ""));
    may_be_asked(path) && is_page(bare) && only_reads(query)
}

/// Whether a path is not visited because of its query alone.
pub(super) fn has_unknown_query(path: &str) -> bool {
    let (bare, query) = path.split_once('?').unwrap_or((path, ""));
    may_be_asked(path) && is_page(bare) && !only_reads(query)
}

/// Braces would be a variable of the scenario.
fn may_be_asked(path: &str) -> bool {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic());
    path.len() <= LONGEST && is_plain && !path.contains("{{")
}

fn is_page(bare: &str) -> bool {
    let small = bare.to_ascii_lowercase();
    !FILES.iter().any(|end| small.ends_with(end)) && !does_something(bare)
}

/// Whether a query only says what is looked at.
fn only_reads(query: &str) -> bool {
    query.is_empty() || query.split('&').all(pair_reads)
}

fn pair_reads(pair: &str) -> bool {
    match pair.split_once('=') {
        // Where no rule of the server leads a path to the application, its query is the path.
        None if pair.starts_with('/') => is_page(pair),
        Some((name, value)) => is_reading(name) && !does_something(value),
        None => is_reading(pair),
    }
}

fn is_reading(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_id = name.ends_with("id") && !is_session(&name) && !does_something(&name);
    let lists = [READING, ROUTING];
    is_id || lists.iter().any(|list| list.contains(&name.as_str()))
}

/// Whether a name in small letters is that of a session.
fn is_session(name: &str) -> bool {
    SESSIONS.contains(&name) || name.contains("sess")
}

/// A link without the session that an application adds for a visitor who has no cookie yet, as phpBB does: it is another one each
/// time, and the page is the same.
pub(super) fn without_session(link: &str) -> String {
    let Some((bare, query)) = link.split_once('?') else {
        return link.to_owned();
    };
    let kept: Vec<&str> = query.split('&').filter(|pair| !has_session(pair)).collect();
    match kept.is_empty() {
        true => bare.to_owned(),
        false => format!("{bare}?{}", kept.join("&")),
    }
}

fn has_session(pair: &str) -> bool {
    let (name, key) = pair.split_once('=').unwrap_or((pair, ""));
    let is_key = |c: char| c.is_ascii_alphanumeric() || ",-".contains(c);
    is_session(&name.to_ascii_lowercase()) && key.len() >= SHORTEST_KEY && key.chars().all(is_key)
}

/// Whether one of the words of a path or of a value does something: `edit` in `/wiki/edit/1` and in `editPage`, not in
/// `/credits`.
pub(super) fn does_something(text: &str) -> bool {
    let text = decoded(text);
    let mut words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
    words.any(|word| {
        let (small, parted) = (word.to_ascii_lowercase(), with_hyphens(word));
        let mut parts = parted.split(['-', '_']);
        let whole = [small.as_str(), parted.as_str()];
        whole.iter().any(|word| DOING.contains(word)) || parts.any(|part| UNDOING.contains(&part))
    })
}

/// A text with what is percent-encoded in it as it is meant, as far as it is ASCII: `site%2Flogin` are two words.
fn decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut decoded = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let byte = piece.get(..2).map(|hex| u8::from_str_radix(hex, 16));
        if let Some(Ok(byte)) = byte {
            decoded.push(char::from(byte));
            decoded.push_str(&piece[2..]);
        } else {
            decoded.push('%');
            decoded.push_str(piece);
        }
    }
    decoded
}

/// A word in small letters, and a hyphen where a capital follows a small letter.
fn with_hyphens(word: &str) -> String {
    let mut hyphened = String::new();
    let mut after_small = false;
    for c in word.chars() {
        if after_small && c.is_ascii_uppercase() {
            hyphened.push('-');
        }
        after_small = c.is_ascii_lowercase();
        hyphened.push(c.to_ascii_lowercase());
    }
    hyphened
}

/// The hosts that are the site's, in small letters. An application may write the port it listens on behind one, or leave it
/// away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Site {
    hosts: Vec<String>,
}

impl Site {
    /// The site that is asked by this host.
    pub(super) fn new(host: &str) -> Self {
        Self {
            hosts: vec![host_name(host)],
        }
    }

    /// Takes more hosts for the site's: those that its start page or its settings say are its own.
    pub(super) fn learn<'h>(&mut self, hosts: impl IntoIterator<Item = &'h str>) {
        self.hosts.extend(hosts.into_iter().map(host_name));
    }

    pub(super) fn has(&self, host: &str) -> bool {
        self.hosts.contains(&host_name(host))
    }

    /// The path of a link or a redirect that stays on the site; fragments are cut off. `page` is the path that was asked for.
    pub(super) fn path_of(&self, link: &str, page: &str) -> Option<String> {
        resolve_link(link, page, |host| self.has(host))
    }
}

/// The host of a redirect that leads from a page to the same one elsewhere: the site's own name, by which it wants to be asked.
pub(super) fn own_host(location: &str, page: &str) -> Option<String> {
    let (scheme, rest) = location.split_once("//")?;
    let host = host_in_url(rest)?;
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
    let is_host = !host.is_empty() && host.chars().all(fits);
    let is_scheme = ["http:", "https:", ""].contains(&scheme);
    let there = resolve_link(location, page, |_| true)?;
    (is_host && is_scheme && is_same_page(&there, page)).then(|| host.to_owned())
}

/// The host of a redirect where it is one of these: those that settings call the site's own.
pub(super) fn known_host(location: &str, page: &str, hosts: &[String]) -> Option<String> {
    let leads_there = |host: &&String| Site::new(host).path_of(location, page).is_some();
    hosts.iter().find(leads_there).cloned()
}

/// Whether two paths lead to one page: with the name of the front controller and an empty query, or without.
pub(super) fn is_same_page(one: &str, other: &str) -> bool {
    let start = |path: &str| {
        let path = path.strip_suffix('?').unwrap_or(path);
        path.strip_suffix("index.php").unwrap_or(path).to_owned()
    };
    start(one) == start(other)
}

/// A host without its port.
fn host_name(host: &str) -> String {
    let is_port = |end: &str| end.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, end)) if is_port(end) => name,
        _ => host,
    };
    name.to_ascii_lowercase()
}

/// Where a redirect leads without the pairs of its query that `again`, another answer to the same request, has not: a token
/// is another one each time, and nobody would be sent to the first one again.
pub(super) fn steady(path: &str, again: &str) -> String {
    let (bare, query) = path.split_once('?').unwrap_or((path, ""));
    let (bare_again, query_again) = again.split_once('?').unwrap_or((again, ""));
    if bare != bare_again {
        return path.to_owned();
    }
    let known: Vec<&str> = query_again.split('&').collect();
    let kept = query.split('&').filter(|pair| known.contains(pair));
    match kept.collect::<Vec<_>>().join("&").as_str() {
        "" => bare.to_owned(),
        kept => format!("{bare}?{kept}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(link: &str, expected: Option<&str>) {
        let mut site = Site::new("10.1.2.3");
        site.learn(["Shop.test:8080"]);
        let found = site.path_of(link, "/shop/index.php?x=1");
        let found = found.filter(|path| is_harmless(path));
        assert_eq!(found.as_deref(), expected, "{link}");
    }

    #[test]
    fn pages_of_the_same_site_are_visited() {
        check("/a", Some("/a"));
        check("b.php", Some("/shop/b.php"));
        check("./b?id=2#top", Some("/shop/b?id=2"));
        check("../c/", Some("/c/"));
        check("?page=2", Some("/shop/index.php?page=2"));
        check("http://10.1.2.3:8080/d", Some("/d"));
        check("//10.1.2.3", Some("/"));
        check(
            "/index.php?title=Main_Page",
            Some("/index.php?title=Main_Page"),
        );
        check("/credits", Some("/credits"));
        check("/new-products/", Some("/new-products/"));
        check("https://shop.test/d?id=1", Some("/d?id=1"));
    }

    #[test]
    fn a_query_that_leads_to_a_page_is_visited() {
        check("./?get=f_1", Some("/shop/?get=f_1"));
        check("?c=tag", Some("/shop/index.php?c=tag"));
        for link in [
            "/index.php?route=product&id=1",
            "/?route=product/product&product_id=40",
            "/?route=about",
            "/?r=site%2Fabout",
            "/?a=normal",
            "/index.php?/categories",
            "/?option=com_content&view=article&Itemid=2",
        ] {
            check(link, Some(link));
        }
    }

    #[test]
    fn a_query_that_does_something_is_not_visited() {
        for link in [
            "/?route=account/login",
            "/?r=site%2Flogin",
            "/?action=deletePost&id=1",
            "/?c=post&a=delete_all",
            "/index.php?/identification",
            "/index.php?/feed",
            "/?delete_id=5",
            "/?sid=0123456789abcdef",
            "/?PHPSESSID=0123456789abcdef",
        ] {
            check(link, None);
            assert!(has_unknown_query(link), "{link}");
        }
        for link in ["/?route=about", "/logout?do=x", "/style.css?v=1", "/about"] {
            assert!(!has_unknown_query(link), "{link}");
        }
    }

    #[test]
    fn a_session_in_a_link_is_left_out_and_nothing_else_is() {
        let sid = "0123456789abcdef0123456789abcdef";
        let check = |link: &str, expected: &str| {
            assert_eq!(without_session(&link.replace("KEY", sid)), expected);
        };
        check("/viewforum.php?f=2&sid=KEY", "/viewforum.php?f=2");
        check("/viewtopic.php?sid=KEY&t=3", "/viewtopic.php?t=3");
        check("/?PHPSESSID=KEY", "/");
        for link in ["/talks?session=12", "/a?id=1&b=2", "/?", "/about"] {
            check(link, link);
        }
    }

    #[test]
    fn a_redirect_to_the_same_page_elsewhere_tells_the_sites_own_name() {
        let check = |location: &str, page: &str, expected: Option<&str>| {
            assert_eq!(own_host(location, page).as_deref(), expected, "{location}");
        };
        check("https://shop.test/", "/", Some("shop.test"));
        check("http://shop.test:8080", "/", Some("shop.test:8080"));
        check("//www.shop.test/a?b=1", "/a?b=1", Some("www.shop.test"));
        check("http://shop.test/index.php?", "/", Some("shop.test"));
        check("https://login.test/oauth?next=1", "/", None);
        check("https://u:p@shop.test/", "/", Some("shop.test"));
        check("https://${SITE}/", "/", None);
        check("/index.php", "/", None);
        check("ftp://shop.test/", "/", None);
    }

    #[test]
    fn a_redirect_to_another_page_of_an_address_that_settings_name_tells_it() {
        let hosts = ["api.test".to_owned(), "wiki.test:8080".to_owned()];
        let known = |location: &str| known_host(location, "/", &hosts);
        assert_eq!(
            known("https://wiki.test/login").as_deref(),
            Some("wiki.test:8080")
        );
        assert_eq!(known("https://login.test/oauth"), None);
    }

    #[test]
    fn a_token_of_a_redirect_is_left_out() {
        let check = |path: &str, again: &str, expected: &str| {
            assert_eq!(steady(path, again), expected);
        };
        check("/i/?rid=6b0c", "/i/?rid=77aa", "/i/");
        check("/a?x=1&t=6b0c&y=2", "/a?x=1&t=77aa&y=2", "/a?x=1&y=2");
        check("/a?x=1", "/a?x=1", "/a?x=1");
        check("/a?x=1", "/b?x=2", "/a?x=1");
        check("/a", "/a", "/a");
    }

    #[test]
    fn what_does_something_or_leads_elsewhere_is_not() {
        for link in [
            "https://example.com/",
            "mailto:a@b",
            "javascript:void(0)",
            "/logout",
            "/posts/1/delete",
            "/index.php?title=A&action=edit",
            "/doku.php?do=login",
            "/?add-to-cart=3",
            "/style.css",
            "/feed/",
            "/wp-admin/",
            "/ä b",
            "/{{x}}",
            "/item/edit-title",
            "/identification.php",
            "/password.php",
            "/my-account/lost-password/",
            "/forgot_password",
            "/signin",
            "/sign-up",
            "/index.php/Special:UserLogin",
            "http://shop.test.example.com/",
        ] {
            check(link, None);
        }
    }
}
