//! The applications that PHP serves: what their own files say.

mod count;
mod early;
mod given;
mod once;
mod owners;
mod places;

use crate::chain::Seen;
use crate::files::abreast::{Time, abreast};
use crate::files::{CONFIG_BYTES, Content, Files, Root, Unread};
use crate::rule::counted;
use crate::snapshot::{Blind, FpmPool, Link, ListenEndpoint, ServedApp, Service};
use count::Counts;
use early::EarlyAnswers;
use kneepoint_stack::application::laravel::{self, Cached};
use kneepoint_stack::application::{
    FILES, add, classes_are_mapped, code, dotenv, entries, host_in_url,
};
use owners::{Led, Owners};
use std::collections::BTreeSet;

/// Where clients of MySQL look for it on the same machine, as Debian builds them.
const MYSQL_SOCKET: &str = "/run/mysqld/mysqld.sock";

/// The applications of all services. Whom their settings ask is added to the services, and which of their pools do so.
/// `links` are those from web servers, which tell the pools of a directory.
/// Beside them, the directories that did not answer in time.
pub(super) fn find(
    all: &mut [Seen],
    links: &[Link],
    time: Time,
) -> (Vec<ServedApp>, BTreeSet<String>) {
    let (places, mut silent) = places::of(all, time);
    let led = Led::of(all, links, &places);
    let owners: Vec<Owners> = places
        .keys()
        .map(|(at, root)| led.owners(all, &places, *at, root))
        .collect();
    for seen in all.iter_mut() {
        for pool in &seen.service.pools {
            for (to, how) in of_environment(pool).into_iter().chain(of_sessions(pool)) {
                // A line of php.ini holds for several pools.
                let askers = seen.askers.entry(how.clone()).or_default();
                askers.push(pool.name.clone());
                seen.service.asks.push((to, how));
            }
        }
    }
    let owned = places.into_keys().zip(owners);
    let owned: Vec<_> = owned
        .filter(|(_, owners)| *owners != Owners::Elsewhere)
        .collect();
    let looked = look_at_each(all, &owned, time);
    let mut apps = Vec::new();
    for (((at, root), owners), looked) in owned.into_iter().zip(looked) {
        let seen = &mut all[at];
        let Some((mut app, asks, blind)) = looked else {
            silent.insert(root);
            continue;
        };
        seen.service.blind.extend(blind);
        given::judge(&mut app, &seen.service.pools, &owners);
        match owners {
            Owners::Pools(pools) => {
                let lines = asks.iter().map(|(_, how)| (how.clone(), pools.clone()));
                seen.askers.extend(lines);
                app.pools = pools;
            }
            Owners::Unknown => {
                let blind = unknown(&seen.service, &root);
                seen.service.blind.push(blind);
            }
            Owners::None | Owners::Elsewhere => {}
        }
        seen.service.asks.extend(asks);
        apps.push(app);
    }
    (apps, silent)
}

type Looked = (ServedApp, Asks, Vec<Blind>);

/// Looks at the applications side by side; `None` for one that does not answer in time.
fn look_at_each(
    all: &[Seen],
    owned: &[((usize, String), Owners)],
    time: Time,
) -> Vec<Option<Looked>> {
    let items = owned.iter().filter_map(|((at, root), _)| {
        let seen = &all[*at];
        let item = (seen.root.clone()?, root.clone(), *at);
        Some((places::name(seen, root), item))
    });
    let counts = Counts::until(time.part(0.4).deadline);
    let early = EarlyAnswers::until(all, time.part(0.6).deadline);
    let work = move |(files, root, at): (Root, String, usize)| {
        let (mut app, asks, blind) = look(&files, &root, at);
        (app.php_files, app.cut) = counts.of(&files, &root);
        app.answers_early = early.of(&files, &root);
        (app, asks, blind)
    };
    abreast(items.collect(), time.part(0.75), work)
}

fn unknown(service: &Service, root: &str) -> Blind {
    let why = format!(
        "{} has {}, and no line leads from one of them to that directory: it is told of none, and counted for all",
        service.name(),
        counted(service.pools.len() as u64, "pool")
    );
    Blind::new(
        format!("which pool serves {root}"),
        why,
        "write `root` (nginx) or `DocumentRoot` (Apache) in the host that asks the pool, or `chdir` in the pool",
    )
}

type Asks = Vec<(ListenEndpoint, String)>;
type Drivers = Vec<(String, String, usize)>;

fn look(files: &dyn Files, root: &str, service: usize) -> (ServedApp, Asks, Vec<Blind>) {
    let mut app = ServedApp {
        root: root.to_owned(),
        service,
        ..ServedApp::default()
    };
    let has = |name: &str| files.identity(&format!("{root}/{name}")).is_some();
    if has("artisan") {
        let routes = ["routes-v7.php", "routes.php"];
        let routes = routes
            .iter()
            .any(|name| has(&format!("bootstrap/cache/{name}")));
        app.laravel_cached = Some((has(laravel::CACHE), routes));
    }
    let is_cached = app.laravel_cached.is_some_and(|(config, _)| config);
    let own = is_cached.then_some(laravel::CACHE);
    let (mut asks, mut blind) = (Vec::new(), Vec::new());
    let mut cached_s = f64::INFINITY;
    for file in own.into_iter().chain(FILES) {
        // Laravel reads no other file of environment.
        if file.starts_with(".env.") && app.laravel_cached.is_some() {
            continue;
        }
        let path = format!("{root}/{file}");
        let content = match content(files, &path, most_bytes(file)) {
            None => continue,
            Some(Ok(content)) => content,
            Some(Err(why)) => {
                // It may replace what the files before it say, whatever is in it.
                add(&mut app.switches, file, "");
                blind.push(why);
                continue;
            }
        };
        let text = content.text();
        match file {
            laravel::CACHE => {
                cached_s = content.modified_s;
                let cached = Cached::of(&text);
                app.switches.extend(cached.switches());
                (app.drivers, asks) = of_cache(&cached, &path);
            }
            // Laravel does not read it then.
            ".env" if is_cached => app.env_is_newer |= content.modified_s > cached_s,
            ".env" => {
                add(&mut app.switches, file, &text);
                asks.extend(asked(&text, &path));
                app.drivers = drivers(&text);
            }
            "wp-config.php" => {
                add(&mut app.switches, file, &text);
                asks.extend(wordpress_database(&text, &path));
            }
            _ => add(&mut app.switches, file, &text),
        }
    }
    app.composer_optimized = composer(files, root);
    blind.extend(own_settings(files, root));
    (app, asks, blind)
}

/// A file of settings, or why it is not read; nothing where it is not there.
fn content(files: &dyn Files, path: &str, most: u64) -> Option<Result<Content, Blind>> {
    let unread = |why: String| Some(Err(Blind::new(path, why, "look at it by hand")));
    match files.read(path) {
        Ok(content) if content.length > most => unread(format!("it has more than {most} bytes")),
        Ok(content) => Some(Ok(content)),
        Err(Unread::Missing) => None,
        Err(why) => unread(why.to_string()),
    }
}

/// Files by which a directory sets what php.ini and the pool set otherwise: PHP reads them with requests, and nothing here does.
fn own_settings(files: &dyn Files, root: &str) -> Vec<Blind> {
    let places = [".user.ini", "public/.user.ini"].map(|name| format!("{root}/{name}"));
    let there = places
        .into_iter()
        .filter(|path| files.identity(path).is_some());
    let told = there.map(|path| {
        let why = "PHP reads it for requests to that directory, over php.ini and the pool";
        let remedy =
            "look at it by hand; user_ini.filename = \"\" in php.ini switches such files off";
        Blind::new(path, why, remedy)
    });
    told.collect()
}

/// More bytes than a file of settings has: whoever may write one may write anything into it.
fn most_bytes(file: &str) -> u64 {
    match file {
        ".env" | ".env.local" | "wp-config.php" => 64 << 10,
        laravel::CACHE => CONFIG_BYTES,
        _ => 256 << 10,
    }
}

/// Namespaces that Composer looks for in directories from which on that is worth a map \[ours\]. How much a request looks
/// cannot be seen here.
const NAMESPACES: usize = 5;

/// Whether Composer finds the application's classes in its map; nothing where it has no part in the application.
fn composer(files: &dyn Files, root: &str) -> Option<bool> {
    let read = |name: &str| files.read(&format!("{root}/vendor/composer/{name}"));
    let loader = read("autoload_real.php").ok()?;
    let map = match read("autoload_classmap.php") {
        Ok(map) => map.text(),
        Err(Unread::TooLarge) => return Some(true),
        Err(_) => return None,
    };
    let namespaces = read("autoload_psr4.php").map_or_else(|_| String::new(), |map| map.text());
    Some(classes_are_mapped(&loader.text(), &map) || entries(&namespaces) <= NAMESPACES)
}

/// What sessions and the cache are kept in, as Laravel names it.
fn drivers(text: &str) -> Drivers {
    let names = [
        "SESSION_DRIVER",
        "CACHE_STORE",
        "CACHE_DRIVER",
        "QUEUE_CONNECTION",
    ];
    let set = dotenv::known(text).into_iter();
    let kept = set.filter(|set| names.contains(&set.name.as_str()));
    kept.filter_map(|set| Some((set.name, set.value?, set.line)))
        .collect()
}

/// The same of Laravel's cache of its settings, and whom these ask.
fn of_cache(cached: &Cached, path: &str) -> (Drivers, Asks) {
    let names = [
        ("SESSION_DRIVER", "session.driver"),
        ("CACHE_STORE", "cache.default"),
        ("QUEUE_CONNECTION", "queue.default"),
    ];
    let drivers: Drivers = names
        .into_iter()
        .filter_map(|(name, of)| {
            let (value, line) = cached.get(of)?;
            Some((name.to_owned(), value.to_owned(), line as usize))
        })
        .collect();
    let base = cached
        .get("database.default")
        .map(|(name, _)| format!("database.connections.{name}"));
    // The cache has Redis' usual address in it though nothing uses it.
    let uses_redis = drivers.iter().any(|(_, value, _)| value == "redis");
    let set = |name: &str| {
        let (of, last) = name.split_once('_')?;
        let last = match last {
            "CONNECTION" => "driver".to_owned(),
            last => last.to_lowercase(),
        };
        match of {
            "DB" => cached.get(&format!("{}.{last}", base.as_ref()?)),
            "REDIS" if uses_redis => cached.get(&format!("database.redis.default.{last}")),
            _ => None,
        }
    };
    let value = |name: &str| Some(set(name)?.0.to_owned());
    let asks = endpoints(&value, &|name| {
        format!("{path}:{}", set(name).map_or(0, |(_, line)| line))
    });
    (drivers, asks)
}

/// The database that WordPress names. Nothing but its host is looked at.
fn wordpress_database(text: &str, path: &str) -> Option<(ListenEndpoint, String)> {
    let all = code::assignments(text);
    // A constant keeps its first value.
    let set = all.iter().find(|set| set.target == "DB_HOST")?;
    let before = set.whole.as_ptr() as usize - text.as_ptr() as usize;
    let line = text[..before].matches('\n').count() + 1;
    let host = set.text()?;
    // `host`, `host:port` or `host:/path/of/a/socket`.
    let endpoint = match host.split_once(':') {
        Some((_, socket)) if socket.starts_with('/') => ListenEndpoint::Unix(socket.to_owned()),
        // Clients of MySQL take the socket for this name, and 127.0.0.1 for TCP.
        None if host == "localhost" => ListenEndpoint::Unix(MYSQL_SOCKET.to_owned()),
        _ => ListenEndpoint::parse(host, 3306)?,
    };
    Some((endpoint, format!("{path}:{line}")))
}

/// Whom the settings of an environment file ask. Only hosts and ports are looked at.
fn asked(text: &str, path: &str) -> Asks {
    let all = dotenv::known(text);
    let set = |name: &str| all.iter().rev().find(|set| set.name == name);
    let value = |name: &str| set(name)?.value.clone();
    endpoints(&value, &|name| {
        format!("{path}:{}", set(name).map_or(0, |set| set.line))
    })
}

/// The same of what a pool gives to its workers: `env[REDIS_HOST]`.
fn of_environment(pool: &FpmPool) -> Asks {
    let set = |name: &str| pool.settings.get(&format!("env[{name}]"));
    let value = |name: &str| Some(set(name)?.text.trim_matches('"').to_owned());
    endpoints(&value, &|name| {
        set(name).map_or_else(String::new, |value| value.source.to_string())
    })
}

/// The Redis in which PHP itself keeps the sessions of a pool.
fn of_sessions(pool: &FpmPool) -> Asks {
    if pool.php.text("session.save_handler") != Some("redis") {
        return Asks::new();
    }
    let Some(path) = pool.php.get("session.save_path") else {
        return Asks::new();
    };
    // `tcp://host:6379?weight=1, tcp://other:6379`, `unix:///run/redis.sock?database=1`
    let text = path.text.trim_matches(['"', '\'']);
    let each = text.split([',', ' ']).filter(|one| !one.is_empty());
    let endpoints = each.filter_map(|one| {
        let (scheme, rest) = one.split_once("://")?;
        match scheme {
            "unix" => ListenEndpoint::parse(rest.split('?').next()?, 0),
            "tcp" | "tls" | "ssl" => ListenEndpoint::parse(host_in_url(rest)?, 6379),
            _ => None,
        }
    });
    endpoints
        .map(|endpoint| (endpoint, path.source.to_string()))
        .collect()
}

/// Whom variables with usual names lead to, and where each is set.
fn endpoints(value: &dyn Fn(&str) -> Option<String>, place: &dyn Fn(&str) -> String) -> Asks {
    let port_of_db = match value("DB_CONNECTION").as_deref() {
        Some("pgsql") => 5432,
        _ => 3306,
    };
    let named = [
        ("REDIS_HOST", "REDIS_PORT", 6379),
        ("DB_HOST", "DB_PORT", port_of_db),
    ];
    let hosts = named.iter().filter_map(|(host, port, usual)| {
        let name = value(host).filter(|name| !name.is_empty())?;
        let port = value(port)
            .and_then(|text| text.parse().ok())
            .unwrap_or(*usual);
        let endpoint = match name.starts_with('/') {
            true => ListenEndpoint::Unix(name),
            false => ListenEndpoint::Tcp(name, port),
        };
        Some((endpoint, place(host)))
    });
    let urls = ["DATABASE_URL", "DB_URL", "REDIS_URL"];
    let urls = urls
        .iter()
        .filter_map(|name| Some((of_url(&value(name)?)?, place(name))));
    hosts.chain(urls).collect()
}

/// Whom a URL of a database or of Redis leads to: `mysql://user:password@host:3306/name`.
fn of_url(url: &str) -> Option<ListenEndpoint> {
    let (scheme, rest) = url.split_once("://")?;
    let usual = match scheme {
        "mysql" | "mysql2" | "mariadb" => 3306,
        "postgres" | "postgresql" | "pgsql" => 5432,
        "redis" => 6379,
        _ => return None,
    };
    ListenEndpoint::parse(host_in_url(rest)?, usual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;

    #[test]
    fn a_url_leads_to_whom_it_names() {
        let check = |url: &str, expected: Option<(&str, u16)>| {
            let expected = expected.map(|(host, port)| ListenEndpoint::Tcp(host.into(), port));
            assert_eq!(of_url(url), expected, "{url}");
        };
        check(
            "mysql://app:secret@db:3307/shop?serverVersion=10",
            Some(("db", 3307)),
        );
        check(
            "postgresql://app:p%40ss@10.0.0.5/shop",
            Some(("10.0.0.5", 5432)),
        );
        check("redis://cache", Some(("cache", 6379)));
        check("sqlite:///%kernel.project_dir%/var/data.db", None);
        check("mysql://", None);
        check("mysql://app:a/b@db/shop", None);
        check("redis://cache?note=a@b", None);
        check("db:3306", None);
    }

    #[test]
    fn an_application_is_known_by_its_files() {
        let files = Memory::of(&[
            (
                "/srv/app/.env",
                "APP_DEBUG=true\nREDIS_HOST=redis\nSESSION_DRIVER=file\nDB_PASSWORD=secret\n",
            ),
            ("/srv/app/artisan", ""),
            ("/srv/app/public/index.php", ""),
            ("/srv/app/vendor/composer/autoload_real.php", ""),
            (
                "/srv/app/vendor/composer/autoload_classmap.php",
                "'Composer\\InstalledVersions' => x\n",
            ),
            (
                "/srv/app/vendor/composer/autoload_psr4.php",
                &"'A' => x\n".repeat(9),
            ),
        ]);
        let (app, asks, blind) = look(&files, "/srv/app", 0);
        assert_eq!(app.switches.len(), 1, "{:?}", app.switches);
        assert_eq!(
            app.drivers,
            [("SESSION_DRIVER".to_owned(), "file".to_owned(), 3)]
        );
        assert_eq!(app.composer_optimized, Some(false));
        assert_eq!(asks[0].0.to_string(), "redis:6379");
        assert_eq!(asks[0].1, "/srv/app/.env:2");
        assert!(blind.is_empty() && !format!("{app:?}{asks:?}").contains("secret"));
    }

    #[test]
    fn where_laravel_has_its_cache_the_environment_does_not_hold() {
        const ENV: &str =
            "APP_DEBUG=true\nCACHE_STORE=array\nSESSION_DRIVER=file\nDB_HOST=old\nREDIS_HOST=old\n";
        let cache = |debug: &str, cache: &str| {
            format!(
                "<?php return array (\n'app' => array (\n'debug' => {debug},\n),\n'cache' => array ('default' => '{cache}'),\n\
                 'database' => array ( 'default' => 'pgsql', 'connections' => array ( 'pgsql' => array (\n'driver' => 'pgsql', \
                 'host' => 'db', 'password' => 'secret')), 'redis' => array ('default' => array (\n'host' => 'kv', 'port' => '6380'))));"
            )
        };
        let of = |text: &str| {
            let files = Memory::of(&[
                ("/srv/app/.env", ENV),
                ("/srv/app/artisan", ""),
                ("/srv/app/bootstrap/cache/config.php", text),
            ]);
            look(&files, "/srv/app", 0)
        };
        let (app, asks, _) = of(&cache("false", "redis"));
        assert_eq!(app.switches, []);
        assert_eq!(app.drivers, [("CACHE_STORE".into(), "redis".into(), 5)]);
        let asks: Vec<String> = asks.iter().map(|(to, how)| format!("{to} {how}")).collect();
        assert_eq!(
            asks,
            [
                "kv:6380 /srv/app/bootstrap/cache/config.php:8",
                "db:5432 /srv/app/bootstrap/cache/config.php:7"
            ]
        );
        let (app, asks, _) = of(&cache("true", "file"));
        assert_eq!(
            app.switches[0].to_string(),
            "app.debug = true (bootstrap/cache/config.php:3)"
        );
        assert_eq!(asks.len(), 1, "nothing uses Redis");
    }

    #[test]
    fn a_file_larger_than_any_of_its_kind_is_told_and_not_read() {
        let long = |bytes: usize| format!("APP_DEBUG=true\n#{}\n", "x".repeat(bytes));
        for (bytes, switches, told) in [(1000, 1, 0), (65 << 10, 0, 1)] {
            let files = Memory::of(&[("/w/.env", &long(bytes))]);
            let (app, _, blind) = look(&files, "/w", 0);
            assert_eq!((app.switches.len(), blind.len()), (switches, told));
            assert!(blind.iter().all(|one| one.why.contains("65536 bytes")));
        }
    }

    #[test]
    fn what_symfony_takes_from_later_files_does_not_count_in_the_first() {
        let on = |later: &[(&str, &str)]| {
            let committed = [("/w/.env", "APP_ENV=dev\n")];
            let files = Memory::of(&[&committed[..], later].concat());
            let (app, ..) = look(&files, "/w", 0);
            !app.switches.is_empty()
        };
        assert!(on(&[]));
        assert!(!on(&[("/w/.env.local", "APP_ENV=prod\n")]));
        assert!(!on(&[("/w/.env.local.php", "<?php return x();\n")]));
        let long = "#".repeat(300 << 10);
        assert!(!on(&[("/w/.env.local.php", &long)]), "nobody reads it");
        // Laravel knows none of these.
        let laravel = ("/w/artisan", "");
        assert!(on(&[laravel, ("/w/.env.local", "APP_ENV=prod\n")]));
    }

    #[test]
    fn a_pools_own_environment_says_whom_it_asks() {
        let case = crate::rule::case::Case::healthy().pool_with(
            "env[REDIS_HOST] = \"10.0.0.4\"\nenv[DB_HOST] = /run/postgresql\nenv[DB_PASSWORD] = secret",
            "",
        );
        let asks = of_environment(&case.0.services[1].pools[0]);
        let said: Vec<String> = asks
            .iter()
            .map(|(endpoint, how)| format!("{endpoint} {how}"))
            .collect();
        assert!(
            said[0].starts_with("10.0.0.4:6379 /etc/php/php-fpm.conf:"),
            "{said:?}"
        );
        assert!(said[1].starts_with("/run/postgresql "), "{said:?}");
        assert!(!format!("{asks:?}").contains("secret"));
    }

    #[test]
    fn sessions_of_php_itself_say_which_redis_a_pool_asks() {
        let of = |handler: &str, path: &str| {
            let pool = format!(
                "php_value[session.save_handler] = {handler}\nphp_value[session.save_path] = \"{path}\""
            );
            let case = crate::rule::case::Case::healthy().pool_with(&pool, "");
            let asks = of_sessions(&case.0.services[1].pools[0]);
            let said = asks
                .iter()
                .map(|(endpoint, how)| format!("{endpoint} {how}"));
            said.collect::<Vec<_>>()
        };
        let one = of("redis", "tcp://127.0.0.1:21379?database=1&auth=secret");
        assert!(
            one.len() == 1 && one[0].starts_with("127.0.0.1:21379 /etc/php/php-fpm.conf:"),
            "{one:?}"
        );
        assert!(
            of("redis", "unix:///run/redis.sock?database=1")[0].starts_with("/run/redis.sock ")
        );
        assert_eq!(of("redis", "tcp://a:1?weight=1, tcp://b:2").len(), 2);
        assert!(of("redis", "tcp://kv")[0].starts_with("kv:6379 "));
        assert!(of("memcached", "tcp://a:11211").is_empty());
        assert!(of("files", "/var/lib/php/sessions").is_empty());
        let ini = "session.save_handler=redis\nsession.save_path=tcp://kv:6380";
        let case = crate::rule::case::Case::healthy().pool_with("", ini);
        assert_eq!(
            of_sessions(&case.0.services[1].pools[0])[0].0.to_string(),
            "kv:6380"
        );
    }

    #[test]
    fn wordpress_names_its_database() {
        let asked = |host: &str| {
            let text = format!(
                "<?php\ndefine( 'DB_PASSWORD', 'secret' );\ndefine('DB_HOST', '{host}');\n"
            );
            let files = Memory::of(&[("/w/wp-config.php", &text), ("/w/index.php", "")]);
            let (_, asks, _) = look(&files, "/w", 0);
            let (endpoint, source) = asks.into_iter().next().expect("a database");
            assert_eq!(source, "/w/wp-config.php:3");
            endpoint.to_string()
        };
        assert_eq!(asked("db"), "db:3306");
        assert_eq!(asked("10.0.0.5:3307"), "10.0.0.5:3307");
        assert_eq!(asked("localhost"), MYSQL_SOCKET);
        assert_eq!(asked("localhost:/run/m.sock"), "/run/m.sock");
    }

    #[test]
    fn a_directory_s_own_settings_are_told_of() {
        let files = Memory::of(&[("/srv/a/public/.user.ini", "memory_limit = 3G\n")]);
        let (.., blind) = look(&files, "/srv/a", 0);
        let told: Vec<&str> = blind.iter().map(|one| one.what.as_str()).collect();
        assert_eq!(told, ["/srv/a/public/.user.ini"]);
        assert!(look(&files, "/srv/b", 0).2.is_empty());
    }
}
