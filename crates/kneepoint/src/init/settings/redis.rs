//! Redis in files of settings in PHP: `$CFG->session_redis_host = '127.0.0.1';`, `define('WP_REDIS_HOST', 'cache');`.

use super::changes::FileChange;
use super::database::SettingsFile;
use super::known::with_value;
use super::roles::{Role, of_redis, plain};
use kneepoint_stack::application::code::{Assignment, assignments};

const WHY: &str = "The lab's Redis instead of yours.";
const OPEN: &str = "The lab's Redis asks for no password. (Yours is not written here: the old value stays behind the colon, \
                    where it counts no more.)";

/// The changes by which the Redis that files name is the lab's; none where they name no Redis.
pub(super) fn changes(files: &[SettingsFile]) -> Vec<FileChange> {
    files.iter().flat_map(of_file).collect()
}

fn of_file(file: &SettingsFile) -> Vec<FileChange> {
    let mut set = assignments(&file.text);
    // A property is made before anything runs: it cannot read the environment.
    set.retain(|set| !set.fixed);
    let names_one = set
        .iter()
        .any(|set| role(set.target) == Some(Role::Host) && says_something(set));
    let is_used = names_one && !is_in_another(&set);
    let set = set.iter().filter(|_| is_used);
    set.filter_map(|set| change(file, set)).collect()
}

/// Whether a file that has settings of several caches says that it uses another one, as MyBB's does.
fn is_in_another(set: &[Assignment<'_>]) -> bool {
    let mut stores = set
        .iter()
        .filter(|set| plain(set.target).ends_with("cachestore"));
    stores.any(|set| set.text().is_some_and(|store| store != "redis"))
}

fn change(file: &SettingsFile, set: &Assignment<'_>) -> Option<FileChange> {
    match role(set.target)? {
        // An address may hold a password.
        Role::Host if set.text().is_some_and(|text| text.contains(['@', '?'])) => {
            let text = format!("{}true ? getenv('REDIS_HOST') : ", set.before);
            Some(FileChange::replace(&file.path, set.before, text, WHY))
        }
        Role::Host if says_something(set) => {
            Some(with_value(file, set, "getenv('REDIS_HOST')", WHY))
        }
        Role::Port if set.plain().is_some() => {
            Some(with_value(file, set, "(int) getenv('REDIS_PORT')", WHY))
        }
        Role::Password if says_something(set) => {
            let text = format!("{}true ? null : ", set.before);
            Some(FileChange::replace(&file.path, set.before, text, OPEN))
        }
        _ => None,
    }
}

/// What a name says of Redis. What a client has to say first is called `auth`, too.
fn role(name: &str) -> Option<Role> {
    let plain = plain(name);
    let is_password = plain.contains("redis") && plain.ends_with("auth");
    of_redis(name).or_else(|| is_password.then_some(Role::Password))
}

fn says_something(set: &Assignment<'_>) -> bool {
    set.text().is_some_and(|text| !text.is_empty())
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
        let copy = changes(&[file]).iter().fold(text.to_owned(), |copy, it| {
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
        ] {
            let file = SettingsFile {
                path: "config.php".into(),
                text: text.into(),
            };
            assert!(changes(&[file]).is_empty(), "{text}");
        }
    }
}
