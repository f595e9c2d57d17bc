//! Finds secrets in text by their form: `NAME = value`, `scheme://user:password@host`, `Bearer ...`.

use super::HIDDEN;
use super::names::{is_header, is_secret_name};

/// How a name and its value may be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grammar {
    /// By `=`, `:` or `=>`: a blank alone joins words of a sentence.
    Prose,
    /// By a blank too, as in nginx and Redis configuration.
    Configuration,
}

/// The user and password of the first URL in a text.
pub(super) fn credentials(text: &str) -> Option<&str> {
    let rest = &text[text.find("://")? + 3..];
    let authority = &rest[..rest.find(ends_authority).unwrap_or(rest.len())];
    authority.rfind('@').map(|at| &authority[..at])
}

fn ends_authority(c: char) -> bool {
    c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>' | ';' | ',')
}

/// The text with everything hidden that looks like a secret.
pub(super) fn hide(text: &str, grammar: Grammar) -> String {
    text.split_inclusive('\n')
        .map(|line| hide_assignments(&hide_urls(line), grammar))
        .collect()
}

fn hide_urls(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        out.push_str(head);
        rest = tail;
        if let Some(secret) = credentials(&format!("://{tail}")) {
            out.push_str(HIDDEN);
            rest = &tail[secret.len()..];
        }
    }
    out + rest
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn hide_assignments(line: &str, grammar: Grammar) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find(is_name) {
        let (before, from_name) = rest.split_at(start);
        let (name, after) =
            from_name.split_at(from_name.find(|c| !is_name(c)).unwrap_or(from_name.len()));
        out.push_str(before);
        let code = is_code(&out, name, after);
        out.push_str(name);
        rest = after;
        if code {
            continue;
        }
        if let Some(value_at) = joined(name, after, grammar) {
            let (joint, value) = after.split_at(value_at);
            let end = value_end(name, joint, value, grammar);
            out.push_str(joint);
            if end > 0 {
                out.push_str(HIDDEN);
            }
            rest = &value[end..];
        }
    }
    out + rest
}

/// Whether a name stands for a piece of PHP, whatever it sounds like: a class before its member
/// (`DatabaseAuth::authenticate`), or a file or a method before its line (`Token.php:12`, `Auth::checkToken:12`).
fn is_code(before: &str, name: &str, after: &str) -> bool {
    let class = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
    let member = |rest: &str| rest.starts_with(|c: char| c.is_alphabetic() || "_${".contains(c));
    let line = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let place = name.ends_with(".php") || before.ends_with("::") || before.ends_with("->");
    (class && after.strip_prefix("::").is_some_and(member))
        || (place && after.strip_prefix(':').is_some_and(line))
}

/// Where the value of a secret name begins in what follows the name; `None` when the name is ordinary or
/// nothing is assigned.
fn joined(name: &str, after: &str, grammar: Grammar) -> Option<usize> {
    let blanks = |text: &str| text.len() - text.trim_start_matches([' ', '\t']).len();
    if name.eq_ignore_ascii_case("bearer") {
        return after.starts_with(' ').then_some(1);
    }
    let name = name.trim_matches(['-', '.']);
    if !is_secret_name(name) {
        return None;
    }
    let mut at = 0;
    at += after[at..].len() - after[at..].trim_start_matches(['"', '\'', ']']).len();
    let before_blank = at;
    at += blanks(&after[at..]);
    let sign = ["=>", "=", ":", "%3D"]
        .into_iter()
        .find(|sign| after[at..].starts_with(sign));
    match sign {
        Some(sign) => at += sign.len(),
        None if grammar == Grammar::Configuration && at > before_blank => {}
        None => return None,
    }
    at += blanks(&after[at..]);
    if after[at..].starts_with(['"', '\'']) {
        at += 1;
    }
    Some(at)
}

/// How long the value is.
fn value_end(name: &str, joint: &str, value: &str, grammar: Grammar) -> usize {
    let trimmed = value.trim_end_matches(['\n', '\r']).len();
    if is_header(name) {
        return trimmed;
    }
    let end = match joint.chars().last().filter(|c| matches!(c, '"' | '\'')) {
        Some(quote) => value.find(quote),
        None if grammar == Grammar::Configuration => value.find(';'),
        None => value.find(|c: char| {
            c.is_whitespace() || matches!(c, ';' | ',' | '&' | ')' | '"' | '\'' | '<')
        }),
    };
    end.unwrap_or(trimmed).min(trimmed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(grammar: Grammar, text: &str, expected: &str) {
        assert_eq!(hide(text, grammar), expected);
        assert_eq!(
            hide(expected, grammar),
            expected,
            "hiding twice changes nothing more"
        );
    }

    #[test]
    fn prose_hides_assignments_urls_and_headers() {
        for (text, expected) in [
            ("set DB_PASSWORD=abc, then", "set DB_PASSWORD=•••, then"),
            ("php.env.DB_PASSWORD = abc", "php.env.DB_PASSWORD = •••"),
            (
                r#"{"password":"a b","user":"me"}"#,
                r#"{"password":"•••","user":"me"}"#,
            ),
            ("GET /?token=abc&page=2", "GET /?token=•••&page=2"),
            (
                "redis://:abc@10.0.0.1:6379/0 down",
                "redis://•••@10.0.0.1:6379/0 down",
            ),
            ("Authorization: Basic YWJj Zm9v", "Authorization: •••"),
            ("sent Bearer abc.def twice", "sent Bearer ••• twice"),
            ("'password' => 'abc'", "'password' => '•••'"),
            ("DatabaseAuth: abc", "DatabaseAuth: •••"),
            ("DB_PASSWORD::abc", "DB_PASSWORD:•••"),
            ("Mail::PASSWORD = 'abc'", "Mail::PASSWORD = '•••'"),
            ("$this->password:abc", "$this->password:•••"),
            ("token: 12", "token: •••"),
        ] {
            check(Grammar::Prose, text, expected);
        }
    }

    #[test]
    fn ordinary_text_stays() {
        for text in [
            "the password was wrong twice",
            "fastcgi_pass = 127.0.0.1:9000; keepalive = 32",
            "hash keys: 16 229 of 16 229",
            "http://10.0.0.1/ answered",
            "größe: 3 – ärger = 4",
            "password:",
            r"Kanboard\Auth\DatabaseAuth::authenticate takes 81 %",
            r"App\Security\UserToken::$all, Cookie::make and Passwords::{closure}",
            "src/Security/TokenStorage.php:12, Auth::checkToken:31, $this->readToken:7",
        ] {
            check(Grammar::Prose, text, text);
        }
    }

    #[test]
    fn configuration_joins_by_blanks_too() {
        for (text, expected) in [
            ("-requirepass abc def\n+x 1\n", "-requirepass •••\n+x 1\n"),
            (
                "+  fastcgi_param DB_PASSWORD abc;",
                "+  fastcgi_param DB_PASSWORD •••;",
            ),
            (" env[DB_PASSWORD] = abc\n", " env[DB_PASSWORD] = •••\n"),
            ("+    proxy_pass http://app;", "+    proxy_pass http://app;"),
            ("+    server_tokens off;", "+    server_tokens off;"),
        ] {
            check(Grammar::Configuration, text, expected);
        }
    }
}
