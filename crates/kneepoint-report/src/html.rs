//! The report page. One file, no network: style and pictures are inside. Where there is a flame graph, so is the one
//! script of the page, which zooms it and searches it; the page lets no other run.
//!
//! Pictures are SVG whose x coordinates are percentages, so that they follow the width of the page while
//! their text keeps its size, on a phone as on paper.

pub(crate) mod axis;
pub(crate) mod effect;
pub(crate) mod plot;
pub(crate) mod spread;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

const STYLE: &str = include_str!("html/style.css");

/// What every page consists of.
pub(crate) struct Document<'a> {
    pub(crate) title: &'a str,
    pub(crate) tool_version: &'a str,
    pub(crate) header: Markup,
    pub(crate) sections: &'a [Section],
    pub(crate) footer: &'a str,
    /// The one script that may run; none in most pages.
    pub(crate) script: Option<&'a str>,
}

/// What the page may load and run (CSP level 2): nothing but its own style, and this script, known by its hash.
fn policy(script: Option<&str>) -> String {
    let mut policy = "default-src 'none'; style-src 'unsafe-inline'".to_owned();
    if let Some(script) = script {
        let hash = BASE64_STANDARD.encode(Sha256::digest(script));
        policy.push_str(&format!("; script-src 'sha256-{hash}'"));
    }
    policy
}

/// A page that loads nothing: style and pictures are inside.
pub(crate) fn document(it: &Document<'_>) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "kneepoint " (it.tool_version) };
                meta http-equiv="Content-Security-Policy" content=(policy(it.script));
                title { (it.title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (it.header)
                    @if !it.sections.is_empty() {
                        nav aria-label="Sections" {
                            @for section in it.sections { a href={ "#" (section.id) } { (section.title) } " " }
                        }
                    }
                    @for section in it.sections { (section.markup()) }
                    footer { p { (it.footer) } }
                }
                @if let Some(script) = it.script { script { (PreEscaped(script)) } }
            }
        }
    };
    page.into_string()
}

/// One part of the page.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) body: Markup,
}

impl Section {
    fn markup(&self) -> Markup {
        html! {
            section id=(self.id) aria-labelledby={ (self.id) "-title" } {
                h2 id={ (self.id) "-title" } { (self.title) }
                (self.body)
            }
        }
    }
}

/// An aside with sentences; nothing without any.
pub(crate) fn notes(title: &str, sentences: &[String]) -> Markup {
    html! {
        @if !sentences.is_empty() {
            aside class="note" aria-label=(title) {
                h2 class="small" { (title) }
                ul { @for sentence in sentences { li { (sentence) } } }
            }
        }
    }
}

/// A name that breaks behind its dots where it must: a word of it that is torn apart cannot be read.
pub(crate) fn broken_at_dots(name: &str) -> Markup {
    html! {
        @for part in name.split_inclusive('.') { (part) @if part.ends_with('.') { wbr; } }
    }
}

/// Bytes as a data URL carries them (RFC 3986: unreserved ones as they are).
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3 / 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into())
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{broken_at_dots, percent_encoded};

    #[test]
    fn a_setting_breaks_behind_its_dots_and_stays_text() {
        assert_eq!(
            broken_at_dots("web.upstream.keepalive = <32>").into_string(),
            "web.<wbr>upstream.<wbr>keepalive = &lt;32&gt;"
        );
    }

    #[test]
    fn a_data_url_has_no_character_of_its_own() {
        assert_eq!(percent_encoded("a,b\n\"é<"), "a%2Cb%0A%22%C3%A9%3C");
    }
}
