//! Finds secrets in text by their form: `NAME = value`, `scheme://user:password@host`, `Bearer ...`.

use super::HIDDEN;
use super::names::{
    is_harmless_field, is_harmless_variable, is_header, is_secret_name, is_secret_parameter,
};
use crate::folding::fold_word;

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
    let line = |line: &str| match grammar {
        Grammar::Prose => hide_tokens(&hide_assignments(&hide_urls(line), grammar)),
        Grammar::Configuration => hide_variable(&hide_assignments(&hide_urls(line), grammar)),
    };
    text.split_inclusive('\n').map(line).collect()
}

/// A text without a value that is known. Of a number only the whole is it: digits are everywhere.
pub(super) fn without(text: &str, value: &str) -> String {
    let number = value.bytes().all(|b| b.is_ascii_digit());
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(value) {
        let (before, after) = (&rest[..at], &rest[at + value.len()..]);
        let goes_on = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit() || c == '.');
        out.push_str(before);
        let inside = number && (goes_on(out.chars().next_back()) || goes_on(after.chars().next()));
        out.push_str(if inside { value } else { HIDDEN });
        rest = after;
    }
    out + rest
}

/// Whether a value is nothing but what stands for another one: `{DB_HOST}`, `{{user.name}}`.
pub(super) fn is_placeholder(value: &str) -> bool {
    let inner = value.trim_matches(['{', '}']);
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    value.starts_with('{') && value.ends_with('}') && !inner.is_empty() && inner.chars().all(fits)
}

/// The values that a body carries, its own names left out: of JSON, of a form, or all of it.
pub(super) fn values_in(body: &str) -> Vec<String> {
    if let Ok(json) = serde_json::from_str(body) {
        let mut values = Vec::new();
        leaves(&json, &mut values);
        return values;
    }
    let pairs: Vec<(&str, &str)> = body
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .collect();
    if pairs.is_empty() {
        return vec![body.to_owned()];
    }
    let unknown = pairs
        .into_iter()
        .filter(|(name, _)| !is_harmless_field(name));
    unknown.map(|(_, value)| value.to_owned()).collect()
}

fn leaves(json: &serde_json::Value, into: &mut Vec<String>) {
    use serde_json::Value::{Array, Bool, Null, Number, Object, String};
    match json {
        String(text) => into.push(text.clone()),
        Number(number) => into.push(number.to_string()),
        Array(items) => items.iter().for_each(|item| leaves(item, into)),
        Object(fields) => fields.values().for_each(|field| leaves(field, into)),
        Null | Bool(_) => {}
    }
}

/// Parts of a path that were made to be guessed by nobody, and addresses of people.
fn hide_tokens(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('/') {
        let (before, after) = rest.split_at(at + 1);
        out.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || "/?#\"'<>(),;:".contains(c))
            .unwrap_or(after.len());
        let (part, behind) = after.split_at(end);
        // Behind two of them stands a host.
        let host = out.ends_with("//");
        out.push_str(if !host && is_token(part) {
            HIDDEN
        } else {
            part
        });
        rest = behind;
    }
    out + rest
}

/// Bytes of the shortest hexadecimal text that is taken for a secret and not for a number.
const SHORTEST_HEX: usize = 20;

fn is_token(part: &str) -> bool {
    let mut folded = String::new();
    fold_word(part, &mut folded)
        && match folded.as_str() {
            "{token}" | "{email}" => true,
            "{hex}" => part.len() >= SHORTEST_HEX,
            _ => false,
        }
}

/// Directives that hand an environment variable or a parameter on.
const HANDING_ON: &[&str] = &[
    "fastcgi_param",
    "uwsgi_param",
    "scgi_param",
    "SetEnv",
    "env",
];

/// Parameters that the protocol between a web server and PHP defines.
const STANDARD: &[&str] = &[
    "CONTENT_",
    "DOCUMENT_",
    "GATEWAY_",
    "HTTPS",
    "PATH_",
    "PHP_",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_",
    "REQUEST_",
    "SCRIPT_",
    "SERVER_",
];

/// A line of a configuration without the value of a variable that it hands on: `env[NAME] = value`,
/// `fastcgi_param NAME value;`. Its name says little about it, as in `[app.env]`.
fn hide_variable(line: &str) -> String {
    let lead = line.len() - line.trim_start_matches(['+', '-', ' ', '\t']).len();
    let body = &line[lead..];
    let directive = HANDING_ON.iter().find_map(|name| {
        let rest = body.strip_prefix(name)?;
        rest.starts_with(['[', ' ', '\t']).then_some(name.len() + 1)
    });
    let Some(name_at) = directive else {
        return line.to_owned();
    };
    let named = body[name_at..].trim_start();
    let name_end = named
        .find(|c: char| c.is_whitespace() || matches!(c, ']' | '=' | ';'))
        .unwrap_or(named.len());
    let name = &named[..name_end];
    let value = named[name_end..].trim_start_matches([']', ' ', '\t', '=']);
    let end = value.trim_end_matches(['\n', '\r', ';']).len();
    let standard = STANDARD.iter().any(|it| name.starts_with(it));
    let other = value.starts_with(['$', '"']) && value.trim_start_matches('"').starts_with('$');
    if end == 0 || standard || other || is_harmless_variable(name) {
        return line.to_owned();
    }
    let value_at = line.len() - value.len();
    format!("{}{HIDDEN}{}", &line[..value_at], &value[end..])
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
        if let Some(value_at) = joined(&out, name, after, grammar) {
            let (joint, value) = after.split_at(value_at);
            let end = value_end(name, joint, value, grammar);
            out.push_str(joint);
            if is_placeholder(&value[..end]) {
                out.push_str(&value[..end]);
            } else if end > 0 {
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
fn joined(before: &str, name: &str, after: &str, grammar: Grammar) -> Option<usize> {
    let blanks = |text: &str| text.len() - text.trim_start_matches([' ', '\t']).len();
    if name.eq_ignore_ascii_case("bearer") {
        return after.starts_with(' ').then_some(1);
    }
    let is_parameter = before
        .strip_suffix(name)
        .is_some_and(|it| it.ends_with(['?', '&']));
    if is_parameter && after.starts_with('=') && is_secret_parameter(name) {
        return Some(1);
    }
    let name = name.trim_matches(['-', '.']);
    if !is_secret_name(name) {
        return None;
    }
    let mut at = 0;
    at += after[at..].len() - after[at..].trim_start_matches(['"', '\'', ']']).len();
    let before_blank = at;
    at += blanks(&after[at..]);
    // PHP's `define('NAME', 'value')` has a comma for its sign.
    let is_constant = before.strip_suffix(name).is_some_and(opens_define);
    let sign = ["=>", "=", ":", "%3D"]
        .into_iter()
        .chain(is_constant.then_some(","))
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

/// Whether a text ends with `define('`.
fn opens_define(text: &str) -> bool {
    let open = text.trim_end_matches(['"', '\'']);
    let open = open.trim_end().strip_suffix('(').map(str::trim_end);
    let name = open.and_then(|open| {
        open.len()
            .checked_sub("define".len())
            .map(|at| open.get(at..))
    });
    name.flatten()
        .is_some_and(|name| name.eq_ignore_ascii_case("define"))
}

/// How long the value is.
fn value_end(name: &str, joint: &str, value: &str, grammar: Grammar) -> usize {
    let trimmed = value.trim_end_matches(['\n', '\r']).len();
    if is_header(name) {
        return trimmed;
    }
    let end = match joint.chars().last().filter(|c| matches!(c, '"' | '\'')) {
        Some(quote) => value.find(quote),
        // A constant whose value is computed: its default may stand in the call.
        None if joint.trim_end().ends_with(',') => value.rfind(");"),
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
            ("redis://•••@10.0.0.1 down", "redis://•••@10.0.0.1 down"),
            ("Authorization: Basic YWJj Zm9v", "Authorization: •••"),
            ("sent Bearer abc.def twice", "sent Bearer ••• twice"),
            ("'password' => 'abc'", "'password' => '•••'"),
            (
                "define('DB_PASSWORD', 'a b');",
                "define('DB_PASSWORD', '•••');",
            ),
            (
                "define( \"DB_PASSWORD\" , \"abc\" );",
                "define( \"DB_PASSWORD\" , \"•••\" );",
            ),
            (
                "define( 'DB_PASSWORD', getenv_docker('WORDPRESS_DB_PASSWORD', 'example password') );",
                "define( 'DB_PASSWORD', •••);",
            ),
            (
                "only('password', 'remember')",
                "only('password', 'remember')",
            ),
            ("define('WP_DEBUG', false);", "define('WP_DEBUG', false);"),
            ("DatabaseAuth: abc", "DatabaseAuth: •••"),
            ("DB_PASSWORD::abc", "DB_PASSWORD:•••"),
            ("Mail::PASSWORD = 'abc'", "Mail::PASSWORD = '•••'"),
            ("$this->password:abc", "$this->password:•••"),
            ("token: 12", "token: •••"),
            (
                "GET /in?code=abc&page=2&reset_token=xyz&X-Amz-Signature=9f",
                "GET /in?code=•••&page=2&reset_token=•••&X-Amz-Signature=•••",
            ),
            (
                "/a?key={{user.key}}&token=abc",
                "/a?key={{user.key}}&token=•••",
            ),
            (
                "GET /reset/9fceb02d0ae598e95dc970b74767f193/ok, /u/ann@example.org: 500",
                "GET /reset/•••/ok, /u/•••: 500",
            ),
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
            (" env[STRIPE_SK] = sk_live_1\n", " env[STRIPE_SK] = •••\n"),
            (
                " env[APP_ENV] = production\n",
                " env[APP_ENV] = production\n",
            ),
            (
                "  fastcgi_param SLACK https://hooks/T0/B0;\n",
                "  fastcgi_param SLACK •••;\n",
            ),
            (
                "  fastcgi_param HTTPS on;\n  fastcgi_param X $y;\n",
                "  fastcgi_param HTTPS on;\n  fastcgi_param X $y;\n",
            ),
        ] {
            check(Grammar::Configuration, text, expected);
        }
    }
}
