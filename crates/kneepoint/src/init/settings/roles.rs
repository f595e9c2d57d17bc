//! What a name is for, told from the name: `DB_HOSTNAME`, `$wgDBserver` and `MYSQL_HOST` all say where the database is.

/// What a setting of a database or cache says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Role {
    /// Which program it is.
    Driver,
    /// Where it is.
    Host,
    /// At which port.
    Port,
    /// Which of its databases.
    Name,
    /// Who logs in.
    User,
    /// With which password.
    Password,
    /// All of that in one text: `mysql://user:password@host/name`.
    Url,
}

/// The end of a name in small letters, without what separates words, and what it is for. The first that fits counts.
const ENDS: &[(&str, Role)] = &[
    ("hostname", Role::Host),
    ("dbserver", Role::Host),
    ("host", Role::Host),
    ("port", Role::Port),
    ("username", Role::User),
    ("user", Role::User),
    ("login", Role::User),
    ("password", Role::Password),
    ("passwd", Role::Password),
    ("pass", Role::Password),
    ("pwd", Role::Password),
    ("databaseurl", Role::Url),
    ("dsnw", Role::Url),
    ("dsn", Role::Url),
    ("url", Role::Url),
    ("driver", Role::Driver),
    ("dbtype", Role::Driver),
    ("databasetype", Role::Driver),
    ("dbms", Role::Driver),
    ("connection", Role::Driver),
    ("database", Role::Name),
    ("dbname", Role::Name),
    ("dbbase", Role::Name),
    ("name", Role::Name),
    ("db", Role::Name),
];

/// What a name has in it that is one of a database.
const DATABASE: &[&str] = &["db", "database", "mysql", "mariadb", "postgres", "pgsql"];
/// What it has where it is another's: a test's, a second server's, a file's.
const OTHERS: &[&str] = &[
    "test", "redis", "mongo", "admin", "root", "slave", "replica", "ldap",
];

/// What a list or a section is about that is no database of the application's own.
pub(super) const ABOUT_OTHERS: [&str; 18] = [
    "test",
    "redis",
    "mongo",
    "mail",
    "smtp",
    "imap",
    "ftp",
    "ldap",
    "amqp",
    "rabbit",
    "elastic",
    "influx",
    "clickhouse",
    "couch",
    "slave",
    "replica",
    "cache",
    "session",
];
/// What the name of an entry has whose value is not copied into a scenario.
pub(super) const SECRET: [&str; 9] = [
    "pass", "pwd", "secret", "token", "key", "salt", "auth", "cred", "crypt",
];

/// A name in small letters, without what separates words.
pub(super) fn plain(name: &str) -> String {
    let kept = name.chars().filter(|c| c.is_ascii_alphanumeric());
    kept.collect::<String>().to_ascii_lowercase()
}

fn by_its_end(plain: &str) -> Option<Role> {
    let mut ends = ENDS.iter();
    ends.find(|(end, _)| plain.ends_with(end))
        .map(|(_, role)| *role)
}

/// Whether a word of a name begins with this: `feedback` has no `db`.
fn begins_in(name: &str, word: &str) -> bool {
    let bytes = name.as_bytes();
    let same = |at: usize| bytes[at..at + word.len()].eq_ignore_ascii_case(word.as_bytes());
    let mut places = 0..=bytes.len().saturating_sub(word.len());
    bytes.len() >= word.len()
        && places.any(|at| {
            let before = at.checked_sub(1).map(|before| bytes[before]);
            let begins = before.is_none_or(|before| {
                !before.is_ascii_alphabetic()
                    || (before.is_ascii_lowercase() && bytes[at].is_ascii_uppercase())
            });
            begins && same(at)
        })
}

/// What a name of a constant, variable or environment variable says of the application's database.
pub(super) fn of_database(name: &str) -> Option<Role> {
    let plain = plain(name);
    let is_one = DATABASE.iter().any(|word| begins_in(name, word)) || name.starts_with("PG");
    let is_others = OTHERS.iter().any(|word| plain.contains(word));
    (is_one && !is_others).then(|| by_its_end(&plain)).flatten()
}

/// What a name of an entry says in a list that holds the settings of one database: `host`, `dbname`, `database_user`.
fn of_key(name: &str) -> Option<Role> {
    let plain = plain(name);
    let rest = behind_word(&plain);
    Some(match (rest.unwrap_or(&plain), rest.is_some()) {
        ("host" | "hostname" | "server", _) => Role::Host,
        ("port", _) => Role::Port,
        ("user" | "username" | "login", _) => Role::User,
        ("password" | "passwd" | "pass" | "pwd", _) => Role::Password,
        ("" | "name", true) | ("base", _) => Role::Name,
        ("dsn" | "url" | "connectionstring", _) => Role::Url,
        ("driver" | "type", _) => Role::Driver,
        _ => return None,
    })
}

/// What stands in a plain name behind the word for a database that it begins with.
fn behind_word(plain: &str) -> Option<&str> {
    let mut words = ["database", "db"].iter();
    words.find_map(|word| plain.strip_prefix(word))
}

/// Whether a name begins with the word for a database.
fn is_marked(name: &str) -> bool {
    behind_word(&plain(name)).is_some()
}

/// Whether the names of a list or a section tell the database's entries from others: of `host`, `user`, `db_host` and
/// `db_user` the first two are the site's own. Where no password has the word, it is the database's without it.
pub(super) fn are_marked<'k>(names: impl Iterator<Item = &'k str>) -> bool {
    let marked = names.filter(|name| is_marked(name));
    let roles: Vec<Role> = marked.filter_map(of_key).collect();
    let all = [Role::Host, Role::User, Role::Password];
    all.iter().all(|role| roles.contains(role))
}

/// What a name of an entry says where the database's are [marked](are_marked), or are not. A driver and a data source name
/// need no mark: what they name is a database.
pub(super) fn of_key_among(name: &str, marked: bool) -> Option<Role> {
    let needs_none = ["driver", "type", "dsn", "connectionstring"].contains(&plain(name).as_str());
    of_key(name).filter(|_| !marked || needs_none || is_marked(name))
}

/// Whether an entry names the socket of the database.
pub(super) fn is_socket(name: &str, marked: bool) -> bool {
    let plain = plain(name);
    let needs_none = ["unixsocket", "mysqlsocket"].contains(&plain.as_str());
    plain.contains("socket") && (!marked || needs_none || is_marked(name))
}

/// What a list or a section with this name for the host calls its port.
pub(super) fn port_key(host: &str) -> String {
    let host = host.strip_suffix("name").unwrap_or(host);
    let stem = host
        .strip_suffix("host")
        .or_else(|| host.strip_suffix("server"));
    format!("{}port", stem.unwrap_or_default())
}

/// Whether a text may be the name of a database. Redis numbers its own; the `base` of a site is a path (`/shop`), that of a
/// directory of people a list of names (`dc=example`).
pub(super) fn is_name(text: &str) -> bool {
    !text.chars().all(|c| c.is_ascii_digit()) && !text.contains(['/', '='])
}

/// What a name of an environment variable says of Redis.
pub(super) fn of_redis(name: &str) -> Option<Role> {
    let plain = plain(name);
    (plain.contains("redis"))
        .then(|| by_its_end(&plain))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_many_applications_say_what_they_are_for() {
        for (name, role) in [
            ("DB_HOST", Role::Host),
            ("$wgDBserver", Role::Host),
            ("$dbms", Role::Driver),
            ("$config['database']['type']", Role::Driver),
            ("$CFG->dbhost", Role::Host),
            ("MYSQL_HOST", Role::Host),
            ("PGHOST", Role::Host),
            ("WORDPRESS_DB_HOST", Role::Host),
            ("DB_NAME", Role::Name),
            ("$conf['db_base']", Role::Name),
            ("YOURLS_DB_PASS", Role::Password),
            ("$wgDBname", Role::Name),
            ("MYSQL_DATABASE", Role::Name),
            ("PGDATABASE", Role::Name),
            ("DB_USER", Role::User),
            ("$dbuser", Role::User),
            ("DB_PASSWORD", Role::Password),
            ("$CFG->dbpass", Role::Password),
            ("DB_DRIVER", Role::Driver),
            ("$wgDBtype", Role::Driver),
            ("DB_CONNECTION", Role::Driver),
            ("DATABASE_URL", Role::Url),
            ("$config['db_dsnw']", Role::Url),
        ] {
            assert_eq!(of_database(name), Some(role), "{name}");
        }
        for name in [
            "DB_CHARSET",
            "DB_COLLATE",
            "$wgDBprefix",
            "SMTP_HOST",
            "SITE_NAME",
            "TEST_DB_HOST",
            "REDIS_HOST",
            "AUTH_KEY",
            "feedback_url",
            "$wgDBTableOptions",
        ] {
            assert_eq!(of_database(name), None, "{name}");
        }
        assert_eq!(of_redis("REDIS_HOST"), Some(Role::Host));
        assert_eq!(of_redis("REDIS_URL"), Some(Role::Url));
        assert_eq!(of_redis("DB_HOST"), None);
    }

    #[test]
    fn names_of_entries_say_what_they_are_for_in_a_list_of_one_database() {
        for (name, role) in [
            ("hostname", Role::Host),
            ("database_host", Role::Host),
            ("dbhost", Role::Host),
            ("server", Role::Host),
            ("database", Role::Name),
            ("dbname", Role::Name),
            ("database_name", Role::Name),
            ("user", Role::User),
            ("database_password", Role::Password),
            ("dsn", Role::Url),
            ("connectionString", Role::Url),
            ("dbdriver", Role::Driver),
        ] {
            assert_eq!(of_key(name), Some(role), "{name}");
        }
        for name in [
            "name",
            "mailer_host",
            "charset",
            "tableprefix",
            "cookie_name",
        ] {
            assert_eq!(of_key(name), None, "{name}");
        }
    }
}
