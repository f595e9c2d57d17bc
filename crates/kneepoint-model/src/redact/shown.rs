//! Texts of strangers, as they may reach a terminal, a page or a program.
//!
//! A name, a path or a value may hold characters that move a cursor, turn the order of letters, or are not drawn at all, and
//! words that Markdown obeys. Here they become text again: each is shown as what it is.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Letters, marks and symbols that are drawn as nothing.
const BLANK: [RangeInclusive<char>; 11] = [
    '\u{34f}'..='\u{34f}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{2800}'..='\u{2800}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fffe}'..='\u{ffff}',
    '\u{1d159}'..='\u{1d159}',
    '\u{e0100}'..='\u{e01ef}',
];

/// Whether a character is not seen as itself: one that a terminal obeys, one that changes the direction of others, one
/// without a shape, and every blank but the common one.
#[must_use]
pub fn is_unseen(letter: char) -> bool {
    if letter.is_ascii() {
        return letter.is_ascii_control();
    }
    // The standard library knows which characters can be printed; behind a letter, marks can.
    let escaped = || format!("a{letter}").escape_debug().nth(1) == Some('\\');
    BLANK.iter().any(|range| range.contains(&letter)) || escaped()
}

/// Whether a text has characters that are not seen as themselves.
#[must_use]
pub fn has_unseen(text: &str) -> bool {
    text.chars().any(is_unseen)
}

/// The text on one line, with each unseen character as what it is: `\n`, `\x1b`, `\u{202e}`.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    replaced(text, is_unseen, spelled)
}

/// The same of a text that may have several lines.
#[must_use]
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    replaced(text, |letter| letter != '\n' && is_unseen(letter), spelled)
}

/// JSON with each unseen character escaped as JSON has it, so that who prints it sees what a program reads.
#[must_use]
pub fn visible_json(json: &str) -> Cow<'_, str> {
    // Beyond strings there are line breaks and blanks only.
    replaced(
        json,
        |letter| letter != '\n' && is_unseen(letter),
        |letter| {
            let mut units = [0; 2];
            let units = letter.encode_utf16(&mut units).iter();
            units.map(|unit| format!("\\u{unit:04x}")).collect()
        },
    )
}

fn replaced(
    text: &str,
    is: impl Fn(char) -> bool,
    instead: impl Fn(char) -> String,
) -> Cow<'_, str> {
    if !text.chars().any(&is) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match is(letter) {
            true => out.push_str(&instead(letter)),
            false => out.push(letter),
        }
    }
    Cow::Owned(out)
}

fn spelled(letter: char) -> String {
    match letter {
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        letter if letter.is_ascii() => format!("\\x{:02x}", u32::from(letter)),
        letter => format!("\\u{{{:x}}}", u32::from(letter)),
    }
}

/// Text within a line or a cell of Markdown: what stands between backticks is code, and so is each word of which a forge
/// would make a link or a mention. Signs of markup and HTML in all other words are escaped.
#[must_use]
pub fn markdown_text(text: &str) -> String {
    let text = visible(text);
    let mut out = String::with_capacity(text.len() + 16);
    let pieces: Vec<&str> = text.split('`').collect();
    for (nth, piece) in pieces.iter().enumerate() {
        let is_behind = nth % 2 == 1;
        match is_behind {
            true if nth + 1 == pieces.len() => {
                push_code(&mut out, "`");
                push_words(&mut out, piece);
            }
            true if piece.is_empty() => push_code(&mut out, "``"),
            true => push_code(&mut out, piece),
            false => push_words(&mut out, piece),
        }
    }
    out
}

/// A name, a path or a command as code within a line or a cell of Markdown.
#[must_use]
pub fn markdown_code(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_code(&mut out, &visible(text));
    out
}

/// Lines in a fence that none of them can end.
#[must_use]
pub fn markdown_fence(language: &str, text: &str) -> String {
    let text = visible_lines(text);
    let fence = "`".repeat(longest_row(&text).max(2) + 1);
    format!(
        "{fence}{language}\n{}\n{fence}\n",
        text.trim_end_matches('\n')
    )
}

/// The longest row of backticks, which a fence or the marks of a span must outdo.
fn longest_row(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Marks that a word of prose may have at its ends.
const OPENING: [char; 2] = ['(', '"'];
const CLOSING: [char; 8] = [',', '.', ';', ':', ')', '!', '?', '"'];

fn push_words(out: &mut String, text: &str) {
    for word in text.split_inclusive(' ') {
        let bare = word.trim_end_matches(' ');
        let core = bare.trim_start_matches(OPENING);
        let before = &bare[..bare.len() - core.len()];
        let core = core.trim_end_matches(CLOSING);
        let after = &bare[before.len() + core.len()..];
        // A list, a rule or an underlined heading begins a line, and so does code that is indented.
        let begins = out.is_empty() && !bare.contains(char::is_alphabetic);
        let is_block = begins && (bare.is_empty() || bare.ends_with(['.', ')', '-', '+', '=']));
        if is_block {
            push_code(out, bare);
        } else if is_linked(core) {
            out.push_str(before);
            push_code(out, core);
            out.push_str(after);
        } else {
            push_escaped(out, bare);
        }
        out.push_str(&word[bare.len()..]);
    }
}

/// Whether forges make a link or a picture of a word, however it is escaped.
fn is_linked(word: &str) -> bool {
    let small = word.to_ascii_lowercase();
    small.contains("://")
        || small.contains("www.")
        || small.contains(['@', '#'])
        || small.starts_with(':')
}

/// Adds a word whose signs mean nothing: words that belong together can be copied together.
fn push_escaped(out: &mut String, word: &str) {
    let mut last = None;
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_part =
            |other: Option<char>| other.is_some_and(|other| other.is_ascii_alphanumeric());
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' => out.push_str("&#124;"),
            // Within a word it means nothing.
            '_' if is_part(last) && is_part(letters.peek().copied()) => out.push('_'),
            '_' | '*' | '[' | ']' | '~' | '$' | '\\' | '^' => out.extend(['\\', letter]),
            letter => out.push(letter),
        }
        last = Some(letter);
    }
}

/// Adds code. A bar, which would end the cell of a table, stands beside it.
fn push_code(out: &mut String, text: &str) {
    for (nth, piece) in text.split('|').enumerate() {
        if nth > 0 {
            out.push_str("&#124;");
        }
        if piece.is_empty() {
            continue;
        }
        // Marks that touch would be one mark.
        if out.ends_with('`') {
            out.push(' ');
        }
        let mark = match longest_row(piece) {
            0 => "`".to_owned(),
            row => "`".repeat(row + 1),
        };
        let touches = piece.starts_with('`') || piece.ends_with('`');
        let pad = if touches { " " } else { "" };
        let _ = write!(out, "{mark}{pad}{piece}{pad}{mark}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_shown_as_what_it_is() {
        assert_eq!(
            visible("a\u{1b}[2J\u{9b}31m\r\n\tb\u{7f}"),
            "a\\x1b[2J\\u{9b}31m\\r\\n\\tb\\x7f"
        );
        for unseen in [
            '\u{85}',
            '\u{a0}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200d}',
            '\u{200f}',
            '\u{2028}',
            '\u{202e}',
            '\u{2066}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{e000}',
            '\u{e0041}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
        ] {
            let shown = visible(&unseen.to_string()).into_owned();
            assert!(shown.starts_with("\\u{"), "{shown}");
        }
    }

    #[test]
    fn what_is_seen_stays() {
        for seen in [
            "└─ /run/php.sock ─▶ é e\u{301} 日本 हिन्दी ж •••",
            "a\\b 'c'",
        ] {
            assert!(matches!(visible(seen), Cow::Borrowed(same) if same == seen));
        }
        assert_eq!(visible_lines("a\nb\u{1b}"), "a\nb\\x1b");
        let once = visible("\u{1b}\u{202e}").into_owned();
        assert_eq!(visible(&once), once);
    }

    #[test]
    fn json_stays_what_a_program_reads() {
        let value = serde_json::json!({"a": "x\u{9b}\u{202e}\u{e0041}\u{1b}"});
        let text = serde_json::to_string_pretty(&value).expect("JSON");
        let shown = visible_json(&text).into_owned();
        assert!(shown.contains("\\u202e\\udb40\\udc41\\u001b"), "{shown}");
        let read: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
        assert_eq!(read, value);
    }

    #[test]
    fn prose_stays_prose_in_markdown() {
        for (text, expected) in [
            ("OPcache is off (pool www).", "OPcache is off (pool www)."),
            (
                "pm.max_children = 5, at most",
                "pm.max_children = 5, at most",
            ),
            ("write `a_b` here", "write `a_b` here"),
            ("1 file is there", "1 file is there"),
            ("(see /etc/a_b.conf)", "(see /etc/a_b.conf)"),
            (
                "write define('WP_DEBUG', false).",
                "write define('WP_DEBUG', false).",
            ),
            ("upstream kept { server a; }", "upstream kept { server a; }"),
            (
                "write $wgMainCacheType = x;",
                "write \\$wgMainCacheType = x;",
            ),
        ] {
            assert_eq!(markdown_text(text), expected);
        }
    }

    #[test]
    fn no_text_is_markup() {
        for (text, expected) in [
            ("a|b", "a&#124;b"),
            ("<img src=x>", "&lt;img src=x&gt;"),
            ("&lt;b&gt; a&b", "&amp;lt;b&amp;gt; a&amp;b"),
            (
                "*a* _b_ __c__ ~d~ [e](f) $g$",
                "\\*a\\* \\_b\\_ \\_\\_c\\_\\_ \\~d\\~ \\[e\\](f) \\$g\\$",
            ),
            ("[x](http://y) @all #1", "`[x](http://y`) `@all` `#1`"),
            ("see www.x.example now", "see `www.x.example` now"),
            ("- a", "`-` a"),
            ("1. a", "`1.` a"),
            ("a`b <i>", "a`` ` ``b &lt;i&gt;"),
            ("`a``b`*c*", "`a` `b`\\*c\\*"),
            ("a\n# b", "`a\\n#` b"),
        ] {
            assert_eq!(markdown_text(text), expected);
        }
        assert_eq!(markdown_code("a`b"), "``a`b``");
        assert_eq!(markdown_code("`a"), "`` `a ``");
        assert_eq!(
            markdown_fence("ini", "a\n```\u{1b}\n"),
            "````ini\na\n```\\x1b\n````\n"
        );
    }
}
