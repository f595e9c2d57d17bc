//! Redis in settings: statements of PHP, `$CFG->session_redis_host = '127.0.0.1';`, `define('WP_REDIS_HOST', 'cache');`, and
//! values of an environment. The lab has one Redis, at a host and a port, without a password and without TLS.

use super::changes::FileChange;
use super::database::SettingsFile;
use super::known::with_value;
use super::roles::{Role, of_redis, plain};
use kneepoint_model::AppKind;
use kneepoint_stack::application::code::{Assignment, assignments};
use kneepoint_stack::detect::Detected;
use std::collections::BTreeMap;
use std::path::Path;

/// Why neither TLS nor a socket is asked for.
pub(super) const PLAIN: &str = "The lab's Redis is asked at a host and a port, without TLS.";
const WHY: &str = "The lab's Redis instead of yours.";
const OPEN: &str = "The lab's Redis asks for no password. (Yours is not written here: the old value stays behind the colon, \
                    where it counts no more.)";
/// How the names of settings begin that object caches of WordPress read, and nobody else.
const OF_OBJECT_CACHE: &str = "WP_REDIS_";

/// The changes by which the Redis that files name is the lab's, and a sentence for each file that asks for another kind than
/// the lab has; none where they name no Redis. `is_asked` says whether WordPress has an object cache.
pub(super) fn changes(files: &[SettingsFile], is_asked: bool) -> (Vec<FileChange>, Vec<String>) {
    let (mut changes, mut notes) = (Vec::new(), Vec::new());
    for file in files {
        let mut set = assignments(&file.text);
        // A property is made before anything runs: it cannot read the environment.
        set.retain(|set| !set.fixed && (is_asked || !set.target.starts_with(OF_OBJECT_CACHE)));
        if is_in_another(&set) {
            continue;
        }
        let names_one = set
            .iter()
            .any(|set| role(set.target) == Some(Role::Host) && says_something(set));
        if names_one {
            changes.extend(set.iter().filter_map(|set| change(file, set)));
        }
        // With another scheme than that of a socket its path is not read.
        let has_scheme = names_one && set.iter().any(|set| is_redis_scheme(set.target));
        let left = set
            .iter()
            .filter(|set| gives_several(set) || (is_socket(set) && !has_scheme));
        notes.extend(note(&file.path, left.map(|set| set.target)));
    }
    (changes, notes)
}

/// Whether somebody reads what object caches of WordPress have for settings. Where its contents lie elsewhere, one may.
pub(super) fn is_asked(root: &Path, found: &Detected, files: &[SettingsFile]) -> bool {
    let content = root.join(&found.front).with_file_name("wp-content");
    let elsewhere = files
        .iter()
        .any(|file| file.text.contains("WP_CONTENT_DIR"));
    let is_known = content.is_dir() && !elsewhere;
    found.kind != AppKind::Wordpress || !is_known || content.join("object-cache.php").exists()
}

/// A sentence about an environment that gives several servers, or sentinels.
pub(super) fn note_of_environment(values: &BTreeMap<String, String>) -> Option<String> {
    let is_left = |(name, value): &(&String, &String)| {
        let is_host = of_redis(name) == Some(Role::Host) && !value.is_empty();
        is_of_several(name) && (is_host || value.contains(':'))
    };
    let left = values.iter().filter(is_left);
    note("its environment", left.map(|(name, _)| name.as_str()))
}

/// What is left to do by hand; `None` where nothing is.
fn note<'t>(whose: &str, names: impl Iterator<Item = &'t str>) -> Option<String> {
    let mut names: Vec<&str> = names.collect();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "{whose} gives Redis as a list of servers, as sentinels or as a socket ({}), and that stays as it is: the lab has \
             one Redis, at a host and a port (REDIS_HOST and REDIS_PORT), so change it by hand, in [app.env] or with an \
             [[app.file]]",
            names.join(", ")
        )
    })
}

/// Whether a file that has settings of several caches says that it uses another one, as MyBB's does.
fn is_in_another(set: &[Assignment<'_>]) -> bool {
    let mut stores = set
        .iter()
        .filter(|set| plain(set.target).ends_with("cachestore"));
    stores.any(|set| set.text().is_some_and(|store| store != "redis"))
}

fn change(file: &SettingsFile, set: &Assignment<'_>) -> Option<FileChange> {
    // What stands behind may be a secret, or hold one.
    let before = |new: &str, why: &str| {
        let text = format!("{}true ? {new} : ", set.before);
        Some(FileChange::replace(&file.path, set.before, text, why))
    };
    let instead = |new: &str, why: &str| Some(with_value(file, set, new, why));
    match role(set.target) {
        Some(Role::Host) if set.text().is_some_and(|text| text.contains(['@', '?'])) => {
            before("getenv('REDIS_HOST')", WHY)
        }
        Some(Role::Host) if says_something(set) => instead("getenv('REDIS_HOST')", WHY),
        Some(Role::Port) if set.plain().is_some() => instead("(int) getenv('REDIS_PORT')", WHY),
        Some(Role::Password) if says_something(set) => before("null", OPEN),
        None if is_another_scheme(set) => instead("'tcp'", PLAIN),
        // Moodle's `$CFG->session_redis_encrypt`.
        None if ends(set.target, "encrypt") => before("null", PLAIN),
        _ => None,
    }
}

/// What a name says of Redis. What a client has to say first is called `auth`, too.
fn role(name: &str) -> Option<Role> {
    let is_password = || ends(name, "auth").then_some(Role::Password);
    let role = of_redis(name).or_else(is_password);
    role.filter(|_| !is_of_several(name))
}

/// Whether a name of Redis ends with this.
fn ends(name: &str, end: &str) -> bool {
    let plain = plain(name);
    plain.contains("redis") && plain.ends_with(end)
}

/// Whether a name says how Redis is spoken to: `WP_REDIS_SCHEME`.
pub(super) fn is_redis_scheme(name: &str) -> bool {
    ends(name, "scheme")
}

fn is_another_scheme(set: &Assignment<'_>) -> bool {
    let is_other = |scheme: &str| !["", "tcp"].contains(&scheme);
    is_redis_scheme(set.target) && set.text().is_some_and(is_other)
}

/// Whether a name is of a cluster, or of sentinels, who know where a Redis is: the lab has neither.
pub(super) fn is_of_several(name: &str) -> bool {
    let plain = plain(name);
    let has = |word: &str| plain.contains(word);
    has("redis") && (has("cluster") || has("sentinel"))
}

/// Whether a setting gives several servers, or sentinels.
fn gives_several(set: &Assignment<'_>) -> bool {
    const ENDS: [&str; 4] = ["nodes", "seeds", "servers", "shards"];
    let is_named = is_of_several(set.target) || ENDS.iter().any(|end| ends(set.target, end));
    let is_sentinel = || plain(set.target).contains("sentinel");
    match set.text() {
        Some(text) => is_named && (text.contains(':') || (is_sentinel() && !text.is_empty())),
        None => (is_named || role(set.target) == Some(Role::Host)) && is_list(set.value),
    }
}

/// Whether a value is a list in which texts stand as they are.
fn is_list(value: &str) -> bool {
    let array = || value.strip_prefix("array")?.trim_start().strip_prefix('(');
    let inside = value.strip_prefix('[').or_else(array);
    inside.is_some_and(|inside| inside.contains(['\'', '"']) && !inside.contains("env("))
}

/// Whether a setting gives the socket of a Redis, under another name than that of a host.
fn is_socket(set: &Assignment<'_>) -> bool {
    let is_path =
        |text: &str| text.starts_with("unix:") || (text.starts_with('/') && text.contains(".sock"));
    let is_others = !plain(set.target).contains("redis") || role(set.target) == Some(Role::Host);
    !is_others && set.text().is_some_and(is_path)
}

fn says_something(set: &Assignment<'_>) -> bool {
    set.text().is_some_and(|text| !text.is_empty())
}

/// Whether a text is the address of a Redis.
pub(super) fn is_redis(text: &str) -> bool {
    text.starts_with("redis://") || text.starts_with("rediss://")
}

/// Whether a value says where a Redis is with its port, its database and its password: `REDIS_SERVERS=cache:6379:0`.
pub(super) fn is_redis_server(name: &str, old: &str) -> bool {
    const ENDS: [&str; 4] = ["server", "servers", "nodes", "endpoint"];
    let first = old.split(',').next().unwrap_or_default();
    let port = first.split(':').nth(1);
    ENDS.iter().any(|end| ends(name, end)) && port.is_some_and(|port| port.parse::<u16>().is_ok())
}

/// The lab's Redis in the form of another address, with its path and without its secrets. Where no host stands before it, the
/// path is that of a socket.
pub(super) fn of_another_redis(old: &str) -> String {
    let whole = old.split(['?', '#']).next().unwrap_or_default();
    let mut parts = whole.splitn(4, '/').skip(2);
    let host = parts.next().and_then(|host| host.rsplit('@').next());
    let is_host = host.is_some_and(|host| !host.is_empty());
    let path = parts.next().filter(|_| is_host).unwrap_or_default();
    let slash = if path.is_empty() { "" } else { "/" };
    format!("redis://{{REDIS_HOST}}:{{REDIS_PORT}}{slash}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// What a file becomes in the copy. No change holds the word `secret`.
    #[track_caller]
    fn check(text: &str, expected: &Expect) {
        let file = SettingsFile {
            path: "config.php".into(),
            text: text.into(),
        };
        let (changes, notes) = changes(&[file], true);
        assert!(notes.is_empty(), "{notes:?}");
        let copy = changes.iter().fold(text.to_owned(), |copy, it| {
            let find = it.find.as_deref().expect("a replacement");
            assert!(copy.contains(find), "{find}");
            assert!(!find.contains("secret") && !it.text.contains("secret"));
            copy.replace(find, &it.text)
        });
        expected.assert_eq(&copy);
    }

    #[test]
    fn the_labs_redis_is_asked_and_without_a_password() {
        check(
            "<?php\n$CFG->session_handler_class = '\\core\\session\\redis';\n$CFG->session_redis_host = '10.0.0.9';\n\
             $CFG->session_redis_port = 6390;\n$CFG->session_redis_database = 0;\n$CFG->session_redis_auth = 'secret';\n\
             define('WP_REDIS_HOST', 'cache');\ndefine('WP_REDIS_PASSWORD', 'secret');\n\
             $settings['redis.connection']['host'] = 'cache';\n",
            &expect![[r#"
                <?php
                $CFG->session_handler_class = '\core\session\redis';
                $CFG->session_redis_host = getenv('REDIS_HOST');
                $CFG->session_redis_port = (int) getenv('REDIS_PORT');
                $CFG->session_redis_database = 0;
                $CFG->session_redis_auth = true ? null : 'secret';
                define('WP_REDIS_HOST', getenv('REDIS_HOST'));
                define('WP_REDIS_PASSWORD', true ? null : 'secret');
                $settings['redis.connection']['host'] = getenv('REDIS_HOST');
            "#]],
        );
    }

    #[test]
    fn a_password_in_the_address_of_a_redis_stays_where_it_is() {
        check(
            "<?php\ndefine('CACHE_REDIS_HOST', 'tls://:secret@10.0.0.9');\n$redis_host = 'tcp://10.0.0.9?auth=secret';\n",
            &expect![[r#"
                <?php
                define('CACHE_REDIS_HOST', true ? getenv('REDIS_HOST') : 'tls://:secret@10.0.0.9');
                $redis_host = true ? getenv('REDIS_HOST') : 'tcp://10.0.0.9?auth=secret';
            "#]],
        );
    }

    #[test]
    fn of_several_caches_the_one_that_is_used_counts() {
        check(
            "<?php\n$config['cache_store'] = 'redis';\n$config['memcache']['host'] = 'localhost';\n\
             $config['redis']['host'] = 'localhost';\n$config['redis']['port'] = 6379;\n",
            &expect![[r#"
                <?php
                $config['cache_store'] = 'redis';
                $config['memcache']['host'] = 'localhost';
                $config['redis']['host'] = getenv('REDIS_HOST');
                $config['redis']['port'] = (int) getenv('REDIS_PORT');
            "#]],
        );
    }

    #[test]
    fn where_no_host_is_written_nothing_is_changed() {
        for text in [
            "<?php $redis_host = getenv('CACHE'); $redis_port = 6390;",
            "<?php $redis_host = ''; $redis_password = 'secret';",
            "<?php class A { public $redis_host = 'x'; public $redis_port = 1; }",
            "<?php // $redis_host = 'x';\n$cache_host = 'x';",
            "<?php $config['cache_store'] = 'db'; $config['redis']['host'] = 'localhost';",
            "<?php define('WP_REDIS_CLUSTER', false); $redis_servers = []; $redis_log_path = '/var/log/redis.log';",
            "<?php $redis_nodes = [getenv('A'), getenv('B')]; $redis_cluster = 'redis'; $redis_scheme = 'tls';",
        ] {
            let file = SettingsFile {
                path: "config.php".into(),
                text: text.into(),
            };
            assert_eq!(changes(&[file], true), (Vec::new(), Vec::new()), "{text}");
        }
    }

    #[test]
    fn tls_and_sockets_become_the_labs_host_and_port() {
        check(
            "<?php\n$redis_host = 'tls://10.0.0.9';\n$redis_port = 6380;\n$cache_redis_host = 'unix:/run/redis.sock';\n\
             $cache_redis_port = -1;\n$session_redis_host = '/run/redis.sock';\ndefine('WP_REDIS_SCHEME', 'unix');\n\
             define('WP_REDIS_PATH', '/run/redis.sock');\n$CFG->session_redis_encrypt = ['passphrase' => 'secret'];\n",
            &expect![[r#"
                <?php
                $redis_host = getenv('REDIS_HOST');
                $redis_port = (int) getenv('REDIS_PORT');
                $cache_redis_host = getenv('REDIS_HOST');
                $cache_redis_port = (int) getenv('REDIS_PORT');
                $session_redis_host = getenv('REDIS_HOST');
                define('WP_REDIS_SCHEME', 'tcp');
                define('WP_REDIS_PATH', '/run/redis.sock');
                $CFG->session_redis_encrypt = true ? null : ['passphrase' => 'secret'];
            "#]],
        );
    }

    #[test]
    fn several_servers_sentinels_and_other_sockets_are_left_to_a_person() {
        for (text, names) in [
            (
                "define('WP_REDIS_SENTINEL', 'main'); define('WP_REDIS_SERVERS', ['tcp://10.0.0.9:26379']);",
                "WP_REDIS_SENTINEL, WP_REDIS_SERVERS",
            ),
            (
                "$settings['redis.connection']['host'] = array ('10.0.0.9:7000', '10.0.0.10:7000');",
                "$settings['redis.connection']['host']",
            ),
            (
                "$redis_sentinel_host = '10.0.0.9'; $redis_sentinel_port = 26379;",
                "$redis_sentinel_host",
            ),
            (
                "$conf['redis_client_socket'] = '/run/redis.sock';",
                "$conf['redis_client_socket']",
            ),
            (
                "define('WP_REDIS_SCHEME', 'unix'); define('WP_REDIS_PATH', '/run/redis.sock');",
                "WP_REDIS_PATH",
            ),
        ] {
            let file = SettingsFile {
                path: "config.php".into(),
                text: format!("<?php {text}"),
            };
            let (changes, notes) = changes(&[file], true);
            let told = format!(
                "config.php gives Redis as a list of servers, as sentinels or as a socket ({names}), "
            );
            assert!(
                changes.is_empty() && notes.len() == 1,
                "{changes:?} {notes:?}"
            );
            assert!(notes[0].starts_with(&told), "{notes:?}");
        }
    }

    #[test]
    fn sentinels_of_an_environment_are_left_to_a_person() {
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            let values = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            note_of_environment(&values.collect())
        };
        let told = of(&[
            ("REDIS_CLUSTER_NODES", "10.0.0.9:7000,10.0.0.10:7000"),
            ("REDIS_SENTINEL_HOST", "10.0.0.9"),
            ("REDIS_SENTINEL_SERVICE", "main"),
        ]);
        let told = told.unwrap_or_default();
        let names = "as a socket (REDIS_CLUSTER_NODES, REDIS_SENTINEL_HOST), ";
        assert!(told.contains(names), "{told}");
        assert_eq!(of(&[("REDIS_CLUSTER", "redis"), ("REDIS_HOST", "r")]), None);
    }
}
