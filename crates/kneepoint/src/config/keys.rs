//! The list of keys, in two parts. The reader accepts no name that is missing here, the messages suggest names from
//! here, and the reference is printed from here: a key that is accepted is documented.

use crate::config::suggest::nearest;
use crate::config::values::alternatives;

mod content;
mod reference;

pub use reference::reference;

/// One key of a scenario.
pub struct Key {
    /// The tables that may hold it; `""` is the top of the file.
    pub tables: &'static [&'static str],
    /// Its name within the table.
    pub name: &'static str,
    /// What it takes, as an example or in words.
    pub takes: &'static str,
    /// What holds when it is absent.
    pub default: &'static str,
    /// What it does.
    pub about: &'static str,
}

const TOP: &[&str] = &[""];
const APP: &[&str] = &["app"];
const APP_FILE: &[&str] = &["app.file"];
const APP_SETTING: &[&str] = &["app.setting"];
const STACK: &[&str] = &["stack"];
const TIERS: &[&str] = &[
    "stack.proxy",
    "stack.web",
    "stack.php",
    "stack.cache",
    "stack.db",
];
const SERVERS: &[&str] = &["stack.proxy", "stack.web", "stack.cache", "stack.db"];
const PHP: &[&str] = &["stack.php"];
const CACHE: &[&str] = &["stack.cache"];
const DB: &[&str] = &["stack.db"];
const HOSTS: &[&str] = &["hosts"];
const HOST: &[&str] = &[
    "hosts.proxy",
    "hosts.web",
    "hosts.php",
    "hosts.cache",
    "hosts.db",
];
const GENERATORS: &[&str] = &["generators"];
const REQUEST: &[&str] = &["request"];
const EXPECT: &[&str] = &["request.expect"];
const SLO: &[&str] = &["slo"];
const TUNE: &[&str] = &["tune"];

const fn key(
    tables: &'static [&'static str],
    name: &'static str,
    takes: &'static str,
    default: &'static str,
    about: &'static str,
) -> Key {
    Key {
        tables,
        name,
        takes,
        default,
        about,
    }
}

/// Every key. The reference has its tables in this order, and the keys of each likewise.
pub fn all() -> impl Iterator<Item = &'static Key> + Clone {
    KEYS.iter().chain(content::KEYS)
}

const KEYS: &[Key] = &[
    key(TOP, "app", "table", "required", "The application."),
    key(
        APP,
        "root",
        "`\".\"`",
        "required",
        "Directory of the application.",
    ),
    key(
        APP,
        "name",
        "`\"shop\"`",
        "the name of its directory",
        "What runs and reports are called after.",
    ),
    key(
        APP,
        "front",
        "`\"public/index.php\"`",
        "the first that exists of public/index.php and index.php (a static chain: also index.html)",
        "Front controller, relative to the root; its directory is what the web server serves. Beside one of another name, an index.php answers for its directory (not on NGINX Unit, where the front controller gets everything).",
    ),
    key(
        APP,
        "kind",
        "`laravel`, `symfony`, `wordpress`, `mediawiki` or `plain`",
        "`plain`",
        "What kind of application it is.",
    ),
    key(
        APP,
        "env",
        "table of names and values",
        "empty",
        "Environment of the application. Values reach no run file and no report, save those of a few harmless names (`APP_ENV`, `CACHE_STORE`) and of declared settings. The lab offers DB_HOST, DB_PORT, DB_DATABASE, DB_USERNAME and DB_PASSWORD by itself where it has a database, REDIS_HOST and REDIS_PORT where it has Redis; `{DB_HOST}` and so on stand for them in a value, and `{APP_ROOT}` for where PHP finds the application, for an application that reads other names: `DATABASE_URL = \"mysql://{DB_USERNAME}:{DB_PASSWORD}@{DB_HOST}:{DB_PORT}/{DB_DATABASE}\"`.",
    ),
    key(
        APP,
        "setting",
        "array of tables",
        "none",
        "What the application itself can be told; a remedy may use it.",
    ),
    key(
        APP_SETTING,
        "name",
        "`\"redis.persistent\"`",
        "required",
        "Name of the setting; remedies call it `app.NAME`.",
    ),
    key(
        APP_SETTING,
        "env",
        "`\"REDIS_PERSISTENT\"`",
        "required",
        "Environment variable that carries it.",
    ),
    key(
        APP_SETTING,
        "values",
        "`[\"false\", \"true\"]`",
        "required",
        "The values it takes; the first is the default.",
    ),
    key(
        APP,
        "file",
        "array of tables",
        "none",
        "Changes to files of the application, made in a private copy.",
    ),
    key(
        APP_FILE,
        "path",
        "`\"src/App.php\"`",
        "required",
        "The file, relative to the root.",
    ),
    key(
        APP_FILE,
        "find",
        "text",
        "none",
        "Text to replace, every occurrence.",
    ),
    key(
        APP_FILE,
        "replace",
        "text",
        "required with `find`",
        "What to put in its place. As in a value of `env`, `{DB_HOST}` and so on stand there for what the lab offers, and `{APP_ROOT}` for where PHP finds the application; `${DB_HOST}`, and what is not offered, stays as it is.",
    ),
    key(
        APP_FILE,
        "content",
        "text",
        "required without `find`",
        "The whole file, with the lab's values as in `replace`.",
    ),
    key(
        APP,
        "unreachable",
        "`[\"api.example.org\", \"10.0.0.9:25\"]`",
        "none",
        "Whom the application may try to reach in vain: hosts by name, addresses with or without a port, paths of sockets, or `mail()`. They stay beyond reach, and the application copes without them. Anybody else stops a run before any load.",
    ),
    key(
        TOP,
        "stack",
        "table",
        "nginx as web server and PHP-FPM",
        "The chain of tiers; a tier that is absent is not in the chain.",
    ),
    key(
        STACK,
        "proxy",
        "table",
        "not in the chain",
        "Reverse proxy or load balancer in front.",
    ),
    key(
        STACK,
        "web",
        "table",
        "not in the chain",
        "Web server that talks to PHP or serves files.",
    ),
    key(
        STACK,
        "php",
        "table",
        "required, unless the chain only serves files",
        "PHP runtime.",
    ),
    key(
        STACK,
        "cache",
        "table",
        "not in the chain",
        "Redis or another cache.",
    ),
    key(STACK, "db", "table", "not in the chain", "Database."),
    key(
        SERVERS,
        "server",
        "`\"nginx\"`",
        "nginx or haproxy (proxy), nginx (web), redis (cache), postgresql or mariadb (db)",
        "Program that serves the tier.",
    ),
    key(
        PHP,
        "runtime",
        "`\"fpm\"`",
        "`fpm`, `apache`",
        "Program that executes PHP. All but `fpm` answer HTTP themselves and have no web tier.",
    ),
    key(
        TIERS,
        "config",
        "`\"deploy/nginx.conf\"`",
        "a sane configuration is rendered",
        "Your configuration file of the tier.",
    ),
    key(
        PHP,
        "ini",
        "`\"deploy/php.ini\"`",
        "PHP's own defaults",
        "Your php.ini.",
    ),
    key(
        CACHE,
        "seed",
        "`\"deploy/cache.txt\"`",
        "an empty cache",
        "Redis commands, one a line (`SET name \"a value\"`), that bring the cache to its initial state.",
    ),
    key(
        DB,
        "seed",
        "`\"deploy/seed.sql\"`",
        "an empty database",
        "SQL that brings the database to its initial state.",
    ),
    key(
        TIERS,
        "socket",
        "`unix` or `tcp`",
        "`tcp`",
        "What the tier listens on, where it shares its host with the tier before.",
    ),
    key(
        TIERS,
        "settings",
        "`{ \"pm.max_children\" = 20 }`",
        "empty",
        "Settings on top of the configuration, by tunable name, checked against its bounds.",
    ),
    key(
        TOP,
        "hosts",
        "table",
        "no limits",
        "Limits of the machines that the tiers run on.",
    ),
    key(HOSTS, "proxy", "table", "no limits", "Host of the proxy."),
    key(
        HOSTS,
        "web",
        "table",
        "no limits",
        "Host of the web server.",
    ),
    key(
        HOSTS,
        "php",
        "table",
        "no limits",
        "Host of the PHP runtime.",
    ),
    key(HOSTS, "cache", "table", "no limits", "Host of the cache."),
    key(HOSTS, "db", "table", "no limits", "Host of the database."),
    key(
        HOST,
        "cpus",
        "`1.5`, from 0.01 to 4096",
        "all of the machine",
        "Cores the tier may use.",
    ),
    key(
        HOST,
        "memory",
        "`\"2GiB\"`",
        "all of the machine",
        "Memory the tier may use.",
    ),
    key(
        HOST,
        "disk_iops",
        "`500`, from 1 to 10000000",
        "all the disk can",
        "Reads a second, and as many writes, that the disk below the lab does for the tier: the disk of a cloud on a machine with a faster one. What is in the kernel's memory is not counted; what must be on the disk (fsync) is. Where that cannot be limited, the run is refused.",
    ),
    key(
        HOST,
        "link_mbit",
        "`100`, from 0.1 to 400000",
        "all the lab can",
        "Megabits a second that the tier's network takes from it and, as many, brings to it.",
    ),
    key(
        HOST,
        "log_pipe_kib_s",
        "`64`, from 0.1 to 4000000",
        "the log is a file",
        "KiB of the access log that are read in a second. The log is then a pipe, as the standard output of a container is, and nginx waits while it is full. For tiers that nginx serves.",
    ),
    key(
        HOST,
        "sysctl",
        "`{ \"net.core.somaxconn\" = 4096 }`",
        "the kernel's",
        "Kernel settings of the host's network namespace: names that begin with net., vm. or fs.",
    ),
    key(
        TOP,
        "generators",
        "table",
        "this process sends",
        "Who sends the load: agents that the lab starts, each on a host of its own, with its own ports and connections. Needs nats-server.",
    ),
    key(
        GENERATORS,
        "count",
        "`3`, from 1 to 64",
        "required",
        "How many agents. Comparisons load two configurations at once, which takes two.",
    ),
    key(
        TOP,
        "request",
        "array of tables",
        "one GET of /",
        "The mix of requests.",
    ),
    key(
        REQUEST,
        "path",
        "`\"/login?next=1\"`",
        "`/`",
        "Path with query string.",
    ),
    key(
        REQUEST,
        "weight",
        "`8`",
        "`1`",
        "Share of the mix, relative to the other weights.",
    ),
    key(
        REQUEST,
        "method",
        "`\"POST\"`",
        "`GET`; `POST` with a body",
        "Method.",
    ),
    key(
        REQUEST,
        "headers",
        "`{ Accept = \"text/html\" }`",
        "none",
        "Extra headers. Accept-Encoding is not sent where the body is searched: a compressed one could not be. `{{request.id}}` is another text for each request, here and wherever variables may stand.",
    ),
    key(
        REQUEST,
        "body",
        "`'{\"a\": 1}'`",
        "none",
        "Body as sent, but for variables.",
    ),
    key(
        REQUEST,
        "form",
        "`{ user = \"ann\", _token = \"{{csrf}}\" }`",
        "none",
        "Fields of a form, sent URL-encoded as the body.",
    ),
    key(
        REQUEST,
        "expect",
        "table",
        "a status from 200 to 399",
        "What a good response is.",
    ),
    key(
        EXPECT,
        "status",
        "`200`, `\"2xx\"` or `[200, \"3xx\"]`",
        "200 to 399",
        "The status it must have: one, a class, or any of a list.",
    ),
    key(
        EXPECT,
        "body_contains",
        "`\"visits\"`",
        "for a plain GET the title of its page, where all answers before the load had the same",
        "Text its body must contain, or a list of such: an error page can come with status 200. A page that holds it is never taken for an error page.",
    ),
    key(
        REQUEST,
        "session",
        "`true`",
        "`false`; `true` for visitors of a [[session]]",
        "Whether the request carries a user's cookie jar. One that captures or needs captured values always does.",
    ),
    key(
        TOP,
        "slo",
        "table",
        "p95 of 200ms, errors 0.1%, timeout 2s",
        "When the stack counts as coping.",
    ),
    key(
        SLO,
        "timeout",
        "`\"2s\"`",
        "`2s`",
        "A request that takes longer from its intended start is ended and counts as failed.",
    ),
    key(
        SLO,
        "response_time",
        "`{ p95 = \"200ms\" }`",
        "`{ p95 = \"200ms\" }`",
        "One quantile from p50 to p99.9 and the response time it must not exceed.",
    ),
    key(
        SLO,
        "errors",
        "`\"0.1%\"` or `0.001`",
        "`0.1%`",
        "Largest tolerated share of failed requests.",
    ),
    key(
        TOP,
        "tune",
        "table",
        "20 minutes, nothing kept",
        "How far tuning may go.",
    ),
    key(
        TUNE,
        "budget",
        "`\"20m\"`",
        "`20m`",
        "Wall-clock time for the whole of `tune`.",
    ),
    key(
        TUNE,
        "keep",
        "`[\"php.pm.max_requests\"]`",
        "empty",
        "Settings that tuning must not touch, as TIER.NAME.",
    ),
    key(
        TUNE,
        "memory",
        "`\"2GiB\"`",
        "what the machine has",
        "Memory all tiers together may use.",
    ),
];

/// The names a table may hold.
pub(super) fn names(table: &str) -> impl Iterator<Item = &'static str> + Clone {
    all()
        .filter(move |key| key.tables.contains(&table))
        .map(|key| key.name)
}

/// How a table is called in messages.
pub(super) fn title(table: &str) -> String {
    match table {
        "" => "the top of the file".into(),
        "request" | "session" | "peer" | "job" | "app.setting" | "app.file" => {
            format!("[[{table}]]")
        }
        "feeder" => "[feeder.NAME]".into(),
        _ => format!("[{table}]"),
    }
}

/// What the person who wrote an unknown name probably meant.
pub(super) fn hint(table: &str, written: &str) -> Option<String> {
    let synonym = match written {
        "server" | "runtime" => names(table).find(|name| ["server", "runtime"].contains(name)),
        _ => None,
    };
    if let Some(meant) = synonym.or_else(|| nearest(written, names(table))) {
        return Some(format!("did you mean `{meant}`?"));
    }
    let tables = all()
        .filter(|key| key.name == written)
        .flat_map(|key| key.tables);
    let homes: Vec<String> = tables.map(|home| title(home)).collect();
    match homes.as_slice() {
        [] => None,
        [home] if !table.is_empty() && home == &title("") => Some(format!(
            "`{written}` belongs at {home}, before the first [table]"
        )),
        homes => Some(format!("`{written}` belongs in {}", homes.join(", "))),
    }
}

/// What a table accepts, as the continuation of "expected".
pub(super) fn accepted(table: &str) -> String {
    alternatives(names(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_documented_once() {
        let reference = reference();
        for key in all() {
            assert!(key.about.ends_with('.'), "{}", key.name);
            let says_all = !key.takes.is_empty() && !key.default.is_empty();
            assert!(says_all, "{}", key.name);
            assert!(reference.contains(&format!("- `{}`: {}", key.name, key.about)));
            for table in key.tables {
                let same = names(table).filter(|name| *name == key.name).count();
                assert_eq!(same, 1, "{} in {}", key.name, title(table));
            }
        }
    }

    #[test]
    fn a_misplaced_name_is_sent_home() {
        let check = |table, written, expected: &str| {
            assert_eq!(hint(table, written).as_deref(), Some(expected));
        };
        check(
            "app",
            "users",
            "`users` belongs at the top of the file, before the first [table]",
        );
        check("stack.php", "server", "did you mean `runtime`?");
        check(
            "stack.web",
            "seed",
            "`seed` belongs in [stack.cache], [stack.db]",
        );
        check("slo", "respons_time", "did you mean `response_time`?");
        assert_eq!(hint("slo", "colour"), None);
    }
}
