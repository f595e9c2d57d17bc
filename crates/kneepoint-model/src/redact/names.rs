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

/// Names of parameters and fields that open doors, beside those that are secret anywhere: as a whole.
const PARAMETERS: &[&str] = &[
    "auth", "code", "hash", "key", "pass", "pin", "session", "otp", "nonce", "ticket",
];
/// The same for any word of the name: `reset_token`, `X-Amz-Signature`.
const PARAMETER_WORDS: &[&str] = &[
    "token",
    "jwt",
    "sid",
    "sig",
    "signature",
    "pass",
    "csrf",
    "otp",
];

/// Environment variables whose values say how something is set, and open nothing.
const VARIABLES: &[&str] = &[
    "APP_DEBUG",
    "APP_ENV",
    "APP_LOCALE",
    "APP_TIMEZONE",
    "BROADCAST_CONNECTION",
    "BROADCAST_DRIVER",
    "CACHE_DRIVER",
    "CACHE_STORE",
    "DB_CHARSET",
    "DB_COLLATION",
    "DB_CONNECTION",
    "DB_HOST",
    "DB_PORT",
    "FILESYSTEM_DISK",
    "LOG_CHANNEL",
    "LOG_LEVEL",
    "MAIL_MAILER",
    "PHP_CLI_SERVER_WORKERS",
    "QUEUE_CONNECTION",
    "QUEUE_DRIVER",
    "REDIS_CLIENT",
    "REDIS_HOST",
    "REDIS_PORT",
    "SESSION_DRIVER",
    "SESSION_LIFETIME",
    "TZ",
    "WP_CACHE",
    "WP_DEBUG",
];

/// Request headers whose values say what a client takes, and not who it is.
const HARMLESS_HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-encoding",
    "content-language",
    "content-type",
    "expect",
    "host",
    "if-modified-since",
    "origin",
    "pragma",
    "user-agent",
    "x-forwarded-proto",
    "x-requested-with",
];

/// Fields of forms whose values say which page is meant.
const HARMLESS_FIELDS: &[&str] = &[
    "_method", "action", "dir", "lang", "limit", "locale", "offset", "order", "page", "per_page",
    "q", "qty", "quantity", "s", "search", "sort", "step", "submit",
];

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

/// Whether the value of a parameter of a URL with this name opens doors: secret names, and `reset_token`, `jwt`, `code`,
/// `X-Amz-Signature`.
#[must_use]
pub fn is_secret_parameter(name: &str) -> bool {
    let whole = PARAMETERS.iter().any(|it| it.eq_ignore_ascii_case(name));
    let mut words = words(name).into_iter();
    whole || is_secret_name(name) || words.any(|word| PARAMETER_WORDS.contains(&word.as_str()))
}

/// Whether an environment variable is known to hold nothing that opens doors.
#[must_use]
pub fn is_harmless_variable(name: &str) -> bool {
    VARIABLES.contains(&name)
}

pub(super) fn is_harmless_header(name: &str) -> bool {
    listed(HARMLESS_HEADERS, name)
}

pub(super) fn is_harmless_field(name: &str) -> bool {
    listed(HARMLESS_FIELDS, name)
}

/// Whether a header holds cookies.
pub(super) fn is_cookie(name: &str) -> bool {
    name.eq_ignore_ascii_case("cookie")
}

fn listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Whether it is an HTTP header whose whole value is secret.
pub(super) fn is_header(name: &str) -> bool {
    listed(HEADERS, name)
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

    #[test]
    fn parameters_that_open_doors_are_told_from_others() {
        for name in [
            "reset_token",
            "jwt",
            "code",
            "X-Amz-Signature",
            "_token",
            "sid",
            "key",
        ] {
            assert!(is_secret_parameter(name), "{name} opens a door");
        }
        for name in [
            "page",
            "country_code",
            "q",
            "passage",
            "sidebar",
            "keyword",
            "sort",
        ] {
            assert!(!is_secret_parameter(name), "{name} opens none");
        }
    }
}
