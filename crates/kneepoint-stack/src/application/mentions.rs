//! Where an application's settings name a host: the file, the line and the key, never the value.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Largest file that is looked into, in bytes: files of settings are far smaller.
const LARGEST: u64 = 512 << 10;
/// Most files that are looked into, and most directories below one another.
const MOST_FILES: usize = 4000;
const DEEPEST: usize = 8;
/// Most places that are told.
const MOST: usize = 4;

/// Directories of the code of others, of what is kept and of tests: nobody configures an application there.
const NOT_HERE: [&str; 12] = [
    "vendor",
    "node_modules",
    "storage",
    "var",
    "cache",
    "tests",
    "test",
    "wp-includes",
    "wp-admin",
    "docs",
    "uploads",
    "dist",
];

/// Endings of files that may hold settings.
const ENDINGS: [&str; 11] = [
    "php",
    "inc",
    "yaml",
    "yml",
    "ini",
    "xml",
    "json",
    "neon",
    "conf",
    "cnf",
    "properties",
];

/// Words in the keys of services, by the port that these have where a setting names none.
const USUAL: [(u16, &[&str]); 9] = [
    (3306, &["db", "database", "mysql", "mariadb"]),
    (5432, &["db", "database", "pg", "pgsql", "postgres"]),
    (6379, &["redis"]),
    (11211, &["memcached", "memcache"]),
    (25, &["mail", "mailer", "smtp"]),
    (587, &["mail", "mailer", "smtp"]),
    (1025, &["mail", "mailer", "smtp"]),
    (9200, &["elastic", "elasticsearch", "opensearch"]),
    (5672, &["amqp", "rabbitmq"]),
];

/// A place that names a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    /// The file, relative to the application's root where it is in there.
    pub file: PathBuf,
    /// Its line, counted from 1; `None` where the setting is not in a file.
    pub line: Option<usize>,
    /// What gets the value: `REDIS_HOST`, `$config['smtp_host']`; empty where that is not to be told.
    pub key: String,
    /// The scheme of the address it stands in: `http`.
    pub scheme: Option<String>,
    /// The port behind it.
    pub port: Option<u16>,
    rank: u8,
}

/// A host to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mentioned {
    /// What it may be called: `127.0.0.1` and `localhost`, or the path of a socket.
    pub names: Vec<String>,
    /// The port that was asked for; none where that is not known.
    pub port: Option<u16>,
}

impl Mentioned {
    /// A host by its name, or a socket by its path.
    #[must_use]
    pub fn name(name: &str) -> Self {
        Self {
            names: vec![name.to_owned()],
            port: None,
        }
    }

    /// An address. That of this machine has a name, too.
    #[must_use]
    pub fn address(ip: IpAddr, port: u16) -> Self {
        let mut names = vec![ip.to_string()];
        if ip.is_loopback() {
            names.push("localhost".to_owned());
        }
        Self {
            names,
            port: Some(port),
        }
    }
}

/// Where the files of settings below a root name a host. The likeliest places only, at most four.
#[must_use]
pub fn mentions(root: &Path, wanted: &Mentioned) -> Vec<Mention> {
    let mut found = Vec::new();
    for path in files(root) {
        let Some(text) = super::text(&root.join(&path)) else {
            continue;
        };
        found.extend(mentions_in(&path, &text, wanted));
    }
    likeliest(found)
}

/// The likeliest of these places, at most four.
#[must_use]
pub fn likeliest(mut found: Vec<Mention>) -> Vec<Mention> {
    let best = found.iter().map(|it| it.rank).min();
    found.retain(|it| Some(it.rank) == best);
    found.truncate(MOST);
    found
}

/// Files that may hold settings, relative to the root: those named after that first, then by their paths. Links are not
/// followed.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![(PathBuf::new(), 0)];
    while let Some((dir, depth)) = dirs.pop() {
        let Ok(entries) = std::fs::read_dir(root.join(&dir)) else {
            continue;
        };
        for entry in entries.flatten() {
            let Ok(about) = entry.metadata() else {
                continue;
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = dir.join(&name);
            if about.is_dir() {
                let settled = NOT_HERE.contains(&name.as_str()) || name.starts_with('.');
                if !settled && depth < DEEPEST {
                    dirs.push((path, depth + 1));
                }
            } else if about.is_file() && about.len() <= LARGEST && may_hold_settings(&path) {
                found.push(path);
            }
        }
        if found.len() >= MOST_FILES {
            break;
        }
    }
    found.sort_by_key(|path| {
        let text = path.to_string_lossy().to_ascii_lowercase();
        let named = text.contains(".env") || text.contains("config") || text.contains("setting");
        (!named, path.components().count(), path.clone())
    });
    found
}

fn may_hold_settings(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    // An example is read by nobody.
    let example = name.contains("example") || name.contains("sample") || name.contains(".dist");
    !example && (name.starts_with(".env") || ENDINGS.contains(&ending))
}

/// Where a text of settings names a host. Comments do not count.
#[must_use]
pub fn mentions_in(file: &Path, text: &str, wanted: &Mentioned) -> Vec<Mention> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        if ["#", "//", "*", "/*", ";", "<!--"]
            .iter()
            .any(|start| bare.starts_with(start))
        {
            continue;
        }
        for name in &wanted.names {
            let Some(at) = place_of(line, name) else {
                continue;
            };
            let behind = &line[at + name.len()..];
            let port = port_behind(behind);
            if port.is_some() && wanted.port.is_some() && port != wanted.port {
                continue;
            }
            let (key, scheme) = key_before(&line[..at]);
            let scheme = scheme.or_else(|| scheme_joined(text, &key));
            let rank = match wanted.port {
                Some(wanted) if port != Some(wanted) => rank(text, &key, scheme.as_deref(), wanted),
                _ => 0,
            };
            found.push(Mention {
                file: file.to_owned(),
                line: Some(index + 1),
                key,
                scheme,
                port,
                rank,
            });
            break;
        }
    }
    found
}

/// Where a line names a host, and not another that is only called alike.
fn place_of(line: &str, name: &str) -> Option<usize> {
    let belongs = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let lower = line.to_ascii_lowercase();
    let name = name.to_ascii_lowercase();
    let found = lower.match_indices(&name).find(|(at, _)| {
        let before = lower[..*at].chars().next_back();
        let mut behind = lower[at + name.len()..].chars();
        let next = behind.next();
        let ends = match next {
            // The dot at the end of a sentence, or of a name that says it is whole.
            Some('.') => !behind.next().is_some_and(belongs),
            Some(next) => !belongs(next),
            None => true,
        };
        !before.is_some_and(belongs) && ends
    });
    found.map(|(at, _)| at)
}

fn port_behind(text: &str) -> Option<u16> {
    let digits = text.strip_prefix(':')?;
    let end = digits.find(|c: char| !c.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

/// How well a place fits a port that it does not name: 1 best.
fn rank(text: &str, key: &str, scheme: Option<&str>, port: u16) -> u8 {
    let usual = match scheme {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    };
    if usual.is_some() {
        return if usual == Some(port) { 1 } else { 4 };
    }
    let upper = key.to_ascii_uppercase();
    if let Some(at) = upper.find("HOST") {
        let beside = format!("{}PORT", &upper[..at]);
        let digits = port.to_string();
        let names_it = |line: &str| {
            line.to_ascii_uppercase().contains(&beside) && place_of(line, &digits).is_some()
        };
        if text.lines().any(names_it) {
            return 1;
        }
    }
    let lower = key.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let of_port = USUAL.iter().filter(|(usual, _)| *usual == port);
    let known: Vec<&str> = of_port
        .flat_map(|(_, words)| words.iter().copied())
        .collect();
    match words.any(|word| known.contains(&word)) {
        true => 2,
        false => 3,
    }
}

/// The key before a value, and the scheme of the address in which the value stands.
fn key_before(before: &str) -> (String, Option<String>) {
    let opens = |c: char| c.is_whitespace() || "'\"=,(>`".contains(c);
    let start = before
        .char_indices()
        .rev()
        .find(|(_, c)| opens(*c))
        .map_or(0, |(at, c)| at + c.len_utf8());
    let address = before.rfind(|c: char| c.is_whitespace() || "'\"`".contains(c));
    let address = &before[address.unwrap_or(0)..];
    let scheme = address.find("://").map(|at| {
        let left = &address[..at];
        let is_part = |c: char| c.is_ascii_alphanumeric();
        let from = left.rfind(|c| !is_part(c));
        left[from.unwrap_or(0)..]
            .trim_start_matches(|c| !is_part(c))
            .to_ascii_lowercase()
    });
    let scheme = scheme.filter(|it| (1..=16).contains(&it.len()));
    // `key=value` as in .env files: the first sign ends the key, whatever the value holds.
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let plain = before.trim_start();
    let plain = plain.strip_prefix("export ").unwrap_or(plain);
    if let Some((key, _)) = plain.split_once('=')
        && !key.is_empty()
        && key.chars().all(word)
    {
        return (key.to_owned(), scheme);
    }
    (key_of(&before[..start]), scheme)
}

/// The scheme that the text puts before what this key gets: `'https://' . KEY`, `"https://$key/v1"`.
fn scheme_joined(text: &str, key: &str) -> Option<String> {
    let name = key.trim_start_matches('$');
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let has_it = |scheme: &&str| {
        let address = format!("{scheme}://");
        text.match_indices(&address).any(|(at, _)| {
            let behind = &text[at + address.len()..];
            let joined = behind.trim_start_matches(|c| "'\" .{$".contains(c));
            let rest = joined
                .strip_prefix(name)
                .filter(|_| joined.len() < behind.len());
            rest.is_some_and(|rest| !rest.starts_with(is_word))
        })
    };
    let found = (!name.is_empty()).then(|| ["https", "http"].into_iter().find(has_it));
    found.flatten().map(str::to_owned)
}

/// The key that a statement up to its value gives the value to.
fn key_of(before: &str) -> String {
    let before = before.trim_end_matches(|c: char| c.is_whitespace() || "'\"`".contains(c));
    if let Some(tag) = before.strip_suffix('>').filter(|it| !it.ends_with('=')) {
        // `<host>value`
        let tag = tag.rsplit('<').next().unwrap_or_default();
        return named(tag.split_whitespace().next().unwrap_or_default());
    }
    let of_call = |before: &str| {
        // The first argument of `define('KEY', 'value')` and `env('KEY', 'value')`.
        let first = before.strip_suffix(',')?.trim_end();
        let inside = first.strip_suffix(['\'', '"'])?;
        let at = inside.rfind(['\'', '"'])?;
        let call = inside[..at].trim_end();
        ["define(", "env("]
            .iter()
            .any(|name| call.ends_with(name))
            .then(|| named(&inside[at + 1..]))
    };
    if before.ends_with(',') {
        return of_call(before).unwrap_or_default();
    }
    let Some(left) = ["=>", "=", ":"]
        .iter()
        .find_map(|sign| before.strip_suffix(sign))
    else {
        return String::new();
    };
    let left = left.trim_end();
    if let Some(inside) = left.strip_suffix(['\'', '"']) {
        return named(inside.rsplit(['\'', '"']).next().unwrap_or_default());
    }
    if left.ends_with(']') {
        // `$config['host']`, or `env[HOST]` of a pool.
        let start = left.rfind(|c: char| c.is_whitespace() || ";{(".contains(c));
        return named(&left[start.map_or(0, |at| at + 1)..]);
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_.-$".contains(c);
    let start = left.rfind(|c: char| !is_part(c));
    // A character that is no part may be longer than a byte.
    let start = start.map_or(0, |at| {
        at + left[at..].chars().next().map_or(1, char::len_utf8)
    });
    named(&left[start..])
}

/// A key as it may be told: what is long, or holds more than names do, is none.
fn named(key: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-$[]'\"".contains(c);
    match key.len() <= 64 && key.chars().all(fits) {
        true => key.to_owned(),
        false => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Line, key, scheme and port of each mention.
    #[track_caller]
    fn check(
        text: &str,
        wanted: &Mentioned,
        expected: &[(usize, &str, Option<&str>, Option<u16>)],
    ) {
        let found = likeliest(mentions_in(Path::new("x"), text, wanted));
        let found: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.line.unwrap_or(0),
                    it.key.as_str(),
                    it.scheme.as_deref(),
                    it.port,
                )
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_scheme_that_is_joined_to_the_host_elsewhere_is_its_scheme() {
        let api = Mentioned::name("api.example.test");
        for (joined, scheme) in [
            ("define('URL', 'https://'.API_HOST);", Some("https")),
            ("$url = \"http://{$API_HOST}/v1\";", Some("http")),
            ("$url = 'https://' . API_HOST_2;", None),
            ("$url = API_HOST;", None),
            ("$url = 'https://API_HOST.example.test';", None),
        ] {
            let text = format!("define('API_HOST', 'api.example.test');\n{joined}\n");
            check(&text, &api, &[(1, "API_HOST", scheme, None)]);
        }
    }

    #[test]
    fn the_key_of_a_host_is_told_in_every_syntax() {
        let api = Mentioned::name("api.example.test");
        for (line, key, scheme, port) in [
            (
                "API_URL=http://api.example.test/v1",
                "API_URL",
                Some("http"),
                None,
            ),
            (
                "export API=\"https://u:p=w@api.example.test:8443\"",
                "API",
                Some("https"),
                Some(8443),
            ),
            ("API_HOST = api.example.test", "API_HOST", None, None),
            (
                "define('API_HOST', 'api.example.test');",
                "API_HOST",
                None,
                None,
            ),
            (
                "  'host' => env('API_HOST', 'api.example.test'),",
                "API_HOST",
                None,
                None,
            ),
            ("  'host' => 'api.example.test',", "host", None, None),
            (
                "$config['api'] = 'API.example.test';",
                "$config['api']",
                None,
                None,
            ),
            (
                "env[API_HOST] = api.example.test",
                "env[API_HOST]",
                None,
                None,
            ),
            ("  host: api.example.test", "host", None, None),
            ("  \"host\": \"api.example.test\",", "host", None, None),
            ("<host>api.example.test</host>", "host", None, None),
            (
                "$body = file_get_contents('http://api.example.test/x');",
                "",
                Some("http"),
                None,
            ),
            ("$all = ['s3cret', 'api.example.test'];", "", None, None),
        ] {
            check(line, &api, &[(1, key, scheme, port)]);
        }
    }

    #[test]
    fn other_hosts_and_comments_are_not_meant() {
        let api = Mentioned::name("api.example.test");
        let text = "# API=api.example.test\n// api.example.test\nB=my-api.example.test\nC=api.example.test.org\n";
        check(text, &api, &[]);
        check("It is api.example.test.", &api, &[(1, "", None, None)]);
    }

    #[test]
    fn the_port_tells_which_of_several_is_meant() {
        let text = "DB_HOST=127.0.0.1\nREDIS_HOST=127.0.0.1\nREDIS_PORT=6390\nMAIL_HOST=localhost\nAPI=http://127.0.0.1:8080/\n";
        let at = |port| Mentioned::address("127.0.0.1".parse().expect("an address"), port);
        check(text, &at(3306), &[(1, "DB_HOST", None, None)]);
        check(text, &at(6390), &[(2, "REDIS_HOST", None, None)]);
        check(text, &at(1025), &[(4, "MAIL_HOST", None, None)]);
        check(text, &at(8080), &[(5, "API", Some("http"), Some(8080))]);
        let both = [(1, "A_HOST", None, None), (2, "B_HOST", None, None)];
        check("A_HOST=127.0.0.1\nB_HOST=127.0.0.1\n", &at(4000), &both);
    }

    #[test]
    fn files_of_settings_are_found_and_code_of_others_is_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        };
        put(
            "config/api.php",
            "<?php return ['url' => 'http://api.example.test'];",
        );
        put(".env", "X=1\nURL=http://api.example.test\n");
        put(".env.example", "URL=http://api.example.test\n");
        put("vendor/a.php", "<?php $url = 'http://api.example.test';");
        put("picture.png", "api.example.test");
        let found = mentions(dir.path(), &Mentioned::name("api.example.test"));
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.file.display().to_string(), it.line, it.key.as_str()))
            .collect();
        let expected = [
            (".env".to_owned(), Some(2), "URL"),
            ("config/api.php".to_owned(), Some(1), "url"),
        ];
        assert_eq!(found, expected);
    }

    proptest! {
        #[test]
        fn no_text_panics_and_no_key_is_what_stands_behind_it(
            before in "\\PC{0,40}", behind in "\\PC{0,20}", port in any::<Option<u16>>(),
        ) {
            let wanted = Mentioned { names: vec!["a.test".to_owned()], port };
            let text = format!("{before}a.test{behind}");
            for mention in mentions_in(Path::new("x"), &text, &wanted) {
                prop_assert!(before.contains(&mention.key));
            }
        }

        #[test]
        fn a_password_is_never_told_as_a_key(password in "[A-Za-z0-9]{8,20}") {
            let wanted = Mentioned::name("a.test");
            for text in [
                format!("URL=redis://:{password}@a.test:6379"),
                format!("['{password}', 'a.test']"),
                format!("connect('{password}', \"a.test\")"),
                format!("url: \"mysql://user:{password}@a.test/x\""),
            ] {
                for mention in mentions_in(Path::new("x"), &text, &wanted) {
                    prop_assert!(!mention.key.contains(&password), "{text}: {mention:?}");
                }
            }
        }
    }
}
