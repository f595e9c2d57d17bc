//! The shape of a log's lines: named formats, formats as servers' configurations write them, and JSON.

mod apache;
mod json;
mod nginx;
mod piece;

use crate::entry::{BadLine, Field, LogEntry, Raw};
use piece::Piece;

/// Formats that have a name, written as the servers' configurations write them. `vhost_combined` is Debian's;
/// `main` is the one of nginx's own packages.
const NAMED: &[(&str, &str)] = &[
    ("common", r#"%h %l %u %t "%r" %>s %b"#),
    (
        "combined",
        r#"%h %l %u [%{end:}t] "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#,
    ),
    (
        "vhost_combined",
        r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#,
    ),
    (
        "main",
        r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for""#,
    ),
];

/// The shape of a log's lines.
#[derive(Debug, Clone, PartialEq)]
pub struct LineFormat {
    name: String,
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Json,
    Template(Template),
}

/// Why a format cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "log format `{format}`: {problem}; write it as `log_format` (nginx) or `LogFormat` (Apache) does, or name one of common, combined, vhost_combined, main, json"
)]
pub struct FormatError {
    /// The format as given.
    pub format: String,
    /// What is wrong with it.
    pub problem: String,
}

impl LineFormat {
    /// Reads a format: one of the names `common`, `combined`, `vhost_combined`, `main`, `json`; or the text of
    /// nginx's `log_format` or Apache's `LogFormat`, with or without the directive around it.
    ///
    /// # Errors
    /// It names no time or no request, or two values follow each other with nothing in between.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let text = text.trim();
        if text == "json" {
            return Ok(Self::json());
        }
        let named = NAMED.iter().find(|(name, _)| *name == text);
        let body = named.map_or_else(
            || without_directive(text),
            |(_, format)| (*format).to_owned(),
        );
        let refuse = |problem: &str| FormatError {
            format: text.to_owned(),
            problem: problem.to_owned(),
        };
        let pieces = if body.contains('$') {
            nginx::pieces(&body)
        } else if body.contains('%') {
            apache::pieces(&body)
        } else {
            return Err(refuse("it names no value"));
        };
        let template = Template::new(pieces).map_err(|problem| refuse(&problem))?;
        Ok(Self {
            name: text.to_owned(),
            shape: Shape::Template(template),
        })
    }

    /// One JSON object a line, with nginx's variables or their usual other names as keys.
    pub(crate) fn json() -> Self {
        Self {
            name: "json".into(),
            shape: Shape::Json,
        }
    }

    /// The same, where lines may go on after what the format says.
    pub(crate) fn open_ended(mut self, name: &str) -> Self {
        if let Shape::Template(template) = &mut self.shape {
            template.open_ended = true;
        }
        self.name = name.to_owned();
        self
    }

    /// Its name, or its text when it has none.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn raw<'l>(&self, line: &'l str) -> Result<Raw<'l>, BadLine> {
        match &self.shape {
            Shape::Json => json::read(line),
            Shape::Template(template) => template.read(line),
        }
    }
}

/// Reads one line of a log, without its end.
///
/// # Errors
/// It has not the format's shape, or one of its values cannot be.
pub fn parse_line(format: &LineFormat, line: &str) -> Result<LogEntry, BadLine> {
    format.raw(line)?.entry()
}

/// A format's text out of `log_format NAME [escape=...] 'text' 'text';` or `LogFormat "text" name`.
fn without_directive(text: &str) -> String {
    let directive = text.starts_with("log_format") || text.starts_with("LogFormat");
    let quote = text.chars().find(|c| *c == '\'' || *c == '"');
    let Some(quote) = quote.filter(|_| directive) else {
        return text.replace("\\\"", "\"");
    };
    let mut inner = String::new();
    let mut inside = false;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' if inside => inner.extend(characters.next()),
            _ if c == quote => inside = !inside,
            _ if inside => inner.push(c),
            _ => {}
        }
    }
    inner
}

/// Values with the text between them.
#[derive(Debug, Clone, PartialEq)]
struct Template {
    lead: String,
    /// Each value with the text behind it; only the last may have none.
    parts: Vec<(Field, String)>,
    /// Whether a line may go on.
    open_ended: bool,
}

impl Template {
    fn new(pieces: Vec<Piece>) -> Result<Self, String> {
        let mut lead = String::new();
        let mut parts: Vec<(Field, String)> = Vec::new();
        for piece in pieces {
            match (piece, parts.last_mut()) {
                (Piece::Literal(text), None) => lead.push_str(&text),
                (Piece::Literal(text), Some((_, until))) => until.push_str(&text),
                (Piece::Field(field), Some((before, until))) if until.is_empty() => {
                    *before = joined(before, &field).ok_or(
                        "two values follow each other without anything between them to tell them apart",
                    )?;
                }
                (Piece::Field(field), _) => parts.push((field, String::new())),
            }
        }
        let has = |wanted: fn(&Field) -> bool| parts.iter().any(|(field, _)| wanted(field));
        if !has(|field| matches!(field, Field::At(..))) {
            return Err("it names no time ($msec, $time_iso8601, $time_local, %t)".into());
        }
        if !has(|field| {
            matches!(
                field,
                Field::Request | Field::Target | Field::HostTarget | Field::Path
            )
        }) {
            return Err("it names no request ($request, $request_uri, %r, %U)".into());
        }
        Ok(Self {
            lead,
            parts,
            open_ended: false,
        })
    }

    fn read<'l>(&self, line: &'l str) -> Result<Raw<'l>, BadLine> {
        let missing = |text: &str| BadLine::Shape {
            missing: text.to_owned(),
        };
        let mut rest = line
            .strip_prefix(self.lead.as_str())
            .ok_or_else(|| missing(&self.lead))?;
        let mut raw = Raw::default();
        for (field, until) in &self.parts {
            let list = matches!(field, Field::Other { list: true });
            let end = match until.as_str() {
                "" if self.open_ended => rest.find(' ').unwrap_or(rest.len()),
                "" => rest.len(),
                until => end_of_value(rest, until, list).ok_or_else(|| missing(until))?,
            };
            raw.set(field, &rest[..end])?;
            rest = &rest[end + until.len()..];
        }
        if !self.open_ended && !rest.trim_ascii().is_empty() {
            return Err(missing("the end of the line"));
        }
        Ok(raw)
    }
}

/// Two values that stand together and are read as one.
fn joined(before: &Field, after: &Field) -> Option<Field> {
    match (before, after) {
        // Path, `?`, query: as one text they are what was asked for.
        (Field::Path | Field::Target, Field::QueryMark | Field::Query) => Some(Field::Target),
        (Field::Other { .. }, Field::Target | Field::Path) => Some(Field::HostTarget),
        (Field::HostTarget, Field::QueryMark | Field::Query) => Some(Field::HostTarget),
        _ => None,
    }
}

/// Where a value ends: before the first `until` that is not escaped and, in a list, not between its items.
fn end_of_value(text: &str, until: &str, list: bool) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(until)?;
        let before = &text.as_bytes()[..at];
        let backslashes = before.iter().rev().take_while(|b| **b == b'\\').count();
        let escaped = until.starts_with('"') && backslashes % 2 == 1;
        let after = text.as_bytes().get(at + 1);
        let within_list = list
            && until.starts_with(' ')
            && (matches!(before.last(), Some(b',' | b':')) || after == Some(&b':'));
        if !escaped && !within_list {
            return Some(at);
        }
        // Both begin with an ASCII character, so this is the beginning of one.
        from = at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    #[track_caller]
    fn check(format: &str, line: &str, expected: Expect) {
        let format = LineFormat::parse(format).unwrap_or_else(|error| panic!("{error}"));
        let shown = match parse_line(&format, line) {
            Ok(entry) => shown(&entry),
            Err(bad) => format!("bad: {bad}"),
        };
        expected.assert_eq(&shown);
    }

    /// Times as milliseconds after 21/Nov/2026:01:15:12.
    fn shown(entry: &LogEntry) -> String {
        let ms = |us: i64| (us - 1_795_223_712_000_000) / 1000;
        let request = entry.request.as_ref();
        let request = request.map_or("nothing".into(), |a| format!("{} {}", a.method, a.target));
        format!(
            "{request} -> {:?}, {}..{} ms, steps of {} us, timed {}, cookie {}, client {}",
            entry.status.unwrap_or(0),
            ms(entry.start_us),
            ms(entry.end_us),
            entry.resolution_us,
            entry.timed,
            entry.cookie.is_some(),
            entry.client.is_some()
        )
    }

    const COMBINED: &str = r#"203.0.113.7 - ann [21/Nov/2026:01:15:12 +0000] "GET /post/12?p=1 HTTP/1.1" 200 512 "https://x.test/\x22" "Mozilla/5.0 (X11; \"q\")""#;

    #[test]
    fn formats_with_a_name() {
        check(
            "common",
            r#"::1 - - [21/Nov/2026:01:15:12 +0000] "HEAD / HTTP/1.0" 304 -"#,
            expect![
                "HEAD / -> 304, 0..0 ms, steps of 1000000 us, timed false, cookie false, client true"
            ],
        );
        check(
            "combined",
            COMBINED,
            expect![
                "GET /post/12?p=1 -> 200, 0..0 ms, steps of 1000000 us, timed false, cookie false, client true"
            ],
        );
        check(
            "vhost_combined",
            &format!("shop.test:443 {COMBINED}"),
            expect![
                "GET /post/12?p=1 -> 200, 0..0 ms, steps of 1000000 us, timed false, cookie false, client true"
            ],
        );
        check(
            "main",
            &format!("{COMBINED} \"10.0.0.1, 10.0.0.2\""),
            expect![
                "GET /post/12?p=1 -> 200, 0..0 ms, steps of 1000000 us, timed false, cookie false, client true"
            ],
        );
        check(
            "json",
            r#"{"msec":1795223712.345,"request_time":"0.045","request":"GET /a HTTP/2.0","status":"200","remote_addr":"::1"}"#,
            expect![
                "GET /a -> 200, 300..345 ms, steps of 1000 us, timed true, cookie false, client true"
            ],
        );
    }

    #[test]
    fn formats_of_nginx() {
        check(
            "$remote_addr $msec $request_time \"$request\" $status \"$http_cookie\"",
            r#"127.0.0.1 1795223712.345 0.045 "GET /x HTTP/1.1" 200 "theme=dark; PHPSESSID=abc""#,
            expect![
                "GET /x -> 200, 300..345 ms, steps of 1000 us, timed true, cookie true, client true"
            ],
        );
        check(
            "log_format timed escape=json '{\"t\":\"$time_iso8601\",\"m\":\"$request_method\",'\n  '\"u\":\"$request_uri\",\"s\":$status,\"sid\":\"$cookie_sid\"}';",
            r#"{"t":"2026-11-21T01:15:12+00:00","m":"POST","u":"/a\"b\/c","s":201,"sid":"1"}"#,
            expect![
                "POST /a\"b/c -> 201, 0..0 ms, steps of 1000000 us, timed false, cookie true, client false"
            ],
        );
        check(
            "${time_local}|$request_method|$uri$is_args$args|$upstream_response_time|$request_time",
            "21/Nov/2026:01:15:12 +0000|GET|/s?q=1|0.1, 0.2 : 0.3|0.250",
            expect![
                "GET /s?q=1 -> 0, -250..0 ms, steps of 1000000 us, timed true, cookie false, client false"
            ],
        );
        check(
            "$upstream_response_time $msec $scheme://$host$request_uri",
            "0.1, 0.2 : 0.3 1795223712.000 https://shop.test/a?b",
            expect![
                "GET /a?b -> 0, 0..0 ms, steps of 1000 us, timed false, cookie false, client false"
            ],
        );
    }

    #[test]
    fn formats_of_apache() {
        check(
            r#"LogFormat "%h %l %u %t \"%r\" %>s %b %D \"%{Cookie}i\"" timed"#,
            r#"::1 - - [21/Nov/2026:01:15:12 +0000] "GET /x HTTP/1.1" 200 - 2500 "PHPSESSID=a\"b""#,
            expect![
                "GET /x -> 200, 0..2 ms, steps of 1000000 us, timed true, cookie true, client true"
            ],
        );
        check(
            "%a %{end:msec}t %m %U%q %!200,304{X}i %{ms}T %{sid}C 100%%",
            "::1 1795223712345 GET /a?b=1 - 45 abc 100%",
            expect![
                "GET /a?b=1 -> 0, 300..345 ms, steps of 1000 us, timed true, cookie true, client true"
            ],
        );
        check(
            "%{%Y-%m-%d %H:%M:%S}t;%{%z}t;%m;%U;%q;%s",
            "2026-11-21 01:15:12;+0000;GET;/a;?b=1;404",
            expect![
                "GET /a?b=1 -> 404, 0..0 ms, steps of 1000000 us, timed false, cookie false, client false"
            ],
        );
    }

    #[test]
    fn noise_on_the_port_is_a_line_that_asks_for_nothing() {
        check(
            "common",
            r#"::1 - - [21/Nov/2026:01:15:12 +0000] "\x16\x03\x01" 400 150"#,
            expect![
                "nothing -> 400, 0..0 ms, steps of 1000000 us, timed false, cookie false, client true"
            ],
        );
    }

    #[test]
    fn bad_lines_say_why() {
        check(
            "common",
            "nonsense",
            expect![[
                r#"bad: it does not have the shape of the format: " " is not where it should be"#
            ]],
        );
        check(
            "common",
            r#"::1 - - [21/Nov/2026:01:15 +0000] "GET / HTTP/1.0" 304 -"#,
            expect![[r#"bad: "21/Nov/2026:01:15 +0000" is not a time"#]],
        );
        check(
            "combined",
            &format!("{COMBINED} 0.1"),
            expect![[
                r#"bad: it does not have the shape of the format: "the end of the line" is not where it should be"#
            ]],
        );
        check(
            "$msec $request_uri",
            "- /",
            expect![[
                r#"bad: it does not have the shape of the format: "a time" is not where it should be"#
            ]],
        );
    }

    #[test]
    fn formats_that_cannot_be_used_are_refused() {
        let check = |format: &str, expected: Expect| {
            let error = LineFormat::parse(format).expect_err("refused");
            expected.assert_eq(&error.problem);
        };
        check("nonsense", expect!["it names no value"]);
        check("", expect!["it names no value"]);
        check(
            "$remote_addr $request",
            expect!["it names no time ($msec, $time_iso8601, $time_local, %t)"],
        );
        check(
            "%t %s",
            expect!["it names no request ($request, $request_uri, %r, %U)"],
        );
        check(
            "$msec$status $request",
            expect![
                "two values follow each other without anything between them to tell them apart"
            ],
        );
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in any::<String>(), format in 0..NAMED.len()) {
            let format = LineFormat::parse(NAMED[format].0).expect("named");
            let _ = parse_line(&format, &line);
            let _ = parse_line(&LineFormat::json(), &line);
        }

        /// Cuts a good line anywhere and plants anything.
        #[test]
        fn no_nearly_right_line_makes_it_panic(
            start in 0..COMBINED.len(), length in 0usize..30, junk in "[\\\\x\"0-9 /\\[\\]:é-]{0,8}"
        ) {
            let end = (start + length).min(COMBINED.len());
            let line = format!("{}{junk}{}", &COMBINED[..start], &COMBINED[end..]);
            for (name, _) in NAMED {
                let format = LineFormat::parse(name).expect("named");
                let _ = parse_line(&format, &line);
            }
        }

        #[test]
        fn no_format_makes_it_panic(
            format in "(\\PC{0,20}|[$%{}a-zA-Z_\\[\\]\" ^:!<>]{0,40})", line in "\\PC{0,60}"
        ) {
            if let Ok(format) = LineFormat::parse(&format!("$msec $request {format}")) {
                let _ = parse_line(&format, &format!("1795223712.345 GET / HTTP/1.1 {line}"));
            }
            let _ = LineFormat::parse(&format);
        }
    }
}
