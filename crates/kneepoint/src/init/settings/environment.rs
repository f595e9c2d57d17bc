//! What an application reads from its environment, and which of it the lab has to be told to offer.

use super::database::{DbEngine, is_address};
use super::hosts::own_host;
use super::known::REFUSES;
use super::reads::Reads;
use super::redis::{
    PLAIN, is_of_several, is_redis, is_redis_scheme, is_redis_server, note_of_environment,
    of_another_redis,
};
use super::roles::{Role, SECRET, of_database, of_redis};
use kneepoint_model::AppKind;
use kneepoint_stack::application::dotenv;
use kneepoint_stack::application::symfony::{self, COMPILED};
use kneepoint_stack::detect::Detected;
use std::collections::BTreeMap;
use std::path::Path;

/// What the lab offers by itself, where its tiers are in the chain.
const OFFERED: &[&str] = &[
    "DB_HOST",
    "DB_PORT",
    "DB_DATABASE",
    "DB_USERNAME",
    "DB_PASSWORD",
    "DB_SOCKET",
    "REDIS_HOST",
    "REDIS_PORT",
];
/// Files of settings as Laravel, Symfony and others have them; what a later one says counts.
const FILES: &[&str] = &[".env", ".env.local", ".env.prod", ".env.prod.local"];
/// What such files are made from.
const EXAMPLES: &[&str] = &[
    ".env.example",
    ".env.dist",
    ".env.sample",
    ".env.example.production",
];

/// One line of `[app.env]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvValue {
    /// The variable.
    pub name: String,
    /// Its value; `{DB_HOST}` stands for the lab's.
    pub value: String,
    /// What it is for, in words.
    pub why: String,
}

impl EnvValue {
    /// The variable by which most applications know a connection over TLS.
    pub(in crate::init) const HTTPS: &str = "HTTPS";

    /// What makes requests look to PHP as if they came over TLS. `why` says why they must; the lab speaks http.
    pub(in crate::init) fn over_tls(why: &str) -> Self {
        Self {
            name: Self::HTTPS.into(),
            value: "on".into(),
            why: format!("{why}, and the lab speaks http: to PHP it looks like TLS."),
        }
    }
}

/// What the environment says and needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Environment {
    /// Which database it names.
    pub(super) engine: Option<DbEngine>,
    /// Whether it names one, known here or not.
    pub(super) has_driver: bool,
    /// The database's name within it.
    pub(super) database: Option<String>,
    /// The file that says so.
    pub(super) told_in: Option<String>,
    /// Whether the application uses Redis.
    pub(super) redis: bool,
    /// What of its Redis is left to do by hand, in a sentence.
    pub(super) note: Option<String>,
    /// What has to be set.
    pub(super) values: Vec<EnvValue>,
    /// The hosts that it calls the site's own.
    pub(super) hosts: Vec<String>,
    /// Whether it says that the site is asked over TLS.
    pub(super) tls: bool,
}

/// Reads the files of settings of an application, with what its code reads.
pub(super) fn look(root: &Path, kind: AppKind, reads: &Reads) -> Environment {
    let mut values = BTreeMap::new();
    let mut told_in = None;
    let compiled = (kind == AppKind::Symfony).then(|| compiled(root)).flatten();
    let of_files = || {
        let texts = FILES
            .iter()
            .map(|file| (*file, super::read(&root.join(file))));
        let texts = texts.filter_map(|(file, text)| Some((file, dotenv::values(&text?))));
        texts.collect()
    };
    // Where Symfony's files were compiled, it reads none of them.
    let found = compiled.map_or_else(of_files, |pairs| vec![(COMPILED, pairs)]);
    for (file, pairs) in found {
        if pairs.iter().any(|(name, _)| of_database(name).is_some()) {
            told_in = Some(file.to_owned());
        }
        values.extend(pairs);
    }
    let mut found = of_values(&values, kind, reads);
    let own = own_paths(root, &values);
    found
        .values
        .retain(|set| own.iter().all(|own| own.name != set.name));
    found.values.extend(own);
    found.told_in = told_in;
    let addresses = values
        .iter()
        .filter_map(|(name, value)| Some((own_host(name, value)?, value)));
    for (host, address) in addresses {
        found.hosts.push(host);
        found.tls |= address.starts_with("https:");
    }
    if kind == AppKind::Laravel && root.join("bootstrap/cache/config.php").is_file() {
        found.values.push(EnvValue {
            name: "APP_CONFIG_CACHE".into(),
            value: "bootstrap/cache/config-of-the-lab.php".into(),
            why: "The cached configuration (bootstrap/cache/config.php) holds your addresses: it is passed over.".into(),
        });
    }
    found
}

/// That an application has an example of its environment, and not its environment.
pub(super) fn only_an_example(root: &Path) -> Option<String> {
    let has = |file: &str| root.join(file).exists();
    if FILES.iter().any(|file| has(file)) || has(COMPILED) {
        return None;
    }
    // One in which all is commented out needs nothing.
    let sets = |file: &&&str| {
        let text = super::read(&root.join(file)).unwrap_or_default();
        !dotenv::values(&text).is_empty()
    };
    let example = EXAMPLES.iter().find(sets)?;
    Some(format!(
        "it has {example} and no .env: write its .env first, or put what stands there into [app.env]"
    ))
}

/// What puts an application into its mode of production, where it may begin in another.
pub(super) fn mode(root: &Path, found: &Detected) -> Option<EnvValue> {
    let name = match found.name {
        "CodeIgniter" => {
            // CodeIgniter 2 has its mode in that file, and reads no environment.
            let front = super::read(&root.join(&found.front))?;
            front.contains("CI_ENV").then_some("CI_ENV")?
        }
        "CodeIgniter 4" => "CI_ENVIRONMENT",
        _ => return None,
    };
    Some(EnvValue {
        name: name.into(),
        value: "production".into(),
        why: "In its mode of development CodeIgniter shows notices in its pages: the lab runs it as production does.".into(),
    })
}

/// What stands in Symfony's compiled file; `None` where it is not there, or nothing of it can be read.
fn compiled(root: &Path) -> Option<Vec<(String, String)>> {
    let all = symfony::compiled(&super::read(&root.join(COMPILED))?);
    let pairs: Vec<_> = all
        .into_iter()
        .map(|(name, value, _)| (name, value))
        .collect();
    (!pairs.is_empty()).then_some(pairs)
}

/// Paths of the application as it lies in your directory: the copy has its own.
fn own_paths(root: &Path, values: &BTreeMap<String, String>) -> Vec<EnvValue> {
    let root = root.display().to_string();
    let within = values.iter().filter_map(|(name, value)| {
        let (before, after) = value.split_once(&root)?;
        // A longer name is another directory's, and what else stands before a path may be a secret.
        let is_own = after.is_empty() || after.starts_with(['/', '?']);
        // Nor is it known what an option of an address holds.
        let (path, options) = after.split_once('?').unwrap_or((after, ""));
        let small = options.to_ascii_lowercase();
        let after = match SECRET.iter().any(|word| small.contains(word)) {
            true => path,
            false => after,
        };
        (is_own && (before.is_empty() || is_scheme(before))).then(|| EnvValue {
            name: name.clone(),
            value: format!("{before}{{APP_ROOT}}{after}"),
            why: "A path within your directory: the copy takes the same within itself.".into(),
        })
    });
    within.collect()
}

/// Whether a text is all that may stand before the path of an address: `sqlite:///`.
fn is_scheme(text: &str) -> bool {
    text.split_once(':').is_some_and(|(word, slashes)| {
        word.chars().all(|c| c.is_ascii_alphanumeric() || c == '+')
            && slashes.chars().all(|c| c == '/')
    })
}

fn of_values(values: &BTreeMap<String, String>, kind: AppKind, reads: &Reads) -> Environment {
    let redis = uses_redis(values, kind);
    let mut found = Environment {
        redis,
        note: note_of_environment(values).filter(|_| redis),
        ..Environment::default()
    };
    for (name, value) in values.iter().filter(|(_, value)| !value.is_empty()) {
        match of_database(name) {
            Some(Role::Driver) => {
                found.has_driver = true;
                found.engine = DbEngine::named(value).or(found.engine);
            }
            Some(Role::Url) if is_address(value) => found.engine = DbEngine::named(scheme(value)),
            Some(Role::Name) => found.database = Some(value.clone()),
            _ => {}
        }
    }
    let mut names: Vec<&str> = values
        .keys()
        .chain(&reads.env)
        .map(String::as_str)
        .collect();
    names.sort_unstable();
    names.dedup();
    let set = names.into_iter().filter_map(|name| {
        let value = values.get(name).map_or("", String::as_str);
        for_name(name, value, kind, found.engine)
    });
    found.values = set.collect();
    found
}

/// What one variable has to be in the lab, where it is not there by itself.
fn for_name(name: &str, old: &str, kind: AppKind, engine: Option<DbEngine>) -> Option<EnvValue> {
    let set = |value: &str, why: &str| {
        Some(EnvValue {
            name: name.to_owned(),
            value: value.to_owned(),
            why: why.to_owned(),
        })
    };
    const REDIS: &str = "The lab's Redis instead of yours.";
    if name == "TRUSTED_HOSTS" && kind == AppKind::Symfony && !old.is_empty() {
        return set(".*", REFUSES);
    }
    match of_redis(name) {
        _ if is_of_several(name) => return None,
        None if is_redis_scheme(name) && !["", "tcp"].contains(&old) => return set("tcp", PLAIN),
        None if is_redis(old) => return set(&of_another_redis(old), REDIS),
        None if is_redis_server(name, old) => return set("{REDIS_HOST}:{REDIS_PORT}", REDIS),
        Some(Role::Password) if !old.is_empty() && old != "null" => {
            return set("null", "The lab's Redis asks for no password.");
        }
        Some(Role::Host) if !OFFERED.contains(&name) => return set("{REDIS_HOST}", REDIS),
        Some(Role::Port) if !OFFERED.contains(&name) => return set("{REDIS_PORT}", REDIS),
        Some(Role::Url) if !old.is_empty() => {
            return set("redis://{REDIS_HOST}:{REDIS_PORT}", REDIS);
        }
        _ => {}
    }
    const DB: &str = "The lab's database instead of yours.";
    let role = of_database(name)?;
    if role == Role::Host && kind == AppKind::Wordpress {
        return set("{DB_HOST}:{DB_PORT}", DB);
    }
    if engine == Some(DbEngine::Sqlite) || OFFERED.contains(&name) {
        return None;
    }
    match role {
        Role::Host => set("{DB_HOST}", DB),
        Role::Port => set("{DB_PORT}", DB),
        Role::Name => set("{DB_DATABASE}", DB),
        Role::User => set("{DB_USERNAME}", DB),
        Role::Password => set("{DB_PASSWORD}", DB),
        Role::Url if is_address(old) => set(&address(old), DB),
        Role::Url | Role::Driver => None,
    }
}

fn scheme(address: &str) -> &str {
    address.split(':').next().unwrap_or_default()
}

/// The lab's address in the form of another, with its options and without its secrets.
pub(super) fn address(old: &str) -> String {
    if !old.contains("://") {
        // One of PDO.
        return format!(
            "{}:host={{DB_HOST}};port={{DB_PORT}};dbname={{DB_DATABASE}}",
            scheme(old)
        );
    }
    let options = old.split_once('?').map_or("", |(_, options)| options);
    // An option may be a secret, too: those that say how to speak to the server are kept.
    let kept: Vec<&str> = options
        .split('&')
        .filter(|option| {
            let name = option.split('=').next().unwrap_or_default();
            ["serverVersion", "charset", "collation"].contains(&name)
        })
        .collect();
    let question = if kept.is_empty() { "" } else { "?" };
    format!(
        "{}://{{DB_USERNAME}}:{{DB_PASSWORD}}@{{DB_HOST}}:{{DB_PORT}}/{{DB_DATABASE}}{question}{}",
        scheme(old),
        kept.join("&")
    )
}

fn uses_redis(values: &BTreeMap<String, String>, kind: AppKind) -> bool {
    let is_set = |name: &str| values.get(name).is_some_and(|value| !value.is_empty());
    // Laravel's file names a Redis whether one is used or not.
    const USERS: &[&str] = &[
        "CACHE_STORE",
        "CACHE_DRIVER",
        "SESSION_DRIVER",
        "QUEUE_CONNECTION",
    ];
    let used = || {
        let mut users = USERS.iter().filter_map(|name| values.get(*name));
        users.any(|value| value == "redis")
    };
    let is_host =
        |(name, value): (&String, &String)| !value.is_empty() && of_redis(name) == Some(Role::Host);
    let is_named = || values.iter().any(is_host) || values.values().any(|value| is_redis(value));
    used() || (kind != AppKind::Laravel && (is_set("REDIS_URL") || is_named()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check(kind: AppKind, text: &str, reads: &[&str], expected: &Expect) {
        let values = dotenv::values(text).into_iter().collect();
        let reads = Reads {
            env: reads.iter().map(|name| (*name).to_owned()).collect(),
            ..Reads::default()
        };
        let found = of_values(&values, kind, &reads);
        let mut told = format!("{:?} redis: {}\n", found.engine, found.redis);
        for set in found.values {
            told.push_str(&format!("{} = {}\n", set.name, set.value));
        }
        assert!(!told.contains("secret"));
        expected.assert_eq(&told);
    }

    #[test]
    fn laravel_reads_what_the_lab_offers() {
        check(
            AppKind::Laravel,
            "DB_CONNECTION=mysql\nDB_HOST=127.0.0.1\nDB_DATABASE=shop\nDB_PASSWORD=secret\nREDIS_HOST=r\n\
             REDIS_PASSWORD=secret\nREDIS_SCHEME=tls\nSESSION_DRIVER=redis\n",
            &["DB_URL", "DB_FOREIGN_KEYS", "REDIS_URL"],
            &expect![[r#"
                Some(Mariadb) redis: true
                REDIS_PASSWORD = null
                REDIS_SCHEME = tcp
            "#]],
        );
        check(
            AppKind::Laravel,
            "DB_CONNECTION=sqlite\nREDIS_HOST=127.0.0.1\nREDIS_PASSWORD=null\n",
            &["MYSQL_HOST"],
            &expect![[r#"
                Some(Sqlite) redis: false
            "#]],
        );
    }

    #[test]
    fn redis_is_known_by_other_names_and_in_one_text() {
        check(
            AppKind::Laravel,
            "DB_HOST=localhost\nCACHE_DRIVER=redis\nREDIS_SERVERS=10.0.0.9:6379:2:secret,10.0.0.10:6379:2:secret\n\
             REDIS_PREFIX=shop:1\n",
            &[],
            &expect![[r#"
                None redis: true
                REDIS_SERVERS = {REDIS_HOST}:{REDIS_PORT}
            "#]],
        );
        check(
            AppKind::Plain,
            "REDIS_HOSTNAME=10.0.0.9\nREDIS_SENTINEL_HOST=10.0.0.9\nREDIS_SENTINEL_PASSWORD=secret\n",
            &[],
            &expect![[r#"
                None redis: true
                REDIS_HOSTNAME = {REDIS_HOST}
            "#]],
        );
    }

    #[test]
    fn an_address_is_written_anew_without_its_secrets() {
        check(
            AppKind::Symfony,
            "DATABASE_URL=\"postgresql://u:secret@h:5432/n?serverVersion=15&sslpassword=secret\"\nREDIS_URL=redis://:secret@r\n",
            &[],
            &expect![[r#"
                Some(Postgresql) redis: true
                DATABASE_URL = postgresql://{DB_USERNAME}:{DB_PASSWORD}@{DB_HOST}:{DB_PORT}/{DB_DATABASE}?serverVersion=15
                REDIS_URL = redis://{REDIS_HOST}:{REDIS_PORT}
            "#]],
        );
    }

    #[test]
    fn an_address_keeps_its_form() {
        check(
            AppKind::Symfony,
            "DB_DSN=\"mysql:host=h;dbname=n\"\nLOCK_DSN=rediss://:secret@r:6380/2?auth=secret\nTRUSTED_HOSTS='^shop'\n\
             MAIN_DSN=redis://secret@/run/redis.sock\n",
            &[],
            &expect![[r#"
                Some(Mariadb) redis: true
                DB_DSN = mysql:host={DB_HOST};port={DB_PORT};dbname={DB_DATABASE}
                LOCK_DSN = redis://{REDIS_HOST}:{REDIS_PORT}/2
                MAIN_DSN = redis://{REDIS_HOST}:{REDIS_PORT}
                TRUSTED_HOSTS = .*
            "#]],
        );
    }

    #[test]
    fn symfonys_compiled_file_counts_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |file: &str, text: &str| {
            std::fs::write(dir.path().join(file), text).expect("a file");
        };
        write(".env", "DATABASE_URL=postgresql://app@127.0.0.1/app\n");
        write(
            ".env.local.php",
            "<?php\nreturn array (\n  'APP_ENV' => 'prod',\n  'DATABASE_URL' => 'mysql://u:p@db/shop',\n);\n",
        );
        let engine = |kind| look(dir.path(), kind, &Reads::default()).engine;
        assert_eq!(engine(AppKind::Symfony), Some(DbEngine::Mariadb));
        assert_eq!(engine(AppKind::Plain), Some(DbEngine::Postgresql));
    }

    #[test]
    fn codeigniter_runs_in_its_mode_of_production() {
        let dir = tempfile::tempdir().expect("a directory");
        let set = |name, front: &str| {
            std::fs::write(dir.path().join("index.php"), front).expect("a file");
            let found = Detected {
                kind: AppKind::Plain,
                name,
                front: "index.php".into(),
                because: Vec::new(),
            };
            mode(dir.path(), &found).map(|set| format!("{} = {}", set.name, set.value))
        };
        let third = "<?php define('ENVIRONMENT', isset($_SERVER['CI_ENV']) ? $_SERVER['CI_ENV'] : 'development');";
        let second = "<?php define('ENVIRONMENT', 'development');";
        assert_eq!(
            set("CodeIgniter", third).as_deref(),
            Some("CI_ENV = production")
        );
        assert_eq!(set("CodeIgniter", second), None);
        assert_eq!(
            set("CodeIgniter 4", second).as_deref(),
            Some("CI_ENVIRONMENT = production")
        );
        assert_eq!(set("PHP application", third), None);
    }

    #[test]
    fn paths_of_the_application_become_the_copys() {
        let values = dotenv::values(
            "DB_DATABASE=/srv/app/database/x.sqlite\nOTHER=/srv/apples\nSQLITE_URL=sqlite:////srv/app/data/x.db?mode=rw\n\
             PROXY=http://u:p@h/srv/app\nHOME=/srv/app\nOLD_URL=sqlite:////srv/app/o.db?key=secret\n",
        );
        let values = values.into_iter().collect();
        let set = own_paths(Path::new("/srv/app"), &values);
        let set: Vec<(&str, &str)> = set
            .iter()
            .map(|set| (set.name.as_str(), set.value.as_str()))
            .collect();
        let expected = [
            ("DB_DATABASE", "{APP_ROOT}/database/x.sqlite"),
            ("HOME", "{APP_ROOT}"),
            ("OLD_URL", "sqlite:///{APP_ROOT}/o.db"),
            ("SQLITE_URL", "sqlite:///{APP_ROOT}/data/x.db?mode=rw"),
        ];
        assert_eq!(set, expected);
    }

    #[test]
    fn a_path_of_the_application_is_set_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let text = format!("SQLITE_DATABASE={}/data/x.db\n", dir.path().display());
        std::fs::write(dir.path().join(".env"), text).expect("a file");
        let found = look(dir.path(), AppKind::Plain, &Reads::default());
        let set: Vec<(&str, &str)> = found
            .values
            .iter()
            .map(|set| (set.name.as_str(), set.value.as_str()))
            .collect();
        assert_eq!(set, [("SQLITE_DATABASE", "{APP_ROOT}/data/x.db")]);
    }

    #[test]
    fn a_connection_of_a_name_of_its_own_is_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let has_driver = |text: &str| {
            std::fs::write(dir.path().join(".env"), text).expect("a file");
            look(dir.path(), AppKind::Laravel, &Reads::default()).has_driver
        };
        assert!(has_driver("DB_CONNECTION=tenant\n"));
        assert!(!has_driver("DB_CONNECTION=\nDB_HOST=localhost\n"));
    }

    #[test]
    fn an_environment_that_is_only_an_example_is_said() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |file: &str, text: &str| {
            std::fs::write(dir.path().join(file), text).expect("a file");
        };
        assert_eq!(only_an_example(dir.path()), None);
        write(".env.example", "# GRAV_ENVIRONMENT=production\n");
        assert_eq!(only_an_example(dir.path()), None);
        write(
            ".env.example.production",
            "CRAFT_DB_DRIVER=mysql\nCRAFT_DB_DATABASE=\n",
        );
        let told = only_an_example(dir.path()).unwrap_or_default();
        assert!(
            told.starts_with("it has .env.example.production and no .env: "),
            "{told}"
        );
        write(".env.local", "");
        assert_eq!(only_an_example(dir.path()), None);
    }

    #[test]
    fn an_address_with_tls_is_known() {
        let dir = tempfile::tempdir().expect("a directory");
        let tls = |text: &str| {
            std::fs::write(dir.path().join(".env"), text).expect("a file");
            let found = look(dir.path(), AppKind::Symfony, &Reads::default());
            (found.hosts.join(" "), found.tls)
        };
        let own = |host: &str, tls| (host.to_owned(), tls);
        assert_eq!(tls("APP_URL=https://shop.test\n"), own("shop.test", true));
        assert_eq!(tls("APP_URL=http://shop.test\n"), own("shop.test", false));
        assert_eq!(tls("API_URL=https://shop.test\n"), own("", false));
    }

    #[test]
    fn names_that_only_the_code_knows_are_set_too() {
        check(
            AppKind::Plain,
            "",
            &[
                "MYSQL_HOST",
                "MYSQL_USER",
                "MYSQL_PASSWORD",
                "MYSQL_DATABASE",
                "SMTP_HOST",
            ],
            &expect![[r#"
                None redis: false
                MYSQL_DATABASE = {DB_DATABASE}
                MYSQL_HOST = {DB_HOST}
                MYSQL_PASSWORD = {DB_PASSWORD}
                MYSQL_USER = {DB_USERNAME}
            "#]],
        );
    }
}
