//! Pages that are no pages: what PHP, servers and applications answer with when something is wrong, as they word it.
//!
//! A page is one of them by what it says and by how it stands there. Error pages are short, or have their words as their
//! title or at their very beginning; an article that speaks of an error has much else around it. Translated pages are not
//! known, but WordPress's, which carries a mark.

use super::words::{KNOWN, Place};
use super::{Block, Page, cut, shown};

/// Most characters of what an error page is quoted with.
const SENTENCE_CHARS: usize = 240;
/// Characters of text up to which a page is short: one of error pages with their explanations, seldom one of others
/// \[ours\].
const SHORT_CHARS: usize = 1500;
/// The same for words that may stand anywhere \[ours\].
const VERY_SHORT_CHARS: usize = 600;
/// Longest heading before a sentence that says more.
const HEADING_CHARS: usize = 60;

/// A page that speaks of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorPage {
    /// Whose error pages look so: `WordPress`; `an application` where many word it so.
    pub of: &'static str,
    /// What it says, at most 240 characters.
    pub sentence: String,
}

/// What PHP itself calls a message that is an error, and those after which a page still comes.
const FATAL: [&str; 5] = [
    "fatal error:",
    "parse error:",
    "php fatal error:",
    "php parse error:",
    "uncaught ",
];
const WARNING: [&str; 3] = ["warning:", "php warning:", "recoverable fatal error:"];

/// What the page speaks of when it is an error.
pub(super) fn find(page: &Page) -> Option<ErrorPage> {
    let php = || of_php(page).map(|text| error("PHP", cut(text, SENTENCE_CHARS)));
    let dies = || page.dies.then(|| error("WordPress", whole(page)));
    php().or_else(|| of_application(page)).or_else(dies)
}

fn error(of: &'static str, sentence: String) -> ErrorPage {
    ErrorPage { of, sentence }
}

/// A message of PHP's own: with its line, or alone on a short page. Its last words end a page, warnings begin it.
fn of_php(page: &Page) -> Option<&str> {
    let says = |text: &str, kinds: &[&str]| {
        let text = lower(text);
        let placed = text.contains(" on line ") || text.contains(".php:");
        placed && kinds.iter().any(|kind| text.starts_with(kind))
    };
    let first = page.blocks.first().map(|block| block.text.as_str());
    let fatal = [first, Some(page.last.as_str())]
        .into_iter()
        .flatten()
        .find(|text| says(text, &FATAL));
    let warning = || first.filter(|text| says(text, &WARNING));
    let short = || {
        let blocks = page.blocks.iter().filter(|_| page.chars <= SHORT_CHARS);
        blocks
            .map(|block| block.text.as_str())
            .find(|text| says(text, &FATAL))
    };
    fatal.or_else(warning).or_else(short)
}

fn of_application(page: &Page) -> Option<ErrorPage> {
    let texts = Texts {
        page,
        title: page.title.as_deref().map(lower),
        blocks: page.blocks.iter().map(|block| lower(&block.text)).collect(),
    };
    KNOWN.iter().find_map(|known| {
        let mut words = known.words.iter();
        let sentence = words.find_map(|words| texts.sentence(known.place, &lower(words)))?;
        Some(error(known.of, sentence))
    })
}

/// The texts of a page in lower case.
struct Texts<'p> {
    page: &'p Page,
    title: Option<String>,
    blocks: Vec<String>,
}

impl Texts<'_> {
    /// What the page says where the words stand as they do on an error page.
    fn sentence(&self, place: Place, words: &str) -> Option<String> {
        let title = self.title.as_deref().unwrap_or_default();
        let of_title = |fits: bool| fits.then(|| whole(self.page));
        match place {
            Place::Alone => match self.blocks.as_slice() {
                [only] if only == words => Some(self.from(0)),
                _ => None,
            },
            Place::TitleBegins => of_title(title.starts_with(words)),
            Place::TitleEnds => of_title(title.ends_with(words)),
            Place::Opens => self.beginning(title, words, 1),
            Place::Begins => self.beginning(title, words, usize::MAX),
            Place::Within if self.page.chars > VERY_SHORT_CHARS => None,
            Place::Within => {
                let at = self.blocks.iter().position(|text| text.contains(words));
                at.map(|at| self.from(at))
            }
            Place::Bare => match self.blocks.as_slice() {
                [only] if self.is_bare() && self.page.chars <= SENTENCE_CHARS => {
                    only.contains(words).then(|| self.from(0))
                }
                _ => None,
            },
            Place::Leads => {
                let first = self.blocks.first().filter(|_| self.is_bare());
                first
                    .filter(|text| text.starts_with(words))
                    .map(|_| self.from(0))
            }
            Place::Title => {
                let says = (1..=SHORT_CHARS).contains(&self.page.chars);
                of_title(title == words && says)
            }
        }
    }

    /// Whether the page has neither a title nor a link.
    fn is_bare(&self) -> bool {
        self.title.is_none() && self.page.hrefs.is_empty()
    }

    /// Looks at the title and at the first texts: at so many on a short page, at one on another.
    fn beginning(&self, title: &str, words: &str, texts: usize) -> Option<String> {
        let short = self.page.chars <= SHORT_CHARS;
        let fits = |text: &str| match short {
            true => begins(text, words),
            false => text.trim_end_matches(['.', '!', ':']) == words.trim_end_matches('!'),
        };
        let seen = if short { texts } else { 1 };
        let at = self.blocks.iter().take(seen).position(|text| fits(text));
        match at {
            Some(at) => Some(self.from(at)),
            None => fits(title).then(|| whole(self.page)),
        }
    }

    /// A text, and what follows it where it is no more than a heading.
    fn from(&self, at: usize) -> String {
        let blocks = &self.page.blocks[at..];
        let heads = |block: &&Block| block.heading || block.text.chars().count() <= HEADING_CHARS;
        let heads = blocks.iter().take_while(heads).take(2).count();
        shown(blocks.iter().take(heads + 1), SENTENCE_CHARS)
    }
}

/// Whether a text begins with whole words.
fn begins(text: &str, words: &str) -> bool {
    let whole = !words.ends_with(char::is_alphanumeric);
    let rest = text.strip_prefix(words);
    rest.is_some_and(|rest| whole || !rest.starts_with(char::is_alphanumeric))
}

/// The title of a page and its first texts.
fn whole(page: &Page) -> String {
    let title = page.title.iter().map(|title| Block {
        text: title.clone(),
        heading: true,
    });
    let title: Vec<Block> = title.collect();
    let told = page
        .blocks
        .iter()
        .filter(|block| Some(&block.text) != page.title.as_ref());
    shown(title.iter().chain(told), SENTENCE_CHARS)
}

/// A text in lower case, with the quotes that people write as typesetters do folded to those on keyboards.
fn lower(text: &str) -> String {
    text.to_lowercase().replace(['\u{2019}', '\u{2018}'], "'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check(body: &str, expected: Expect) {
        let kind = body.contains('<').then_some("text/html");
        let error = Page::read(body.as_bytes(), kind.or(Some("text/plain"))).error_page();
        let told = error.map_or_else(
            || "a page".to_owned(),
            |error| format!("{}: {}", error.of, error.sentence),
        );
        expected.assert_eq(&told);
    }

    #[test]
    fn wordpress_says_what_is_wrong_behind_its_styles() {
        check(
            &format!(
                "<!DOCTYPE html><html><head><title>Database Error</title><style type=\"text/css\">{}</style></head>\
                 <body id=\"error-page\"><div class=\"wp-die-message\"><h1>Error establishing a database connection</h1>\n\
                 <p>This either means that the username and password information in your <code>wp-config.php</code> file \
                 is incorrect.</p></div></body></html>",
                "html { background: #f1f1f1; } ".repeat(200)
            ),
            expect![
                "WordPress: Error establishing a database connection. This either means that the username and password information in your wp-config.php file is incorrect."
            ],
        );
        check(
            "<title>WordPress &rsaquo; Fehler</title><body id=\"error-page\"><p>Es gab einen kritischen Fehler.</p>",
            expect!["WordPress: WordPress › Fehler. Es gab einen kritischen Fehler."],
        );
        check(
            "<title>WordPress &rsaquo; Installation</title><h1>Welcome</h1><p>Welcome to the famous five-minute \
             installation process!</p>",
            expect![
                "WordPress: WordPress › Installation. Welcome. Welcome to the famous five-minute installation process!"
            ],
        );
    }

    #[test]
    fn php_says_what_is_wrong_at_the_beginning_and_at_the_end() {
        let fatal = "<br />\n<b>Fatal error</b>:  Uncaught Error: no in /app/index.php:3\nStack trace:\n#0 {main}\n  thrown \
                     in <b>/app/index.php</b> on line <b>3</b><br />\n";
        check(
            fatal,
            expect![
                "PHP: Fatal error: Uncaught Error: no in /app/index.php:3 Stack trace: #0 {main} thrown in /app/index.php on line 3"
            ],
        );
        let page = format!(
            "<html><h1>Shop</h1>{}",
            "<p>many words about goods</p>".repeat(200)
        );
        check(
            &format!("{page}{fatal}"),
            expect![
                "PHP: Fatal error: Uncaught Error: no in /app/index.php:3 Stack trace: #0 {main} thrown in /app/index.php on line 3"
            ],
        );
        let warning = "<br />\n<b>Warning</b>:  Undefined variable $a in <b>/app/a.php</b> on line <b>12</b><br />\n";
        check(
            &format!("{warning}{page}"),
            expect!["PHP: Warning: Undefined variable $a in /app/a.php on line 12"],
        );
        check(
            "PHP Parse error:  syntax error, unexpected token \";\" in /app/a.php on line 2",
            expect![
                "PHP: PHP Parse error: syntax error, unexpected token \";\" in /app/a.php on line 2"
            ],
        );
    }

    #[test]
    fn a_sentence_by_itself_that_speaks_of_what_is_missing_is_an_error() {
        check(
            "Internal Error: This PHP extension is required: \"gd\"",
            expect![[r#"an application: Internal Error: This PHP extension is required: "gd""#]],
        );
        check(
            "The file config.php is missing, run the setup",
            expect!["an application: The file config.php is missing, run the setup"],
        );
        check(
            "Please run: <i>bin/shop install</i>",
            expect!["an application: Please run: bin/shop install"],
        );
        for page in [
            "done",
            "Hello, world",
            "<title>Cakes</title><p>No egg is required.</p>",
            "<p>Nothing is missing. <a href=\"/next\">On</a></p>",
            "<p>An oven is required.</p><p>It must be hot.</p>",
        ] {
            assert_eq!(
                Page::read(page.as_bytes(), Some("text/html")).error(),
                None,
                "{page}"
            );
        }
    }

    #[test]
    fn a_trace_is_an_error_however_long_it_is() {
        let frame = "Backtrace: 1\nFile: /srv/shop/loader.php\nLine: 100\nClass: Shop\\Loader\nFunction: page\n";
        let trace = format!(
            "Error: Typed property $width must not be accessed\nFile: /srv/shop/image.php\nLine: 169\n{}",
            frame.repeat(30)
        );
        let error = Page::read(trace.as_bytes(), Some("text/html")).error();
        let said = error.expect("an error");
        assert!(said.starts_with("Error: Typed property $width"), "{said}");
        let linked = format!("{trace}<a href=/>Home</a>");
        assert_eq!(
            Page::read(linked.as_bytes(), Some("text/html")).error(),
            None
        );
    }

    #[test]
    fn a_short_page_whose_title_is_error_is_one() {
        check(
            "<title>Error</title><h1>Install first</h1><p>The database has no tables.</p>",
            expect!["an application: Error. Install first. The database has no tables."],
        );
        check(
            "<title>Error codes</title><p>All of them.</p>",
            expect!["a page"],
        );
        check(
            "<title>Exception</title><div id=app></div>",
            expect!["a page"],
        );
    }

    #[test]
    fn applications_are_known_by_their_words() {
        check(
            "<html><head><title>DokuWiki Setup Error</title></head><body><h1>DokuWiki Setup Error</h1><p>The datadir \
             ('pages') at ./data/pages is not found, isn't accessible or writable. You should check your config and \
             permission settings.</p></body></html>",
            expect![
                "DokuWiki: DokuWiki Setup Error. The datadir ('pages') at ./data/pages is not found, isn't accessible or writable. You should check your config and permission settings."
            ],
        );
        check(
            "The directory \"/srv/app/data\" must be writeable by your web server user",
            expect![
                "an application: The directory \"/srv/app/data\" must be writeable by your web server user"
            ],
        );
        check(
            "<title>MediaWiki 1.39.17</title><h1>MediaWiki 1.39.17</h1><p>LocalSettings.php not found.</p><p>Please \
             <a href=x>set up the wiki</a> first.</p>",
            expect!["MediaWiki: LocalSettings.php not found. Please set up the wiki first."],
        );
        check(
            "<title>Installation · FreshRSS: step 1</title><h1>Installation · FreshRSS</h1><p>Choose a language for \
             FreshRSS</p>",
            expect![[
                r#"FreshRSS: Installation · FreshRSS: step 1. Installation · FreshRSS. Choose a language for FreshRSS"#
            ]],
        );
        check("File not found.\n", expect!["PHP-FPM: File not found."]);
        check(
            "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center><hr>\
             <center>nginx</center></body></html>",
            expect!["a web server: 502 Bad Gateway. nginx"],
        );
        check(
            "<title>Class &quot;Shop&quot; not found (500 Internal Server Error)</title><h1>Class \"Shop\" not found</h1>",
            expect![[
                r#"Symfony: Class "Shop" not found (500 Internal Server Error). Class "Shop" not found"#
            ]],
        );
        check(
            "{\"message\":\"SQLSTATE[HY000] [2002] Connection refused\"}",
            expect![[r#"an application: {"message":"SQLSTATE[HY000] [2002] Connection refused"}"#]],
        );
    }

    #[test]
    fn an_article_that_speaks_of_errors_is_none() {
        let filler =
            "<p>It took a while until we saw that the password had changed, and here is how.</p>"
                .repeat(30);
        for title in [
            "Fatal error: what it means and how to fix it",
            "How to fix \"Error establishing a database connection\"",
            "500 Internal Server Error and other friends",
        ] {
            check(
                &format!(
                    "<html><head><title>{title} | My blog</title></head><body><nav><a href=/>Home</a></nav><h1>{title}</h1>\
                     <pre>Fatal error: Uncaught Error in /app/index.php on line 3</pre>{filler}<p>The directory must be \
                     writable.</p><footer>Powered by WordPress</footer></body></html>"
                ),
                expect!["a page"],
            );
        }
    }

    #[test]
    fn a_page_like_others_is_none() {
        check("visits 12", expect!["a page"]);
        check("{\"errors\": 0}", expect!["a page"]);
        check(
            "Database errors: 0\n404 Not Found: 3 pages\n",
            expect!["a page"],
        );
        check(
            "<title>Sign in</title><form><h1>Sign in</h1><label>User name</label><label>Password</label></form>",
            expect!["a page"],
        );
        check(
            "<title>News</title><ul><li>How we met a fatal error: a story</li><li>Warning: storm</li></ul>",
            expect!["a page"],
        );
        check("", expect!["a page"]);
    }
}
