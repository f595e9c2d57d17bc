//! Reads a body into a page.

use super::{Block, Page};
use html5gum::{DefaultEmitter, HtmlString, StartTag, Token, Tokenizer};

/// Characters of text that are kept as blocks: more than any error page that has to be known whole.
const KEPT_CHARS: usize = 4000;
/// Most links that are kept.
const MOST_LINKS: usize = 1000;

/// Elements whose text is nothing a person reads on the page.
const UNREAD: [&[u8]; 8] = [
    b"script",
    b"style",
    b"noscript",
    b"template",
    b"svg",
    b"iframe",
    b"select",
    b"textarea",
];

/// Elements within a line of text; all others end it.
const INLINE: [&[u8]; 28] = [
    b"a", b"abbr", b"b", b"bdi", b"bdo", b"big", b"cite", b"code", b"em", b"font", b"i", b"img",
    b"ins", b"kbd", b"label", b"mark", b"q", b"s", b"samp", b"small", b"span", b"strong", b"sub",
    b"sup", b"time", b"tt", b"u", b"var",
];

/// Reads HTML. What is not UTF-8 in it is replaced.
pub(super) fn html(body: &[u8]) -> Page {
    let mut emitter = DefaultEmitter::default();
    // Without it, what stands in scripts and titles would be read as tags.
    emitter.naively_switch_states(true);
    let mut reader = Reader::default();
    for Ok(token) in Tokenizer::new_with_emitter(body, emitter) {
        match token {
            Token::StartTag(tag) => reader.start(&tag),
            Token::EndTag(tag) => reader.end(&tag.name),
            Token::String(text) => reader.text(&String::from_utf8_lossy(&text)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }
    reader.end_title();
    reader.break_line();
    Page {
        is_html: true,
        ..reader.page
    }
}

/// Reads text, a block a line.
pub(super) fn plain(body: &[u8]) -> Page {
    let mut reader = Reader::default();
    for line in String::from_utf8_lossy(body).lines() {
        reader.text(line);
        reader.break_line();
    }
    reader.page
}

#[derive(Default)]
struct Reader {
    page: Page,
    /// The text that is being read.
    line: String,
    /// Whether that is in a heading.
    heading: bool,
    /// The element whose text is not read, while in one.
    unread: Option<HtmlString>,
    /// What `<title>` holds so far, while in it.
    title: Option<String>,
}

impl Reader {
    fn start(&mut self, tag: &StartTag<()>) {
        if self.unread.is_some() {
            return;
        }
        let name = tag.name.as_slice();
        if UNREAD.contains(&name) {
            // Elsewhere HTML takes no notice of the slash.
            let closed = tag.self_closing && name == b"svg";
            if !closed {
                self.unread = Some(tag.name.clone());
            }
            return;
        }
        let attribute = |name: &[u8]| {
            let value = tag.attributes.get(name)?;
            Some(String::from_utf8_lossy(value).into_owned())
        };
        match name {
            b"title" => self.title = Some(String::new()),
            b"a" if self.page.hrefs.len() < MOST_LINKS => {
                self.page.hrefs.extend(attribute(b"href"));
            }
            b"body" => self.page.dies = attribute(b"id").as_deref() == Some("error-page"),
            _ => self.note(name, attribute),
        }
        if !INLINE.contains(&name) {
            self.break_line();
        }
        if is_heading(name) {
            self.heading = true;
        }
    }

    /// Notes what a page says of its own address, and that it asks for a password.
    fn note(&mut self, name: &[u8], attribute: impl Fn(&[u8]) -> Option<String>) {
        let says = |key: &[u8], wanted: &str| {
            attribute(key).is_some_and(|value| value.trim().eq_ignore_ascii_case(wanted))
        };
        let page = &mut self.page;
        match name {
            b"base" if page.base.is_none() => page.base = attribute(b"href"),
            b"link" if says(b"rel", "canonical") => page.own.extend(attribute(b"href")),
            b"meta" if says(b"property", "og:url") => page.own.extend(attribute(b"content")),
            b"input" if says(b"type", "password") => page.has_password = true,
            _ => {}
        }
    }

    fn end(&mut self, name: &HtmlString) {
        if let Some(unread) = &self.unread {
            if unread == name {
                self.unread = None;
            }
            return;
        }
        if name.as_slice() == b"title" {
            self.end_title();
            return;
        }
        if !INLINE.contains(&name.as_slice()) {
            self.break_line();
        }
        if is_heading(name) {
            self.heading = false;
        }
    }

    /// Takes the first title that says something: of a body that is cut off, what there is of it.
    fn end_title(&mut self) {
        let title = self.title.take().map(|title| fold(&title));
        if self.page.title.is_none() {
            self.page.title = title.filter(|title| !title.is_empty());
        }
    }

    fn text(&mut self, text: &str) {
        if self.unread.is_some() {
            return;
        }
        match &mut self.title {
            Some(title) => title.push_str(text),
            None => self.line.push_str(text),
        }
    }

    /// Ends a text that stands by itself.
    fn break_line(&mut self) {
        let text = fold(&self.line);
        self.line.clear();
        if text.is_empty() {
            return;
        }
        if self.page.chars < KEPT_CHARS {
            self.page.blocks.push(Block {
                text: text.clone(),
                heading: self.heading,
            });
        }
        self.page.chars += text.chars().count();
        self.page.last = text;
    }
}

fn is_heading(name: &[u8]) -> bool {
    matches!(name, b"h1" | b"h2")
}

/// A text with its white space folded to single spaces, and without characters that a terminal would obey.
fn fold(text: &str) -> String {
    let seen: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    seen.split_whitespace().collect::<Vec<_>>().join(" ")
}
