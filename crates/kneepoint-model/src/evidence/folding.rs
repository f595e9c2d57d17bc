//! Folds identifiers out of what is counted: `/post/123` and `/post/124` are one route, and two queries that differ in
//! their values are one query.

use std::fmt::Write as _;

/// A path of a URL with its identifiers folded, without its query, which may hold secrets: `/post/{n}`.
#[must_use]
pub fn fold_path(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut folded = String::with_capacity(path.len());
    for (index, segment) in path.split('/').enumerate() {
        if index > 0 {
            folded.push('/');
        }
        if !fold_word(segment, &mut folded) {
            folded.push_str(segment);
        }
    }
    folded
}

/// Whose SQL a query is: what quotes and backslashes mean differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sql {
    /// `"..."` is a name, and a backslash in `'...'` is a character like any other; in `E'...'` it is not.
    Postgresql,
    /// `"..."` is a value like `'...'`, and a backslash takes the next character's meaning; names stand in `` `...` ``.
    /// Under `ANSI_QUOTES` names in quotes are left out as well, which tells less and never a value.
    Mysql,
}

/// A query without its values: strings, numbers and placeholders become `?`, lists of them `?, ...`, white space one
/// space. Names stay as they are, also quoted as the database has it (`"orders"`, `` `orders` ``).
#[must_use]
pub fn fold_query(sql: Sql, query: &str) -> String {
    let mut folded = String::with_capacity(query.len());
    let mut rest = query.trim();
    while let Some(first) = rest.chars().next() {
        let (taken, part) = part(sql, first, rest);
        match (part, list(&folded)) {
            // However long a list of values is, it is the same query.
            (Part::Value, Some(begins)) => {
                folded.truncate(begins);
                folded.push_str("?, ...");
            }
            (Part::Value, None) => folded.push('?'),
            (Part::Space, _) => folded.push(' '),
            (Part::Comment, _) => {}
            (Part::Text, _) => folded.push_str(&rest[..taken]),
        }
        rest = &rest[taken..];
    }
    folded
}

/// Where the list of values begins that a folded query ends in, with a comma.
fn list(folded: &str) -> Option<usize> {
    let values = folded.trim_end().strip_suffix(',')?;
    let first = values.strip_suffix(", ...").unwrap_or(values);
    Some(first.strip_suffix('?')?.len())
}

/// A part of a query.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// A value, or what stands for one.
    Value,
    /// White space.
    Space,
    /// A comment, in which frameworks write who asks.
    Comment,
    /// Anything else.
    Text,
}

/// The next part of a query, and how many bytes it has.
fn part(sql: Sql, first: char, rest: &str) -> (usize, Part) {
    let run = |of: fn(char) -> bool| rest.find(|c| !of(c)).unwrap_or(rest.len());
    let word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    match first {
        '\'' => (quoted(rest, sql == Sql::Mysql), Part::Value),
        '"' if sql == Sql::Mysql => (quoted(rest, true), Part::Value),
        'E' | 'e' if sql == Sql::Postgresql && rest[1..].starts_with('\'') => {
            (1 + quoted(&rest[1..], true), Part::Value)
        }
        '#' if sql == Sql::Mysql => (run(|c| c != '\n'), Part::Comment),
        '"' | '`' => {
            let end = rest[1..].find(first).map_or(rest.len(), |at| at + 2);
            (end, Part::Text)
        }
        '?' => (1, Part::Value),
        '$' => (dollars(rest).unwrap_or_else(|| run(word)), Part::Value),
        '/' if rest.starts_with("/*") => (
            rest.find("*/").map_or(rest.len(), |at| at + 2),
            Part::Comment,
        ),
        '-' if rest.starts_with("--") => (run(|c| c != '\n'), Part::Comment),
        c if c.is_whitespace() => (run(char::is_whitespace), Part::Space),
        c if c.is_ascii_digit() => (
            run(|c| c.is_alphanumeric() || c == '.' || c == '_'),
            Part::Value,
        ),
        c if word(c) => (run(word), Part::Text),
        c => (c.len_utf8(), Part::Text),
    }
}

/// The length of a text between two of the same `$tag$`, as PostgreSQL has them.
fn dollars(rest: &str) -> Option<usize> {
    let tag = &rest[..=rest[1..].find('$')? + 1];
    let is_tag = tag
        .chars()
        .all(|c| c == '$' || c == '_' || c.is_alphanumeric());
    let number = tag[1..].starts_with(|c: char| c.is_ascii_digit());
    if !is_tag || number {
        return None;
    }
    let within = &rest[tag.len()..];
    let end = within.find(tag).map_or(within.len(), |at| at + tag.len());
    Some(tag.len() + end)
}

/// The length of a text in quotes, in which two of them, or where backslashes escape one behind a backslash, stand for
/// one.
fn quoted(rest: &str, escapes: bool) -> usize {
    let bytes = rest.as_bytes();
    let quote = bytes.first();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' if escapes => at += 2,
            _ if Some(byte) != quote => at += 1,
            _ if bytes.get(at + 1) == quote => at += 2,
            _ => return at + 1,
        }
    }
    rest.len()
}

/// Writes the folded form of a word that looks like an identifier; `false`, and nothing, when it does not: `{n}`,
/// `{uuid}`, `{hex}`, `{email}`, `{token}`, `{n}-{slug}`, and names with a number behind them.
pub fn fold_word(word: &str, out: &mut String) -> bool {
    if let Some(folded) = whole(word) {
        out.push_str(folded);
        return true;
    }
    if !word.bytes().any(|b| b.is_ascii_digit()) {
        return false;
    }
    // `123.html`: the extension tells more than the number.
    if let Some((stem, extension)) = word.rsplit_once('.')
        && (1..=5).contains(&extension.len())
        && extension.bytes().all(|b| b.is_ascii_alphabetic())
        && let Some(folded) = whole(stem)
    {
        let _ = write!(out, "{folded}.{extension}");
        return true;
    }
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    // `123-a-title`.
    if let Some((number, _)) = word.split_once('-')
        && digits(number)
    {
        out.push_str("{n}-{slug}");
        return true;
    }
    // `post-123`.
    if let Some(at) = word.rfind(['-', '_'])
        && digits(&word[at + 1..])
        && word[..at].bytes().all(|b| b.is_ascii_alphabetic())
    {
        let _ = write!(out, "{}{{n}}", &word[..=at]);
        return true;
    }
    false
}

/// What a word as a whole is.
fn whole(word: &str) -> Option<&'static str> {
    let bytes = word.as_bytes();
    if bytes.is_empty() {
        return None;
    }
    let count = |wanted: fn(&u8) -> bool| bytes.iter().filter(|b| wanted(b)).count();
    let digits = count(u8::is_ascii_digit);
    if digits == bytes.len() {
        return Some("{n}");
    }
    let hex = count(u8::is_ascii_hexdigit);
    let dashes = [8, 13, 18, 23];
    if bytes.len() == 36 && hex == 32 && dashes.iter().all(|at| bytes[*at] == b'-') {
        return Some("{uuid}");
    }
    if hex == bytes.len() && bytes.len() >= 8 && digits > 0 {
        return Some("{hex}");
    }
    if word.contains('@') && word.contains('.') {
        return Some("{email}");
    }
    // Random text of at least 96 bits, in Base64 or Base62: letters of both cases and digits, no words.
    let plain = count(|b| b.is_ascii_alphanumeric() || *b == b'-' || *b == b'_' || *b == b'=');
    let a_word = |part: &str| part.len() > 3 && part.bytes().all(|b| b.is_ascii_alphabetic());
    let token = plain == bytes.len()
        && !word.split(['-', '_']).any(a_word)
        && bytes.len() >= 16
        && digits >= 2
        && count(u8::is_ascii_uppercase) >= 2
        && (count(u8::is_ascii_lowercase) >= 2 || bytes.len() >= 24);
    token.then_some("{token}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_lose_their_identifiers_and_their_query() {
        for (path, expected) in [
            ("/", "/"),
            (
                "/orders/7/items/9fceb02d0ae598e95dc970b74767f193",
                "/orders/{n}/items/{hex}",
            ),
            ("/orders?token=secret", "/orders"),
            ("", ""),
        ] {
            assert_eq!(fold_path(path), expected, "{path}");
        }
    }

    #[test]
    fn queries_lose_their_values() {
        for (query, expected) in [
            (
                "select * from \"orders\" where \"id\" = $1",
                "select * from \"orders\" where \"id\" = ?",
            ),
            (
                "select * from t2 where id in (?,?,?) limit 5",
                "select * from t2 where id in (?, ...) limit ?",
            ),
            ("select 1", "select ?"),
            (
                "  insert into t2 (a, b)\n values ('it''s', 4.5e3)",
                "insert into t2 (a, b) values (?, ...)",
            ),
            (
                "delete from t where id in (1, 2, 3,4)",
                "delete from t where id in (?, ...)",
            ),
            ("select 'never closed", "select ?"),
            ("select $$it is secret$$, $a$b$$c$a$, $1", "select ?, ..."),
            (
                "select a /* trace 77 */ from b -- by ann\nwhere c",
                "select a  from b  where c",
            ),
        ] {
            assert_eq!(fold_query(Sql::Postgresql, query), expected, "{query}");
        }
    }

    #[test]
    fn what_a_quote_means_is_the_databases() {
        use Sql::{Mysql, Postgresql};
        for (sql, query, expected) in [
            (
                Mysql,
                "select `a` from b where c = 'x\\'y' and d = 0x1F",
                "select `a` from b where c = ? and d = ?",
            ),
            (
                Mysql,
                r#"select * from users where email = "ann@example.org" and token = "a\"b""c" # t=abc"#,
                "select * from users where email = ? and token = ? ",
            ),
            (
                Postgresql,
                r"select * from files where path = 'C:\' and token = 'abc'",
                "select * from files where path = ? and token = ?",
            ),
            (
                Postgresql,
                r#"select "e" from t where a = E'x\'abc' and e = 'd'"#,
                "select \"e\" from t where a = ? and e = ?",
            ),
        ] {
            assert_eq!(fold_query(sql, query), expected, "{query}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}", query in "[a-z'\"`\\\\ ,0-9é$?./*-]{0,60}") {
            for text in [&text, &query] {
                let _ = (fold_path(text), fold_query(Sql::Postgresql, text), fold_query(Sql::Mysql, text));
            }
        }

        #[test]
        fn no_value_stays(
            value in "[a-z]{4,12}",
            before in r"[a-z' \\]{0,6}",
            mysql in any::<bool>(),
            double in any::<bool>(),
        ) {
            let (sql, quote) = if mysql { (Sql::Mysql, if double { '"' } else { '\'' }) } else { (Sql::Postgresql, '\'') };
            let mut inner = before.replace(quote, &format!("{quote}{quote}"));
            if mysql {
                inner = inner.replace('\\', r"\\");
            }
            let text = format!("{quote}{inner}{quote}");
            let folded = fold_query(sql, &format!("select * from t where p = {text} and a = {quote}{value}{quote} and b in ({text}, '{value}')"));
            prop_assert_eq!(folded, "select * from t where p = ? and a = ? and b in (?, ...)");
        }
    }
}
