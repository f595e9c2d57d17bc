//! A response body as a person reads it: its title, its sentences, where it leads, and whether it speaks of an error.

mod errors;
mod links;
mod marks;
mod read;
mod words;

pub use errors::ErrorPage;
pub use links::resolve as resolve_link;

/// Most characters of [`Page::text`].
const SHOWN_CHARS: usize = 400;

/// A paragraph, a heading, a cell: text that stands by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Block {
    text: String,
    heading: bool,
}

/// What a person reads on a page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The text of `<title>`, entities decoded and white space folded; `None` without one, or where it is empty.
    pub title: Option<String>,
    /// The first sentences: without tags, scripts and styles, entities decoded, white space folded, at most 400
    /// characters.
    pub text: String,
    /// Length of the body in bytes, as it was given.
    pub size_bytes: usize,
    /// Whether it is HTML.
    pub is_html: bool,
    /// The first texts, as far as they are kept.
    blocks: Vec<Block>,
    /// The last text of all: PHP's last words stand there.
    last: String,
    /// Characters of all texts together, those that are not kept included.
    chars: usize,
    /// Where its links lead, as written.
    hrefs: Vec<String>,
    /// What its links begin from, as written: `<base href>`.
    base: Option<String>,
    /// Its own address, as written: its canonical link and `og:url`.
    own: Vec<String>,
    /// Whether it has a field for a password.
    has_password: bool,
    /// Whether the body says of itself that it is WordPress's error page, in whatever language.
    dies: bool,
}

impl Page {
    /// Reads a body. Without a content type, what begins with a tag is HTML. Any bytes are read: what is not UTF-8 is
    /// replaced, and a body that is neither HTML nor text has no text.
    #[must_use]
    pub fn read(body: &[u8], content_type: Option<&str>) -> Self {
        let mut page = match kind(body, content_type) {
            Kind::Html => read::html(body),
            Kind::Text => read::plain(body),
            Kind::Other => Self::default(),
        };
        page.size_bytes = body.len();
        page.text = shown(page.blocks.iter(), SHOWN_CHARS);
        page
    }

    /// What it speaks of when it looks like an error, in its own words; `None` for a page like others. What looks so,
    /// [`ErrorPage`] tells.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        self.error_page().map(|error| error.sentence)
    }

    /// The same, with the application whose error pages look so.
    #[must_use]
    pub fn error_page(&self) -> Option<ErrorPage> {
        errors::find(self)
    }

    /// Where its links lead on the same site: paths with their queries, each once, in the order of the page. `path` is
    /// the page's own, which relative links begin from unless the page says otherwise, and `is_site` judges the host of an
    /// absolute link, with its port.
    #[must_use]
    pub fn links(&self, path: &str, is_site: impl Fn(&str) -> bool) -> Vec<String> {
        let base = self.base.as_deref();
        let base = base.and_then(|base| links::resolve(base, path, &is_site));
        links::same_site(&self.hrefs, base.as_deref().unwrap_or(path), is_site)
    }

    /// The hosts that it says are its site's, with their ports: those of `<base href>`, its canonical link and `og:url`.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        let own = self.base.iter().chain(&self.own);
        own.filter_map(|link| links::host(link)).collect()
    }

    /// Whether it has a field for a password.
    #[must_use]
    pub fn asks_for_password(&self) -> bool {
        self.has_password
    }

    /// Texts of the body by which the page is known again, the most telling first: what of its title stands in the body
    /// as it is and is no number. `body` is the one it was read from.
    #[must_use]
    pub fn marks(&self, body: &[u8]) -> Vec<String> {
        let title = self.title.iter();
        title.flat_map(|title| marks::of(title, body)).collect()
    }

    /// `My blog`, or the first words where it has no title, quoted; `an empty body` where there are none.
    #[must_use]
    pub fn name(&self) -> String {
        const WORDS: usize = 60;
        match &self.title {
            Some(title) => format!("`{}`", cut(title, WORDS)),
            None if !self.text.is_empty() => format!("\"{}\"", cut(&self.text, WORDS)),
            None if self.size_bytes == 0 => "an empty body".to_owned(),
            None => "no text".to_owned(),
        }
    }
}

enum Kind {
    Html,
    Text,
    Other,
}

fn kind(body: &[u8], content_type: Option<&str>) -> Kind {
    let named = content_type.unwrap_or_default().to_ascii_lowercase();
    let starts_with_tag = body.trim_ascii_start().first() == Some(&b'<');
    let text = ["text/", "json", "xml"];
    match named.as_str() {
        html if html.contains("html") => Kind::Html,
        "" if starts_with_tag => Kind::Html,
        "" => Kind::Text,
        other if text.iter().any(|part| other.contains(part)) => Kind::Text,
        _ => Kind::Other,
    }
}

/// Texts in a row, cut behind a word.
fn shown<'b>(blocks: impl Iterator<Item = &'b Block>, chars: usize) -> String {
    let mut all = String::new();
    for block in blocks {
        if all.len() > 4 * chars {
            break;
        }
        if !all.is_empty() {
            // A heading has no full stop of its own.
            all.push_str(if all.ends_with(is_end) { " " } else { ". " });
        }
        all.push_str(&block.text);
    }
    cut(&all, chars)
}

fn is_end(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | ':' | ',' | ';' | '\u{2026}')
}

/// At most so many characters of a text, cut behind a word where there is one.
fn cut(text: &str, chars: usize) -> String {
    let Some((at, _)) = text.char_indices().nth(chars) else {
        return text.to_owned();
    };
    let head = &text[..at];
    let whole = head.rfind(' ').filter(|space| *space > at / 2);
    format!("{}\u{2026}", head[..whole.unwrap_or(at)].trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(body: &str, content_type: Option<&str>, expected: Expect) {
        let page = Page::read(body.as_bytes(), content_type);
        assert_eq!(page.size_bytes, body.len());
        expected.assert_eq(&format!(
            "{:?} {}\n{}",
            page.title,
            if page.is_html { "html" } else { "other" },
            page.text
        ));
    }

    #[test]
    fn a_person_reads_no_tags_scripts_and_styles() {
        check(
            "<!doctype html><html><head><title>\n Tom &amp; Jerry&#8217;s\n</title><style type=\"text/css\">p{color:red}\
             </style><script>if (a<b) document.write('<p>no</p>')</script></head><body><!-- hidden --><h1>News</h1>\
             <p>It <b>rain</b>s.<br>A&nbsp;lot.</p><noscript><p>Switch it on</p></noscript><ul><li>one<li>two</ul>\
             <template>x</template><svg><title>an icon</title></svg></body></html>",
            Some("text/html; charset=UTF-8"),
            expect![[r#"
                Some("Tom & Jerry’s") html
                News. It rains. A lot. one. two"#]],
        );
    }

    #[test]
    fn what_is_no_html_has_no_title() {
        let json = "{\"title\": \"<title>x</title>\"}\n\n";
        check(
            json,
            Some("application/json"),
            expect![[r#"
                None other
                {"title": "<title>x</title>"}"#]],
        );
        check(
            "\u{1}PNG",
            Some("image/png"),
            expect![[r#"
                None other
            "#]],
        );
        check(
            " <html><title></title>Hi",
            None,
            expect![[r#"
                None html
                Hi"#]],
        );
        check(
            "visits 12",
            None,
            expect![[r#"
                None other
                visits 12"#]],
        );
    }

    #[test]
    fn a_long_page_is_cut_behind_a_word() {
        let long = format!("<p>{}</p><p>end</p>", "word ".repeat(5000));
        let page = Page::read(long.as_bytes(), Some("text/html"));
        assert_eq!(page.text.chars().count(), SHOWN_CHARS);
        assert!(page.text.ends_with("word\u{2026}"), "{}", page.text);
        assert_eq!(page.chars, 25_002);
        assert_eq!(page.last, "end");
    }

    #[test]
    fn a_field_for_a_password_is_seen_however_it_is_written() {
        for (body, expected) in [
            ("<input type=\"password\" name=p>", true),
            ("<input name=p type='Password'>", true),
            ("<input type=password>", true),
            ("<input type=text name=password>", false),
            ("<script>'<input type=password>'</script>", false),
        ] {
            let page = Page::read(body.as_bytes(), Some("text/html"));
            assert_eq!(page.asks_for_password(), expected, "{body}");
        }
    }

    #[test]
    fn a_page_is_called_by_its_title_or_its_first_words() {
        let name = |body: &str| Page::read(body.as_bytes(), None).name();
        assert_eq!(name("<title>My blog</title><p>Hi"), "`My blog`");
        assert_eq!(name("visits 12"), "\"visits 12\"");
        assert_eq!(name(""), "an empty body");
        assert_eq!(name("<p></p>"), "no text");
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(
            body in proptest::collection::vec(any::<u8>(), 0..400),
            html in any::<bool>(),
        ) {
            let page = Page::read(&body, html.then_some("text/html"));
            prop_assert_eq!(page.size_bytes, body.len());
            prop_assert!(page.text.chars().count() <= SHOWN_CHARS + 1);
            let _ = (page.error(), page.links("/a/b", |_| true), page.name());
        }

        #[test]
        fn no_tags_are_too_strange(
            pieces in proptest::collection::vec(
                prop::sample::select(vec![
                    "<", ">", "<p", "</", "title", "<title>", "</title>", "<script>", "</script>", "<a href=", "\"", "'",
                    "../", "//", "?", "#", "http:", "&", "&amp", ";", "&#x110000;", "<h1>", "<body id=error-page>", "<svg>",
                    "Fatal error:", " on line ", "Index of /", "<!--", "-->", "\u{e4}", "\u{130}", " ",
                ]),
                0..60,
            ),
        ) {
            let body = pieces.concat();
            let page = Page::read(body.as_bytes(), Some("text/html"));
            let _ = (page.error(), page.links("", str::is_empty), page.name());
        }
    }
}
