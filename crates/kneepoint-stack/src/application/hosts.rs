//! Which hosts and sockets an application's own settings name, tried or not.

use super::lines::Lines;
use super::{FILES, code, dotenv};
use kneepoint_model::redact::is_secret_name;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Words of keys whose values are hosts.
const OF_HOSTS: [&str; 5] = ["HOST", "HOSTNAME", "SERVER", "ENDPOINT", "SERVERS"];
/// Keys of an application's own address, which is no other's.
const OWN: [&str; 7] = [
    "APP_URL",
    "ASSET_URL",
    "WP_HOME",
    "WP_SITEURL",
    "HTTP_HOST",
    "SERVER_NAME",
    "$wgServer",
];
/// Longest host or path that is told, in bytes: a name of DNS is no longer (RFC 1035), nor the path of a socket.
const LONGEST: usize = 253;

/// A host or a socket that a setting names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedHost {
    /// `127.0.0.1:6379`, `mail.example.test` or `/run/mysqld/mysqld.sock`: nothing else of the value.
    pub whom: String,
    /// What gets the value: `REDIS_HOST`.
    pub key: String,
    /// The file, relative to the application's root.
    pub file: PathBuf,
    /// Its line, counted from 1.
    pub line: usize,
}

/// All that the known files of settings below a root name, in the order of the files and their lines.
#[must_use]
pub fn named_hosts(root: &Path) -> Vec<NamedHost> {
    FILES
        .iter()
        .filter_map(|file| Some((Path::new(file), super::text(&root.join(file))?)))
        .flat_map(|(file, text)| named_in(file, &text))
        .collect()
}

/// The same of one file's text.
fn named_in(file: &Path, text: &str) -> Vec<NamedHost> {
    let settings = match file.extension().is_some_and(|ending| ending == "php") {
        true => of_code(text),
        false => of_dotenv(text),
    };
    let ports = ports(&settings);
    let port_beside = |key: &str| {
        let upper = key.to_ascii_uppercase();
        let at = upper.rfind("HOST").or_else(|| upper.rfind("SERVER"))?;
        ports.get(&upper[..at])?.parse::<u16>().ok()
    };
    let named = settings.iter().filter_map(|(line, key, value)| {
        let mut whom = whom(key, value)?;
        let has_port = whom.contains(':') || whom.starts_with('/');
        if let Some(port) = port_beside(key).filter(|_| !has_port) {
            whom = format!("{whom}:{port}");
        }
        Some(NamedHost {
            whom,
            key: key.clone(),
            file: file.to_owned(),
            line: *line,
        })
    });
    named.collect()
}

/// The first value of a key that begins with a name and `PORT`, by that name.
fn ports(settings: &[(usize, String, String)]) -> HashMap<String, &str> {
    let mut ports: HashMap<String, &str> = HashMap::new();
    let short = settings.iter().filter(|it| it.1.len() <= LONGEST);
    for (_, key, value) in short {
        let upper = key.to_ascii_uppercase();
        for (at, _) in upper.match_indices("PORT") {
            ports.entry(upper[..at].to_owned()).or_insert(value);
        }
    }
    ports
}

/// Line, key and value of each setting of an environment file.
fn of_dotenv(text: &str) -> Vec<(usize, String, String)> {
    let lines = text.lines().enumerate();
    let values = lines.flat_map(|(index, line)| {
        let values = dotenv::values(line).into_iter();
        values.map(move |(key, value)| (index + 1, key, value))
    });
    values.collect()
}

/// The same of PHP code: `define('KEY', 'value')`, `$key = 'value'`.
fn of_code(text: &str) -> Vec<(usize, String, String)> {
    let assignments = code::assignments(text);
    let mut lines = Lines::of(text);
    let values = assignments.iter().filter_map(|it| {
        let line = lines.at(it.whole);
        Some((
            line,
            it.target.to_owned(),
            it.text().or_else(|| number(it.value))?.to_owned(),
        ))
    });
    values.collect()
}

fn number(value: &str) -> Option<&str> {
    value.chars().all(|c| c.is_ascii_digit()).then_some(value)
}

/// Whom a value names, where it is a host, an address of one, or a socket.
fn whom(key: &str, value: &str) -> Option<String> {
    // What is called a DSN is a secret for what stands before its host.
    let is_secret = is_secret_name(key) && !key.to_ascii_uppercase().ends_with("DSN");
    if is_secret || OWN.contains(&key) || value.len() > 4 * LONGEST {
        return None;
    }
    let value = value.trim();
    if let Some((scheme, rest)) = value.split_once("://") {
        return match (scheme, host_in_url(rest)?) {
            ("unix", "") => socket(rest),
            (_, host) => host_of(host),
        };
    }
    let upper = key.to_ascii_uppercase();
    let mut words = upper.split(|c: char| !c.is_ascii_alphanumeric());
    let last = words.rfind(|word| !word.is_empty()).unwrap_or_default();
    let is_of = |words: &[&str]| words.iter().any(|word| last.ends_with(word));
    if is_of(&["SOCKET", "SOCK"]) || value.ends_with(".sock") && value.starts_with('/') {
        return socket(value.strip_prefix("unix:").unwrap_or(value));
    }
    if !is_of(&OF_HOSTS) {
        return None;
    }
    match value.split_once(":/") {
        // `localhost:/run/mysqld/mysqld.sock`, as WordPress has it.
        Some((_, path)) => socket(&format!("/{path}")),
        None if value.starts_with('/') => socket(value),
        None => host_of(value),
    }
}

/// The host, with its port where it has one, in what stands behind the `://` of a URL; `None` where it may be a piece of a
/// password.
#[must_use]
pub fn host_in_url(rest: &str) -> Option<&str> {
    let authority = rest.split(['/', '?', '#']).next()?;
    // An `@` further on may end a password that holds a slash: then this is a piece of it.
    let is_piece = rest[authority.len()..].contains('@');
    authority.rsplit('@').next().filter(|_| !is_piece)
}

fn socket(path: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let is_one = path.starts_with('/') && path.len() <= LONGEST && path.chars().all(fits);
    is_one.then(|| path.to_owned())
}

/// A host with its port, where it looks like one and not like a word.
fn host_of(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (text, None),
    };
    let real = name.contains('.') || name.contains(':') || name == "localhost" || port.is_some();
    let has_port = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let is_one =
        real && has_port && !name.is_empty() && text.len() <= LONGEST && text.chars().all(fits);
    is_one.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(file: &str, text: &str, expected: &[(usize, &str, &str)]) {
        let found = named_in(Path::new(file), text);
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.line, it.key.as_str(), it.whom.as_str()))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn hosts_of_an_environment_have_the_port_beside_them() {
        check(
            ".env",
            "APP_URL=http://shop.example.test\nDB_HOST=10.0.0.5\nDB_PORT=3307\nDB_DATABASE=shop\n# REDIS_HOST=10.0.0.9\n\
             REDIS_URL=\"redis://:s3cret@cache.example.test:6379/0\"\nMAIL_HOST=Mail.example.test\nQUEUE_SOCKET=/opt/q.sock\n\
             RATES_URL=https://api.example.test/v1?key=s3cret\nMAIL_FROM=a@example.test\nSESSION_DRIVER=redis\nLOG_SERVER=none\n",
            &[
                (2, "DB_HOST", "10.0.0.5:3307"),
                (6, "REDIS_URL", "cache.example.test:6379"),
                (7, "MAIL_HOST", "mail.example.test"),
                (8, "QUEUE_SOCKET", "/opt/q.sock"),
                (9, "RATES_URL", "api.example.test"),
            ],
        );
    }

    #[test]
    fn constants_and_variables_of_php_are_read_as_well() {
        check(
            "wp-config.php",
            "<?php\n// define('DB_HOST', '10.0.0.1');\ndefine( 'DB_HOST', 'localhost:/run/mysqld/mysqld.sock' );\n\
             define('WP_REDIS_HOST', '127.0.0.1');\ndefine('WP_REDIS_PORT', 6390);\ndefine('SMTP_HOST', getenv('S'));\n\
             define('WP_HOME', 'http://blog.example.test');\n$config['smtp_host'] = 'tls://mail.example.test:587';\n",
            &[
                (3, "DB_HOST", "/run/mysqld/mysqld.sock"),
                (4, "WP_REDIS_HOST", "127.0.0.1:6390"),
                (8, "$config['smtp_host']", "mail.example.test:587"),
            ],
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(<\\?php |define\\('|A_HOST|=|'|, |\\);|\n|://|@|:|/|1|é|\\[|\\]|\\.){0,40}") {
            let _ = named_in(Path::new("x.php"), &text);
            let _ = named_in(Path::new(".env"), &text);
        }

        #[test]
        fn no_password_is_told(password in "[A-Za-z0-9:@/?#]{8,20}[A-Za-z0-9]{8}") {
            for text in [
                format!("DB_PASSWORD={password}\nX_PASSWORD=http"),
                format!("APP_KEY={password}\n"),
            ] {
                prop_assert!(named_in(Path::new(".env"), &text).is_empty(), "{text}");
            }
            let secret = &password[password.len() - 8..];
            let text = format!("DB_URL=mysql://user:x{secret}@db.example.test/shop\n");
            for named in named_in(Path::new(".env"), &text) {
                prop_assert!(!named.whom.contains(secret), "{named:?}");
            }
        }
    }
}
