//! Which names carry secrets.

/// Parts of a name that make it secret wherever they stand in it.
const TELLING: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "credential",
    "apikey",
    "privatekey",
    "accesskey",
    "requirepass",
    "masterauth",
    "sessid",
];

/// Whole words of a name that make it secret.
const WORDS: &[&str] = &["pwd", "dsn", "token", "bearer", "jwt"];

/// nginx directives that end in "pass" and mean a destination.
const DESTINATIONS: &[&str] = &["proxy", "fastcgi", "uwsgi", "scgi", "grpc", "memcached"];

/// HTTP headers that carry who somebody is.
const HEADERS: &[&str] = &[
    "cookie",
    "set-cookie",
    "authorization",
    "proxy-authorization",
];

/// Whether a setting, environment variable, parameter or header with this name carries a secret:
/// `DB_PASSWORD`, `app_key`, `apiToken`, `MAILER_DSN`, `Cookie`; but not `proxy_pass`, `server_tokens`,
/// `key_buffer_size` or `opcache.max_keys`.
#[must_use]
pub fn is_secret_name(name: &str) -> bool {
    let words = words(name);
    let shouted = !name.chars().any(char::is_lowercase);
    let Some(last) = words.last() else {
        return false;
    };
    let several = words.len() > 1;
    if is_header(name)
        || words.iter().any(|word| {
            WORDS.contains(&word.as_str()) || TELLING.iter().any(|part| word.contains(part))
        })
    {
        return true;
    }
    let pair = |a: &str, b: &str| words.windows(2).any(|w| w[0] == a && w[1] == b);
    match last.as_str() {
        "key" | "salt" | "auth" => several || shouted,
        "keys" => shouted,
        "pass" => (several && !DESTINATIONS.contains(&words[0].as_str())) || shouted,
        _ => pair("access", "key") || pair("private", "key") || pair("api", "key"),
    }
}

/// Whether it is an HTTP header whose whole value is secret.
pub(super) fn is_header(name: &str) -> bool {
    HEADERS
        .iter()
        .any(|header| header.eq_ignore_ascii_case(name))
}

/// The words of a name in lower case, split at punctuation and at the humps of camel case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_lower = false;
    for c in name.chars() {
        let ends = !c.is_alphanumeric() || (c.is_uppercase() && before_lower);
        if ends && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        before_lower = c.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_names_are_told_from_ordinary_ones() {
        for name in [
            "DB_PASSWORD",
            "db.password",
            "redis.auth",
            "APP_KEY",
            "APP_PREVIOUS_KEYS",
            "apiToken",
            "MAILER_DSN",
            "AWS_ACCESS_KEY_ID",
            "requirepass",
            "DB_PASS",
            "mysql_pass",
            "Cookie",
            "Authorization",
            "x-api-key",
            "SECRET_KEY_BASE",
            "AUTH_SALT",
            "PHPSESSID",
            "ssl_certificate_key",
        ] {
            assert!(is_secret_name(name), "{name} carries a secret");
        }
        for name in [
            "",
            "proxy_pass",
            "fastcgi_pass",
            "server_tokens",
            "key_buffer_size",
            "opcache.max_keys",
            "keys",
            "key",
            "keepalive",
            "pm.max_children",
            "pass",
            "session.cookie_secure",
            "auth_basic",
            "opcache.max_accelerated_files",
            "auth",
            "listen.backlog",
        ] {
            assert!(!is_secret_name(name), "{name} carries none");
        }
    }
}
