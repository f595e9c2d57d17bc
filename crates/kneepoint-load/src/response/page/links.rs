//! Where the links of a page lead, as far as it is the same site.

/// Longest path that is taken: what is longer is no page that a person asks for.
const LONGEST: usize = 500;

/// The paths with their queries, each once.
pub(super) fn same_site(
    hrefs: &[String],
    path: &str,
    is_site: impl Fn(&str) -> bool,
) -> Vec<String> {
    let visible = |c: char| !c.is_control() && c != ' ';
    let hrefs = hrefs.iter().map(|href| href.trim());
    let hrefs = hrefs.filter(|href| href.chars().all(visible));
    let mut links: Vec<String> = Vec::new();
    for link in hrefs.filter_map(|href| resolve(href, path, &is_site)) {
        if link.len() <= LONGEST && !links.contains(&link) {
            links.push(link);
        }
    }
    links
}

/// What a link or a redirect asks the same site for: path and query, without a fragment (RFC 3986, section 5.2, without a base
/// of another scheme). `path` is the page's own, which relative links begin from; `is_site` judges the host of an absolute one,
/// with its port. `None` where it leads elsewhere.
pub fn resolve(href: &str, path: &str, is_site: impl Fn(&str) -> bool) -> Option<String> {
    let href = href.split('#').next().unwrap_or_default();
    if href.is_empty() {
        return None;
    }
    let own = path.split('?').next().unwrap_or_default();
    if let Some(rest) = without_scheme(href) {
        let local = on_host(rest?, is_site)?;
        let root = if local.starts_with('/') { "" } else { "/" };
        return Some(without_dots(&format!("{root}{local}")));
    }
    if href.starts_with('?') {
        let own = if own.is_empty() { "/" } else { own };
        return Some(format!("{own}{href}"));
    }
    if href.starts_with('/') {
        return Some(without_dots(href));
    }
    let folder = own.rfind('/').map_or("/", |at| &own[..=at]);
    Some(without_dots(&format!("{folder}{href}")))
}

/// The host of an absolute link, with its port.
pub(super) fn host(link: &str) -> Option<&str> {
    let rest = without_scheme(link.trim())??.strip_prefix("//")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    Some(&rest[..end]).filter(|host| !host.is_empty())
}

/// What follows the scheme of an absolute link; `None` for a link without one, `Some(None)` for one that no browser
/// fetches a page by.
fn without_scheme(href: &str) -> Option<Option<&str>> {
    if href.starts_with("//") {
        return Some(Some(href));
    }
    let (scheme, rest) = href.split_once(':')?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    let fetched = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    is_scheme.then_some((fetched && rest.starts_with("//")).then_some(rest))
}

/// The path behind `//host`, where that host is the site's.
fn on_host(rest: &str, is_site: impl Fn(&str) -> bool) -> Option<&str> {
    let rest = rest.strip_prefix("//")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    is_site(&rest[..end]).then_some(&rest[end..])
}

/// A path without `.` and `..`.
fn without_dots(link: &str) -> String {
    let (path, query) = match link.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (link, None),
    };
    let mut parts: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (index, segment) in segments.iter().enumerate() {
        let last = index + 1 == segments.len();
        match *segment {
            "." => {}
            ".." => {
                parts.pop();
            }
            other => {
                parts.push(other);
                continue;
            }
        }
        if last {
            parts.push("");
        }
    }
    let mut resolved = format!("/{}", parts.join("/"));
    if let Some(query) = query {
        resolved.push('?');
        resolved.push_str(query);
    }
    resolved
}

#[cfg(test)]
mod tests {
    use crate::response::page::Page;

    #[track_caller]
    fn check(href: &str, expected: Option<&str>) {
        let body = format!("<a href=\"{href}\">x</a>");
        let page = Page::read(body.as_bytes(), Some("text/html"));
        let is_site = |host: &str| host.eq_ignore_ascii_case("Example.org:8080");
        let links = page.links("/blog/2024/post?p=1", is_site);
        let expected: Vec<&str> = expected.into_iter().collect();
        assert_eq!(links, expected, "{href}");
    }

    #[test]
    fn links_of_the_same_site_are_paths() {
        check("/about", Some("/about"));
        check("/about?a=1&amp;b=2#top", Some("/about?a=1&b=2"));
        check("other", Some("/blog/2024/other"));
        check("./other/", Some("/blog/2024/other/"));
        check("../", Some("/blog/"));
        check("../../../../x", Some("/x"));
        check("?p=2", Some("/blog/2024/post?p=2"));
        check("http://example.org:8080/x", Some("/x"));
        check("//example.org:8080", Some("/"));
        check("HTTPS://EXAMPLE.ORG:8080?a", Some("/?a"));
        check("Special:Random", None);
        check("/wiki/Special:Random", Some("/wiki/Special:Random"));
    }

    #[test]
    fn other_sites_and_what_is_no_page_are_left_out() {
        for href in [
            "http://example.org/x",
            "//elsewhere.org/",
            "mailto:a@b.c",
            "javascript:void(0)",
            "tel:1",
            "#top",
            "",
            "http:x",
        ] {
            check(href, None);
        }
    }

    #[test]
    fn each_link_comes_once_in_the_order_of_the_page() {
        let page = Page::read(
            b"<a href='/b'>1</a><a href='/a'>2</a><a name=x>3</a><a href='/b#c'>4</a>",
            Some("text/html"),
        );
        assert_eq!(page.links("/", |_| false), ["/b", "/a"]);
    }

    #[test]
    fn a_page_says_which_hosts_are_its_sites_and_where_its_links_begin() {
        let page = Page::read(
            b"<base href='http://shop.test/en/'><link rel=stylesheet href='//cdn.test/a.css'>\
              <link rel=Canonical href='https://www.shop.test/?a'><link rel=canonical href='/a'>\
              <meta property='og:url' content='//shop.test:8080'><meta property='og:image' content='//img.test/'>\
              <a href='http://shop.test/index.php?a=1&amp;b=2'>1</a><a href='news'>2</a><a href='//cdn.test/x'>3</a>",
            Some("text/html"),
        );
        let hosts = page.hosts();
        assert_eq!(hosts, ["shop.test", "www.shop.test", "shop.test:8080"]);
        let links = page.links("/start", |host| hosts.contains(&host));
        assert_eq!(links, ["/index.php?a=1&b=2", "/en/news"]);
        let away = page.links("/start", |_| false);
        assert_eq!(away, ["/news"], "its base is nobody's that is known");
    }
}
