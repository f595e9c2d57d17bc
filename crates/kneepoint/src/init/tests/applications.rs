//! Applications as their own installers leave them.

use super::*;

#[test]
fn drupals_own_installer_writes_below_its_public_directory() {
    let settings = "<?php\n/**\n * @code\n * $databases['default']['default'] = [\n *   'database' => 'x',\n * ];\n */\n\
                    $databases = [];\n$settings['hash_salt'] = 'secret';\n\
                    $databases['default']['default'] = array (\n  'database' => 'drupal',\n  'username' => 'u',\n  \
                    'password' => 'secret',\n  'prefix' => '',\n  'host' => 'localhost',\n  'port' => '3306',\n  \
                    'driver' => 'mysql',\n);\n\
                    $settings['trusted_host_patterns'] = ['^www\\.shop\\.test$'];\n";
    let other = "-- MariaDB dump 10.19\n-- Host: x    Database: blog\nINSERT INTO x";
    let own = other.replace("blog", "drupal");
    let files = [
        ("web/index.php", ""),
        ("web/core/lib/Drupal.php", ""),
        ("web/sites/default/settings.php", settings),
        ("backup/z.sql", own.as_str()),
        ("backup/a.sql", other),
    ];
    let (facts, text) = check(&files, AppKind::Plain, "web/index.php");
    assert_eq!(facts.name, "Drupal");
    assert_eq!(
        facts.told_in.as_deref(),
        Some("web/sites/default/settings.php")
    );
    assert!(facts.notes.is_empty(), "{:?}", facts.notes);
    assert!(
        text.contains("db = { server = \"mariadb\", seed = \"backup/z.sql\" }"),
        "{text}"
    );
    // Its statement and the hosts that it trusts.
    assert_eq!(text.matches("\n[[app.file]]").count(), 2, "{text}");
}

#[test]
fn drupals_own_database_counts_and_not_the_one_it_was_moved_from() {
    let list = |key: &str, driver: &str, name: &str| {
        format!(
            "$databases['{key}']['default'] = [\n  'database' => '{name}',\n  'host' => 'h',\n  'driver' => '{driver}',\n];\n"
        )
    };
    let settings = format!(
        "<?php\n{}{}",
        list("old", "pgsql", "old"),
        list("default", "mysql", "drupal")
    );
    let files = [
        ("index.php", ""),
        ("core/lib/Drupal.php", ""),
        ("sites/default/settings.php", settings.as_str()),
    ];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.engine, Some(DbEngine::Mariadb));
}

#[test]
fn drupals_databases_in_one_list_are_read_too() {
    let settings = "<?php\n$databases = [\n  'default' => [\n    'default' => [\n      'driver' => 'pgsql',\n      \
                    'database' => 'd',\n      'username' => 'u',\n      'password' => 'secret',\n      'host' => 'h',\n    \
                    ],\n  ],\n];\n";
    let files = [
        ("index.php", ""),
        ("core/lib/Drupal.php", ""),
        ("sites/default/settings.php", settings),
    ];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.engine, Some(DbEngine::Postgresql));
    assert_eq!(facts.changes.len(), 1, "{:?}", facts.changes);
    let list = &facts.changes[0].text;
    assert!(
        list.contains("['database' => getenv('DB_DATABASE'), "),
        "{list}"
    );
}

const PHPBB: &str = "<?php
// phpBB 3.3.x auto-generated configuration file
// Do not change anything in this file!
$dbms = 'phpbb\\\\db\\\\driver\\\\mysqli';
$dbhost = 'localhost';
$dbport = '';
$dbname = 'board';
$dbuser = 'board';
$dbpasswd = 'secret';
$table_prefix = 'phpbb_';
$phpbb_adm_relative_path = 'adm/';
$acm_type = 'phpbb\\\\cache\\\\driver\\\\file';

@define('PHPBB_INSTALLED', true);
";

#[test]
fn phpbb_gets_its_database_with_a_port() {
    let front = [("index.php", ""), ("viewtopic.php", ""), ("common.php", "")];
    let files = [&front[..], &[("config.php", PHPBB)]].concat();
    let (facts, text) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(
        (facts.name.as_str(), facts.engine),
        ("phpBB", Some(DbEngine::Mariadb))
    );
    assert_eq!(text.matches("\n[[app.file]]").count(), 5, "{text}");
    assert!(text.contains("$dbport = getenv('DB_PORT');"), "{text}");
    // The package has an empty one, and the directory of its installer.
    let files = [&front[..], &[("config.php", ""), ("install/app.php", "")]].concat();
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    let told = [
        "phpBB has no config.php: it is not installed yet, ",
        "phpBB may show nobody a page as long as install is there: ",
    ];
    for (note, told) in facts.notes.iter().zip(told) {
        assert!(note.starts_with(told), "{note}");
    }
    assert_eq!(facts.notes.len(), 2, "{:?}", facts.notes);
}

#[test]
fn moodle_gets_a_port_data_of_its_own_and_the_labs_redis() {
    let settings = "<?php  // Moodle configuration file\n\nunset($CFG);\nglobal $CFG;\n$CFG = new stdClass();\n\n\
                    $CFG->dbtype    = 'mariadb';\n$CFG->dblibrary = 'native';\n$CFG->dbhost    = 'localhost';\n\
                    $CFG->dbname    = 'moodle';\n$CFG->dbuser    = 'u';\n$CFG->dbpass    = 'secret';\n$CFG->prefix    = 'mdl_';\n\
                    $CFG->dboptions = array (\n  'dbpersist' => 0,\n  'dbport' => '3307',\n  'dbsocket' => '',\n);\n\n\
                    $CFG->wwwroot   = 'https://learn.test/moodle';\n$CFG->dataroot  = '/none/moodledata';\n\
                    $CFG->session_redis_host = '10.0.0.9';\n\nrequire_once(__DIR__ . '/lib/setup.php');\n";
    let files = [
        ("index.php", "<?php new PDO($dsn);"),
        ("lib/setuplib.php", ""),
        ("config-dist.php", ""),
        ("config.php", settings),
    ];
    let (facts, text) = check(&files, AppKind::Plain, "index.php");
    assert_eq!((facts.name.as_str(), facts.redis), ("Moodle", true));
    assert_eq!(facts.hosts, ["learn.test"]);
    for wanted in [
        "$CFG->dbhost    = getenv('DB_HOST');",
        "$CFG->dboptions = ['dbport' => (int) getenv('DB_PORT'), 'dbsocket' => ''] + array (",
        "$CFG->wwwroot   = 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost');",
        "$CFG->session_redis_host = getenv('REDIS_HOST');",
        "\ncache = { server = \"redis\" }",
    ] {
        assert!(text.contains(wanted), "no {wanted} in:\n{text}");
    }
    // Four of the database, its port, the address, the data and Redis.
    assert_eq!(text.matches("\n[[app.file]]").count(), 8, "{text}");
}

#[test]
fn prestashop_gets_the_labs_values_in_its_list() {
    let settings = "<?php return array (\n  'parameters' => \n  array (\n    'database_host' => '127.0.0.1',\n    \
                    'database_port' => '',\n    'database_name' => 'shop',\n    'database_user' => 'u',\n    \
                    'database_password' => 'secret',\n    'database_prefix' => 'ps_',\n    'database_engine' => 'InnoDB',\n    \
                    'mailer_host' => '127.0.0.1',\n    'mailer_user' => NULL,\n    'secret' => 'secret',\n  ),\n);\n";
    let files = [
        ("index.php", ""),
        ("classes/PrestaShopAutoload.php", ""),
        ("classes/db/DbMySQLi.php", "<?php @new mysqli($host);"),
        ("app/config/parameters.php", settings),
    ];
    let (facts, text) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(
        (facts.name.as_str(), facts.engine),
        ("PrestaShop", Some(DbEngine::Mariadb))
    );
    let list = "  ['database_host' => getenv('DB_HOST'), 'database_port' => (int) getenv('DB_PORT'), 'database_name' => \
                getenv('DB_DATABASE'), 'database_user' => getenv('DB_USERNAME'), 'database_password' => \
                getenv('DB_PASSWORD')] + array (";
    assert!(text.contains(list), "{text}");
    let older = "<?php\ndefine('_DB_SERVER_', 'localhost');\ndefine('_DB_NAME_', 'shop');\ndefine('_DB_PASSWD_', 'secret');\n";
    let files = [
        files[0],
        files[1],
        files[2],
        ("config/settings.inc.php", older),
    ];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    let is_told = |note: &String| note.contains("not installed");
    assert!(!facts.notes.iter().any(is_told), "{:?}", facts.notes);
}

#[test]
fn what_stands_in_two_branches_is_replaced_once() {
    let settings = "<?php\ndefine('DB_DRIVER', 'mysql');\nif ($local) {\n  define('DB_HOST', 'localhost');\n  \
                    define('DB_PASSWORD', 'secret');\n  define('DB_NAME', 'a');\n} else {\n  \
                    define('DB_HOST', 'localhost');\n  define('DB_PASSWORD', 'secret');\n  define('DB_NAME', 'b');\n}\n";
    let files = [("index.php", ""), ("config.php", settings)];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    let copy = facts
        .changes
        .iter()
        .fold(settings.to_owned(), |copy, change| {
            let find = change.find.as_deref().expect("a replacement");
            assert!(copy.contains(find), "{find}");
            copy.replace(find, &change.text)
        });
    for lab in [
        "getenv('DB_HOST')",
        "true ? getenv('DB_PASSWORD') : 'secret'",
        "getenv('DB_DATABASE')",
    ] {
        assert_eq!(copy.matches(lab).count(), 2, "{copy}");
    }
}

#[test]
fn a_public_directory_is_told_from_the_application_above_it() {
    let dir = app(&empty(&[
        "composer.json",
        "vendor/autoload.php",
        "public/index.php",
    ]));
    let facts = look(&dir.path().join("public")).expect("an application");
    let above = dir.path().display();
    let told = format!(
        "{above}/vendor holds packages, and the private copy has nothing of what lies outside of {above}/public: "
    );
    assert_eq!(facts.notes.len(), 1, "{:?}", facts.notes);
    assert!(facts.notes[0].starts_with(&told), "{:?}", facts.notes);
    let facts = look(dir.path()).expect("an application");
    assert!(facts.notes.is_empty(), "{:?}", facts.notes);
}

#[test]
fn extensions_that_packages_ask_for_are_known_but_those_that_others_stand_for() {
    let lock = "{\"packages\": [{\"require\": {\"php\": \"8\", \"ext-gd\": \"*\", \"ext-mbstring\": \"*\"}}, \
                {\"provide\": {\"ext-mbstring\": \"*\"}}], \"packages-dev\": [{\"require\": {\"ext-xdebug\": \"*\"}}]}";
    let files = [
        ("index.php", ""),
        ("composer.json", "{\"require\": {\"ext-intl\": \"*\"}}"),
        ("composer.lock", lock),
    ];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.needs.extensions, ["gd", "intl"]);
    assert_eq!(facts.needs.version, None);
}
