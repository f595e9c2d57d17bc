//! Switches in an application's own settings that cost a request its time: a cache that is off, debugging that is on.

use super::lines::Lines;
use super::symfony::{COMPILED, NAMES};
use super::{code, dotenv, laravel, symfony};
use kneepoint_model::{AppSwitch, SwitchKind};
use std::collections::HashSet;
use std::path::Path;

/// Files of settings, below the application's root.
pub const FILES: [&str; 12] = [
    "LocalSettings.php",
    "wp-config.php",
    "conf/local.php",
    "conf/local.protected.php",
    "config.inc.php",
    "config/config.inc.php",
    "sites/default/settings.php",
    "sites/default/settings.local.php",
    "configuration.php",
    ".env",
    ".env.local",
    COMPILED,
];

/// Values that cost.
#[derive(Clone, Copy)]
enum Costs {
    /// One of these words, whatever the case of their letters.
    Words(&'static [&'static str]),
    /// Anything that is not off.
    On,
    /// A number below zero.
    Negative,
    /// A number of at least this.
    AtLeast(i64),
}

/// What counts as off.
const OFF: [&str; 7] = ["", "0", "false", "off", "no", "null", "none"];
/// Words that a switch is set to, beside those that cost: a value of these is told, since it is no secret and nobody's name.
const WORDS: [&str; 22] = [
    "1",
    "true",
    "on",
    "yes",
    "0",
    "false",
    "off",
    "no",
    "null",
    "none",
    "local",
    "dev",
    "development",
    "debug",
    "test",
    "testing",
    "staging",
    "prod",
    "production",
    "cache_none",
    "array",
    "e_all",
];
/// What is told of any other value: somebody may have written a password there.
const NOT_SHOWN: &str = "a value that is not shown";
const NO_CACHE: Costs = Costs::Words(&["cache_none"]);
const DRUPAL_NO_CACHE: Costs = Costs::Words(&["cache.backend.null"]);

/// A switch that costs.
struct Known {
    name: &'static str,
    kind: SwitchKind,
    costs: Costs,
    /// What is right for visitors, as the file spells it; empty where nobody knows.
    right: &'static str,
}

const fn known(name: &'static str, kind: SwitchKind, costs: Costs, right: &'static str) -> Known {
    Known {
        name,
        kind,
        costs,
        right,
    }
}

/// The switches: where they are documented stands beside each group.
const KNOWN: [Known; 25] = [
    // https://www.mediawiki.org/wiki/Manual:$wgMainCacheType and the pages of the others
    known(
        "$wgMainCacheType",
        SwitchKind::CacheOff,
        NO_CACHE,
        "CACHE_DB",
    ),
    known(
        "$wgParserCacheType",
        SwitchKind::CacheOff,
        NO_CACHE,
        "CACHE_DB",
    ),
    known(
        "$wgMessageCacheType",
        SwitchKind::CacheOff,
        NO_CACHE,
        "CACHE_DB",
    ),
    known("$wgDebugLogFile", SwitchKind::DebugOn, Costs::On, "''"),
    known("$wgDebugToolbar", SwitchKind::DebugOn, Costs::On, "false"),
    known("$wgDebugDumpSql", SwitchKind::DebugOn, Costs::On, "false"),
    known("$wgDebugComments", SwitchKind::DebugOn, Costs::On, "false"),
    known(
        "$wgDevelopmentWarnings",
        SwitchKind::DebugOn,
        Costs::On,
        "false",
    ),
    // https://www.dokuwiki.org/config:cachetime, https://www.dokuwiki.org/config:allowdebug
    known(
        "$conf['cachetime']",
        SwitchKind::CacheOff,
        Costs::Negative,
        "86400",
    ),
    known("$conf['allowdebug']", SwitchKind::DebugOn, Costs::On, "0"),
    // https://developer.wordpress.org/advanced-administration/debug/debug-wordpress/
    known("WP_DEBUG", SwitchKind::DebugOn, Costs::On, "false"),
    known("SAVEQUERIES", SwitchKind::DebugOn, Costs::On, "false"),
    // https://docs.phpmyadmin.net/en/latest/config.html
    known(
        "$cfg['DBG']['sql']",
        SwitchKind::DebugOn,
        Costs::On,
        "false",
    ),
    // https://github.com/roundcube/roundcubemail/blob/master/config/defaults.inc.php
    known(
        "$config['debug_level']",
        SwitchKind::DebugOn,
        Costs::AtLeast(4),
        "1",
    ),
    known(
        "$config['sql_debug']",
        SwitchKind::DebugOn,
        Costs::On,
        "false",
    ),
    known(
        "$config['devel_mode']",
        SwitchKind::DebugOn,
        Costs::On,
        "false",
    ),
    // https://www.drupal.org/docs/develop/development-tools/disabling-and-debugging-caching
    known(
        "$settings['cache']['bins']['render']",
        SwitchKind::CacheOff,
        DRUPAL_NO_CACHE,
        "",
    ),
    known(
        "$settings['cache']['bins']['page']",
        SwitchKind::CacheOff,
        DRUPAL_NO_CACHE,
        "",
    ),
    known(
        "$settings['cache']['bins']['dynamic_page_cache']",
        SwitchKind::CacheOff,
        DRUPAL_NO_CACHE,
        "",
    ),
    // https://docs.joomla.org/Debugging_problems
    known("$debug", SwitchKind::DebugOn, Costs::On, "false"),
    // https://laravel.com/docs/configuration#debug-mode, https://laravel.com/docs/cache
    known("APP_DEBUG", SwitchKind::DebugOn, Costs::On, "false"),
    known(
        "CACHE_STORE",
        SwitchKind::CacheOff,
        Costs::Words(&["array", "null"]),
        "file",
    ),
    known(
        "CACHE_DRIVER",
        SwitchKind::CacheOff,
        Costs::Words(&["array", "null"]),
        "file",
    ),
    known(
        "VIEW_CACHE",
        SwitchKind::CacheOff,
        Costs::Words(&["false"]),
        "true",
    ),
    // https://symfony.com/doc/current/configuration.html#selecting-the-active-environment
    known(
        "APP_ENV",
        SwitchKind::DebugOn,
        Costs::Words(&["dev"]),
        "prod",
    ),
];

impl Costs {
    fn hold(self, value: &str) -> bool {
        let value = bare(value);
        let number = || value.parse::<i64>().ok();
        match self {
            Self::Words(words) => words.contains(&value.as_str()),
            Self::On => !OFF.contains(&value.as_str()),
            Self::Negative => number().is_some_and(|number| number < 0),
            Self::AtLeast(least) => number().is_some_and(|number| number >= least),
        }
    }

    /// A value as it may be told.
    fn told(self, value: &str) -> String {
        let word = bare(value);
        let is_of_switch = match self {
            Self::Words(words) => words.contains(&word.as_str()),
            Self::On => false,
            // What costs was read as a number.
            Self::Negative | Self::AtLeast(_) => true,
        };
        match is_of_switch || WORDS.contains(&word.as_str()) {
            true => value.to_owned(),
            false => NOT_SHOWN.to_owned(),
        }
    }
}

/// A value in small letters, without quotes.
fn bare(value: &str) -> String {
    value.trim().trim_matches(['"', '\'']).to_lowercase()
}

/// The switches that cost, in the files of settings below an application's root. Files that are not there or cannot be
/// read have none; conditions around a setting are not understood. Laravel reads `.env` alone, and not even that where it has
/// its cache.
#[must_use]
pub fn switches(root: &Path) -> Vec<AppSwitch> {
    let is_laravel = root.join("artisan").exists();
    let cache = root.join(laravel::CACHE);
    let is_cached = is_laravel && cache.exists();
    let cached = super::text(&cache).filter(|_| is_cached);
    let mut found = cached.map_or_else(Vec::new, |text| laravel::Cached::of(&text).switches());
    for file in FILES {
        let is_environment = file.starts_with(".env");
        if is_environment && (is_cached || (is_laravel && file != ".env")) {
            continue;
        }
        let path = root.join(file);
        if path.exists() {
            add(&mut found, file, &super::text(&path).unwrap_or_default());
        }
    }
    found
}

/// Adds the switches in the text of one of [`FILES`] to those of the files before it, in their order, without what it
/// takes the place of. Of a file that nobody can read the text is empty.
pub fn add(found: &mut Vec<AppSwitch>, file: &str, text: &str) {
    symfony::let_go(found, file, text);
    found.extend(of_file(file, text));
}

/// What a file gives a name; no value where it is not known before it runs.
struct Set<'t> {
    target: String,
    value: Option<String>,
    line: u32,
    /// The statement of PHP that does it.
    statement: Option<code::Assignment<'t>>,
}

/// The switches that cost in the text of one of [`FILES`]. Where it sets one twice, that counts which counts for PHP.
#[must_use]
pub fn of_file(file: &str, text: &str) -> Vec<AppSwitch> {
    let set: Vec<Set<'_>> = match file {
        COMPILED => of_compiled(text),
        file if file.ends_with(".php") => of_code(text),
        _ => of_dotenv(text),
    };
    let switch = |known: &Known| {
        let set = set.iter().rev().find(|set| set.target == known.name)?;
        let value = set.value.as_ref()?;
        let instead = || match &set.statement {
            // The file is made by a command, from others.
            _ if file == COMPILED => None,
            Some(statement) => around(text, statement),
            None => up_to_value(text, set.line),
        };
        known.costs.hold(value).then(|| AppSwitch {
            kind: known.kind,
            name: known.name.to_owned(),
            value: known.costs.told(value),
            file: file.to_owned(),
            line: set.line,
            instead: instead()
                .filter(|_| !known.right.is_empty())
                .map(|(before, behind)| format!("{before}{}{behind}", known.right)),
        })
    };
    KNOWN.iter().filter_map(switch).collect()
}

fn of_code(text: &str) -> Vec<Set<'_>> {
    let mut found: Vec<Set<'_>> = Vec::new();
    let mut constants: HashSet<String> = HashSet::new();
    let mut lines = Lines::of(text);
    for set in code::assignments(text) {
        let target = canonical(set.target);
        if set.is_constant() && !constants.insert(target.clone()) {
            continue;
        }
        // The value of a constant of somebody's own is not known.
        let told = |value: &&str| {
            !value.starts_with(|c: char| c.is_alphabetic()) || is_known_word(&bare(value))
        };
        found.push(Set {
            target,
            value: set.plain().filter(told).map(str::to_owned),
            line: u32::try_from(lines.at(set.whole)).unwrap_or(u32::MAX),
            statement: Some(set),
        });
    }
    found
}

/// What stands before and behind the value of a statement that has its line for itself. A comment in it is the application's own
/// text, which goes into no report.
fn around<'t>(text: &'t str, set: &code::Assignment<'t>) -> Option<(&'t str, &'t str)> {
    let line = Lines::of(text).text_at(set.whole);
    let is_alone = line.trim() == set.whole.trim() && !set.value.is_empty();
    let (before, behind) = set.whole.trim().split_at_checked(set.before.len())?;
    let behind = behind.strip_prefix(set.value)?;
    let says_more = |text: &str| {
        let comments = ["/*", "//", "#"];
        comments.iter().any(|mark| text.contains(mark)) || text.contains(char::is_control)
    };
    (is_alone && !says_more(before) && !says_more(behind)).then_some((before, behind))
}

/// What stands before the value on a line of `.env`.
fn up_to_value(text: &str, line: u32) -> Option<(&str, &str)> {
    let line = text.lines().nth((line as usize).checked_sub(1)?)?;
    Some((line.get(..=line.find('=')?)?, ""))
}

fn of_dotenv(text: &str) -> Vec<Set<'_>> {
    let sets = dotenv::known(text).into_iter();
    sets.map(|set| Set {
        target: set.name,
        value: set.value,
        line: u32::try_from(set.line).unwrap_or(u32::MAX),
        statement: None,
    })
    .collect()
}

fn of_compiled(text: &str) -> Vec<Set<'_>> {
    let sets = symfony::compiled(text).into_iter();
    let sets = sets.filter(|(name, ..)| NAMES.contains(&name.as_str()));
    sets.map(|(target, value, line)| Set {
        target,
        value: Some(value),
        line,
        statement: None,
    })
    .collect()
}

/// Whether a value, as it is written, is a word that switches are set to, and so no secret.
#[must_use]
pub fn is_switch_word(value: &str) -> bool {
    let word = bare(value);
    word.parse::<i64>()
        .is_ok_and(|number| number.abs() < 100_000)
        || is_known_word(&word)
}

/// Whether a word, in small letters, is one that switches are set to.
fn is_known_word(word: &str) -> bool {
    let is_of = |known: &Known| matches!(known.costs, Costs::Words(words) if words.contains(&word));
    WORDS.contains(&word) || KNOWN.iter().any(is_of)
}

/// `$conf["cachetime"]` and `$conf['cachetime']` are one.
fn canonical(target: &str) -> String {
    target.replace('"', "'").replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(file: &str, text: &str, expected: &[&str]) {
        let found = of_file(file, text);
        let shown: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn caches_that_are_off_are_found_with_their_line() {
        check(
            "LocalSettings.php",
            "<?php\n# $wgMainCacheType = CACHE_NONE;\n$wgMainCacheType = CACHE_NONE;\n$wgParserCacheType = CACHE_DB;\n",
            &["$wgMainCacheType = CACHE_NONE (LocalSettings.php:3)"],
        );
        check(
            "conf/local.php",
            "<?php\n$conf[\"cachetime\"] = -1;\n",
            &["$conf['cachetime'] = -1 (conf/local.php:2)"],
        );
        check("conf/local.php", "<?php $conf['cachetime'] = 86400;", &[]);
    }

    #[test]
    fn the_last_value_counts() {
        let text = "<?php\ndefine('WP_DEBUG', true);\n";
        check(
            "wp-config.php",
            text,
            &["WP_DEBUG = true (wp-config.php:2)"],
        );
        check("wp-config.php", "<?php define('WP_DEBUG', false);", &[]);
        let twice = "<?php\n$wgDebugToolbar = true;\n$wgDebugToolbar = false;\n";
        check("LocalSettings.php", twice, &[]);
    }

    #[test]
    fn an_environment_says_what_is_switched() {
        check(
            ".env",
            "# APP_DEBUG=true\nAPP_ENV=prod\nAPP_DEBUG=\"true\"\nCACHE_STORE=redis\n",
            &["APP_DEBUG = true (.env:3)"],
        );
        check(".env", "APP_ENV=dev", &["APP_ENV = dev (.env:1)"]);
    }

    #[test]
    fn laravel_reads_one_file_of_environment() {
        let dir = tempfile::tempdir().expect("a directory");
        let put =
            |path: &str, text: &str| std::fs::write(dir.path().join(path), text).expect("a file");
        put(".env", "APP_DEBUG=true\n");
        put(".env.local", "APP_DEBUG=false\n");
        assert_eq!(switches(dir.path()), []);
        put("artisan", "");
        assert_eq!(switches(dir.path())[0].file, ".env");
    }

    fn instead(file: &str, text: &str, expected: Option<&str>) {
        let found = of_file(file, text);
        assert_eq!(found[0].instead.as_deref(), expected, "{text}");
    }

    #[test]
    fn the_line_that_is_right_keeps_all_but_the_value() {
        instead(
            "wp-config.php",
            "<?php\n\tdefine( 'WP_DEBUG', true );\r\n",
            Some("define( 'WP_DEBUG', false );"),
        );
        instead(
            "conf/local.php",
            "<?php\n$conf['cachetime'] = -1;\n",
            Some("$conf['cachetime'] = 86400;"),
        );
        instead(
            ".env",
            "X=1\nexport APP_DEBUG=true # on",
            Some("export APP_DEBUG=false"),
        );
    }

    #[test]
    fn a_line_that_holds_more_is_left_to_its_owner() {
        instead("wp-config.php", "<?php define('WP_DEBUG', true);", None);
        let told = "<?php\ndefine('WP_DEBUG', /* was hunter2 */ true);\n";
        instead("wp-config.php", told, None);
        let secret = "<?php\ndefine('K', 'secret'); define('WP_DEBUG', true);\n";
        instead("wp-config.php", secret, None);
        instead(
            "wp-config.php",
            "<?php\ndefine('WP_DEBUG',\n true);\n",
            None,
        );
        let bins = "<?php\n$settings['cache']['bins']['page'] = 'cache.backend.null';\n";
        instead("sites/default/settings.php", bins, None);
    }

    #[test]
    fn what_is_no_word_of_a_switch_is_not_told() {
        for value in [
            "sk_live_4eC39HqLyjWDarj",
            "truely",
            "\u{1b}[2J",
            "http://acme.example/x",
        ] {
            let found = of_file(".env", &format!("APP_DEBUG={value}"));
            assert_eq!(found[0].value, "a value that is not shown", "{value}");
        }
        let path = "<?php $wgDebugLogFile = '/srv/acme/debug.log'; $wgDebugToolbar = 'acme';";
        let found = of_file("LocalSettings.php", path);
        assert_eq!(found.len(), 2);
        assert!(
            found
                .iter()
                .all(|one| one.value == "a value that is not shown"),
            "{found:?}"
        );
        check(".env", "APP_DEBUG=On", &["APP_DEBUG = On (.env:1)"]);
        check(
            "config/config.inc.php",
            "<?php $config['debug_level'] = 5;",
            &["$config['debug_level'] = 5 (config/config.inc.php:1)"],
        );
    }

    #[test]
    fn what_is_known_only_when_it_runs_is_no_switch() {
        for value in [
            "!!getenv_docker('WORDPRESS_DEBUG', '')",
            "getenv('WP_DEBUG') === '1'",
            "!empty($_ENV['WP_DEBUG'])",
            "$debug",
            "MY_DEBUG",
            "My\\Switches::DEBUG",
        ] {
            let text = format!("<?php define( 'WP_DEBUG', {value} );");
            check("wp-config.php", &text, &[]);
        }
        check(".env", "DBG=false\nAPP_DEBUG=${DBG}\n", &[]);
        check(".env", "APP_DEBUG=${DBG}\n", &[]);
        check(".env", "APP_DEBUG=true\nAPP_DEBUG=${DBG}\n", &[]);
        check(
            ".env",
            "DBG=true\nAPP_DEBUG=\"${DBG}\"\n",
            &["APP_DEBUG = true (.env:2)"],
        );
    }

    #[test]
    fn a_constant_keeps_its_first_value() {
        let text = "<?php\ndefine('WP_DEBUG', false);\ndefine('WP_DEBUG', true);\n";
        check("wp-config.php", text, &[]);
        let text = "<?php\ndefine('WP_DEBUG', true);\ndefine('WP_DEBUG', false);\n";
        check(
            "wp-config.php",
            text,
            &["WP_DEBUG = true (wp-config.php:2)"],
        );
        let text = "<?php\ndefine('WP_DEBUG', getenv('D'));\ndefine('WP_DEBUG', true);\n";
        check("wp-config.php", text, &[]);
    }

    #[test]
    fn where_laravel_has_its_cache_the_environment_does_not_count() {
        let dir = tempfile::tempdir().expect("a directory");
        let put =
            |path: &str, text: &str| std::fs::write(dir.path().join(path), text).expect("a file");
        std::fs::create_dir_all(dir.path().join("bootstrap/cache")).expect("a directory");
        put("artisan", "");
        put(".env", "APP_DEBUG=true\n");
        assert_eq!(switches(dir.path())[0].file, ".env");
        let cache =
            |debug| format!("<?php return array (\n 'app' => array ( 'debug' => {debug}, ),\n);\n");
        put(laravel::CACHE, &cache(false));
        assert_eq!(switches(dir.path()), []);
        put(laravel::CACHE, &cache(true));
        let found = switches(dir.path());
        assert_eq!(
            found[0].to_string(),
            "app.debug = true (bootstrap/cache/config.php:2)"
        );
    }

    #[test]
    fn an_application_without_files_has_none() {
        let dir = tempfile::tempdir().expect("directory");
        assert!(switches(dir.path()).is_empty());
    }
}
