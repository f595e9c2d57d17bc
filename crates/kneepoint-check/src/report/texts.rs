//! Every text of a report, for whoever changes them all: what is not seen is shown, secrets and names are taken
//! out.
//!
//! Each type is taken apart in full, so that a field that is added does not compile until it is here.

use super::{LinkLine, Report, ServiceLine, secrets};
use crate::rule::{CheckFinding, Fix, FixFile, Seen};
use crate::snapshot::{Blind, Container, ReadFile, SettingSource, SettingValue};
use kneepoint_model::redact::shown::visible;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Something that holds texts, each of one line.
pub(crate) trait Texts {
    /// Changes each of them.
    fn each(&mut self, change: &mut dyn FnMut(&mut String));

    /// The same without secrets, for whoever it is told.
    fn without_secrets(mut self) -> Self
    where
        Self: Sized,
    {
        self.each(&mut |text| {
            if let Some(hidden) = secrets::without(text) {
                *text = hidden;
            }
        });
        self
    }

    /// The same with every character shown that is not seen as itself.
    fn shown(mut self) -> Self
    where
        Self: Sized,
    {
        self.each(&mut |text| {
            if let Cow::Owned(shown) = visible(text) {
                *text = shown;
            }
        });
        self
    }
}

impl Texts for String {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        change(self);
    }
}

impl<T: Texts> Texts for Vec<T> {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        self.iter_mut().for_each(|one| one.each(change));
    }
}

impl<T: Texts> Texts for Option<T> {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        self.iter_mut().for_each(|one| one.each(change));
    }
}

/// A number beside a text.
impl Texts for u64 {
    fn each(&mut self, _: &mut dyn FnMut(&mut String)) {}
}

impl<A: Texts, B: Texts> Texts for (A, B) {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        self.0.each(change);
        self.1.each(change);
    }
}

impl<T: Texts> Texts for BTreeMap<String, T> {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        let all = std::mem::take(self).into_iter();
        *self = all
            .map(|mut one| {
                one.each(change);
                one
            })
            .collect();
    }
}

/// Implements [`Texts`] for a struct: its fields that hold texts, then those that hold none.
macro_rules! texts {
    ($($of:ident { $($text:ident),+ ; $($none:ident),* })+) => {$(
        impl $crate::report::texts::Texts for $of {
            fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
                let Self { $($text,)+ $($none: _,)* } = self;
                $($crate::report::texts::Texts::each($text, change);)+
            }
        }
    )+};
}
pub(crate) use texts;

texts! {
    Report { services, links, picture, findings, blind; schema, kneepoint, took_s }
    ServiceLine { name, version, listens, container, settings, files; kind, pid }
    LinkLine { pool, from_pools, by, how; from, to }
    CheckFinding {
        title, place, seen, cost, unless, fix, also; code, rule, severity, service, weight
    }
    Seen { what, source; }
    Fix { text, lines, file, apply; }
    Blind { what, why, remedy; weighs }
    Container { id, name, compose_service; runtime, in_pod }
    SettingValue { text, source, replaced; }
    ReadFile { path; modified_s, newer }
}

impl Texts for FixFile {
    /// Its content has many lines, each of which is a text.
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        let Self {
            path,
            content,
            from_here,
        } = self;
        path.each(change);
        from_here.each(change);
        let mut lines: Vec<String> = content.lines().map(str::to_owned).collect();
        lines.each(change);
        let end = if content.ends_with('\n') { "\n" } else { "" };
        *content = lines.join("\n") + end;
    }
}

impl Texts for SettingSource {
    fn each(&mut self, change: &mut dyn FnMut(&mut String)) {
        match self {
            Self::File { path, line: _ } | Self::Kernel { path } => path.each(change),
            Self::Variable {
                name,
                path,
                line: _,
            } => {
                name.each(change);
                path.each(change);
            }
            Self::Flag | Self::Memory { pid: _ } | Self::Default => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{CheckFormat, render, telling};
    use super::*;
    use kneepoint_model::redact::shown::is_unseen;
    use serde_json::Value;

    /// What moves a cursor, forges lines, turns letters around, hides, and is Markdown and HTML.
    const HOSTILE: &str =
        "\u{1b}[2J\r\n\u{202e}\u{9b}\u{200b}\u{e0041}`a`` ``` |b| <i>c</i> [d](http://e) @f";

    /// The texts of a JSON value beside the keys that lead to them; names of settings are texts, too.
    fn leaves(value: &Value, key: &str, found: &mut Vec<(String, String)>) {
        match value {
            Value::String(text) => found.push((key.to_owned(), text.clone())),
            Value::Array(all) => all.iter().for_each(|one| leaves(one, key, found)),
            Value::Object(all) => {
                for (name, one) in all {
                    if key == "settings" {
                        found.push((key.to_owned(), name.clone()));
                    }
                    leaves(one, name, found);
                }
            }
            _ => {}
        }
    }

    #[test]
    fn every_text_of_the_json_is_reached() {
        // What the program itself says in words of its own.
        const OWN: [&str; 7] = [
            "schema",
            "kneepoint",
            "kind",
            "runtime",
            "code",
            "rule",
            "severity",
        ];
        let mut report = telling::full();
        let mut count = 0;
        report.each(&mut |text| {
            count += 1;
            *text = format!("planted {count}");
        });
        let mut found = Vec::new();
        leaves(
            &serde_json::to_value(&report).expect("JSON"),
            "",
            &mut found,
        );
        for (key, text) in &found {
            let is_own = OWN.contains(&key.as_str()) || key == "from";
            let is_planted = || text.lines().all(|line| line.starts_with("planted "));
            assert!(is_own || is_planted(), "`{key}` holds `{text}`");
        }
        let keys: std::collections::BTreeSet<&str> =
            found.iter().map(|(key, _)| key.as_str()).collect();
        for key in [
            "replaced",
            "compose_service",
            "how",
            "content",
            "lines",
            "also",
            "pool",
        ] {
            assert!(keys.contains(key), "no `{key}` in the test: {keys:?}");
        }
    }

    /// A report with this in each text. What a file to write holds has lines of its own.
    fn with(planted: &str) -> Report {
        let mut report = telling::full();
        report.each(&mut |text| text.push_str(planted));
        let files = report.findings.iter_mut();
        for file in files.filter_map(|one| one.fix.file.as_mut()) {
            file.content = file.content.replace("\n\u{202e}", "\u{202e}");
        }
        report
    }

    #[test]
    fn nothing_unseen_is_in_any_format() {
        let (report, harmless) = (with(HOSTILE), with("x"));
        for format in telling::FORMATS {
            let text = render(&report, format);
            let unseen = text.chars().find(|one| *one != '\n' && is_unseen(*one));
            assert_eq!(unseen, None, "{format:?}: {text}");
            let lines = text.lines().count();
            let expected = render(&harmless, format).lines().count();
            assert_eq!(lines, expected, "a text forges a line: {format:?}: {text}");
        }
        let json: Value = serde_json::from_str(&render(&report, CheckFormat::Json)).expect("JSON");
        assert_eq!(
            json,
            serde_json::to_value(&report).expect("JSON"),
            "a program reads what is"
        );
    }

    #[test]
    fn no_text_is_markdown() {
        let html = markdown_as_read(&render(&with(HOSTILE), CheckFormat::Markdown));
        for markup in ["<i>", "](http", "@f", "|b|"] {
            assert!(!html.contains(markup), "`{markup}` is obeyed: {html}");
        }
    }

    /// What of a page is not code: fences and spans are left out.
    fn markdown_as_read(page: &str) -> String {
        let mut read = String::new();
        let mut fence: Option<String> = None;
        for line in page.lines() {
            let row: String = line.chars().take_while(|one| *one == '`').collect();
            match &fence {
                Some(open) if line == open => fence = None,
                Some(_) => {}
                None if row.len() >= 3 && !line[row.len()..].contains('`') => fence = Some(row),
                None => read.push_str(&(without_code(line) + "\n")),
            }
        }
        assert_eq!(fence, None, "a fence stays open");
        read
    }

    fn without_code(line: &str) -> String {
        let mut read = String::new();
        let mut rest = line;
        while let Some(at) = rest.find('`') {
            read.push_str(&rest[..at]);
            let row = rest[at..].chars().take_while(|one| *one == '`').count();
            let inside = &rest[at + row..];
            let mut from = 0;
            let end = loop {
                let Some(next) = inside[from..].find('`').map(|next| from + next) else {
                    break None;
                };
                let length = inside[next..].chars().take_while(|one| *one == '`').count();
                if length == row {
                    break Some(next + row);
                }
                from = next + length;
            };
            let end = end.unwrap_or_else(|| panic!("a span stays open: {line}"));
            rest = &inside[end..];
        }
        read + rest
    }
}
