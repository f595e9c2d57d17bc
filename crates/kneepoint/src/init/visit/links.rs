//! Where a redirect leads, and which links are visited: pages of the same site that a visitor may look at without doing anything.

use kneepoint_load::resolve_link;

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
    "admin",
    "switch",
    "toggle",
    "rollback",
];
/// Those of them that are not looked at even as a part of a word: `delete-all`. (`new-products` is a page.)
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
];
/// Names in a query that only say what is looked at.
const READING: &[&str] = &[
    "p", "page", "page_id", "paged", "id", "cat", "category", "tag", "title", "q", "lang", "view",
    "sort", "order", "m", "author", "topic", "f", "t", "slug", "year", "month", "name", "post",
];
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
    let small = bare.to_ascii_lowercase();
    let is_file = FILES.iter().any(|end| small.ends_with(end));
    let reads = query.is_empty() || query.split('&').all(only_reads);
    let fits = path.len() <= LONGEST && path.bytes().all(|byte| byte.is_ascii_graphic());
    // Braces would be a variable of the scenario.
    fits && !is_file && reads && !does_something(&small) && !path.contains("{{")
}

/// Whether one of a path's words does something: `edit` in `/wiki/edit/1`, not in `/credits`.
fn does_something(path: &str) -> bool {
    let mut words = path.split(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
    words.any(|word| {
        let mut parts = word.split(['-', '_']);
        DOING.contains(&word) || parts.any(|part| UNDOING.contains(&part))
    })
}

fn only_reads(pair: &str) -> bool {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let name = name.to_ascii_lowercase();
    READING.contains(&name.as_str()) && !does_something(&value.to_ascii_lowercase())
}

/// The path of a redirect that stays on the site; fragments are cut off. `host` is how the site was asked, and `page` the
/// path that was asked for. An application may write the port it listens on behind the host, or leave it away.
pub(super) fn within_site(link: &str, page: &str, host: &str) -> Option<String> {
    let name = |host: &str| host.split(':').next().unwrap_or_default().to_owned();
    resolve_link(link, page, |there| name(there) == name(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(link: &str, expected: Option<&str>) {
        let found = within_site(link, "/shop/index.php?x=1", "10.1.2.3");
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
        ] {
            check(link, None);
        }
    }
}
