//! More applications as they lie there once they are installed.

use super::*;

/// Names and values of what the environment gets.
fn env(facts: &InitFacts) -> Vec<(&str, &str)> {
    let set = facts.env.iter();
    set.map(|set| (set.name.as_str(), set.value.as_str()))
        .collect()
}

const BOOKSTACK: &str = "<?php
if (env('REDIS_SERVERS', false)) {
    $redisDefaults = ['host' => '127.0.0.1', 'port' => '6379', 'database' => '0', 'password' => null];
}
$mysql_host = env('DB_HOST', 'localhost');
$mysql_host_exploded = explode(':', $mysql_host);
if (count($mysql_host_exploded) > 1) {
    $mysql_host = $mysql_host_exploded[0];
}
return [
    // Options: mysql, mysql_testing
    'default' => env('DB_CONNECTION', 'mysql'),
    'connections' => [
        'mysql' => [
            'driver'   => 'mysql',
            'host'     => $mysql_host,
            'database' => env('DB_DATABASE', 'forge'),
            'password' => env('DB_PASSWORD', ''),
        ],
    ],
];
";

#[test]
fn laravel_without_a_name_of_its_connection_takes_the_one_of_its_code() {
    let files = [
        ("artisan", ""),
        ("public/index.php", ""),
        ("app/Config/database.php", BOOKSTACK),
        (
            ".env",
            "APP_URL=https://wiki.test\nDB_HOST=localhost\nDB_DATABASE=wiki\nDB_USERNAME=u\nDB_PASSWORD=secret\n",
        ),
    ];
    let (facts, text) = check(&files, AppKind::Laravel, "public/index.php");
    assert_eq!(facts.engine, Some(DbEngine::Mariadb));
    assert_eq!(facts.hosts, ["wiki.test"]);
    assert_eq!((facts.env.len(), facts.changes.len()), (0, 0));
    assert!(text.contains("\ndb = { server = \"mariadb\" }"), "{text}");
    assert!(!facts.redis && facts.notes.len() == 1, "{facts:?}");
}

const MYBB: &str = "<?php
$config['database']['type'] = 'mysqli';
$config['database']['database'] = 'board';
$config['database']['table_prefix'] = 'mybb_';
$config['database']['hostname'] = 'localhost';
$config['database']['username'] = 'u';
$config['database']['password'] = 'secret';
$config['admin_dir'] = 'admin';
$config['cache_store'] = 'db';
$config['redis']['host'] = 'localhost';
$config['database']['encoding'] = 'utf8';
";

#[test]
fn mybb_goes_the_way_that_its_settings_name() {
    let files = [
        ("index.php", ""),
        ("showthread.php", ""),
        ("inc/class_core.php", ""),
        ("inc/db_mysqli.php", "<?php $function = 'mysqli_connect';"),
        ("inc/db_pdo.php", "<?php new PDO(\"mysql:host=$h\");"),
        ("inc/db_pgsql.php", "<?php $dsn = \"pgsql:host=$h\";"),
        ("inc/config.php", MYBB),
        (
            "inc/settings.php",
            "<?php $settings['bburl'] = \"http://forum.test\";",
        ),
    ];
    let (facts, text) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(
        (facts.name.as_str(), facts.engine, facts.redis),
        ("MyBB", Some(DbEngine::Mariadb), false)
    );
    assert_eq!(facts.hosts, ["forum.test"]);
    let host =
        "['hostname'] = getenv('DB_HOST'); ini_set('mysqli.default_port', getenv('DB_PORT'));";
    assert!(text.contains(host), "{text}");
    assert_eq!(text.matches("\n[[app.file]]").count(), 4, "{text}");
    let (facts, _) = check(&files[..3], AppKind::Plain, "index.php");
    let told = "MyBB has no inc/config.php: it is not installed yet, ";
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
}

#[test]
fn craft_takes_the_labs_values_although_its_own_would_win() {
    let files = [
        ("craft", ""),
        ("web/index.php", ""),
        (
            "bootstrap.php",
            "<?php\n// Use `createUnsafeImmutable` to disable this.\n\
             Dotenv\\Dotenv::createUnsafeMutable(CRAFT_BASE_PATH)->safeLoad();\n",
        ),
        (
            ".env",
            "CRAFT_ENVIRONMENT=production\nCRAFT_DB_DRIVER=mysql\nCRAFT_DB_SERVER=127.0.0.1\nCRAFT_DB_PORT=3306\n\
             CRAFT_DB_DATABASE=craft\nCRAFT_DB_USER=root\nCRAFT_DB_PASSWORD=secret\nCRAFT_DB_SCHEMA=public\n\
             CRAFT_DB_TABLE_PREFIX=\nCRAFT_SECURITY_KEY=secret\nPRIMARY_SITE_URL=https://craft.test/\n",
        ),
    ];
    let (facts, text) = check(&files, AppKind::Plain, "web/index.php");
    assert_eq!(
        (facts.name.as_str(), facts.engine),
        ("Craft CMS", Some(DbEngine::Mariadb))
    );
    assert_eq!(facts.hosts, ["craft.test"]);
    let set = [
        ("CRAFT_DB_DATABASE", "{DB_DATABASE}"),
        ("CRAFT_DB_PASSWORD", "{DB_PASSWORD}"),
        ("CRAFT_DB_PORT", "{DB_PORT}"),
        ("CRAFT_DB_SERVER", "{DB_HOST}"),
        ("CRAFT_DB_USER", "{DB_USERNAME}"),
    ];
    assert_eq!(env(&facts), set);
    let change = "path = \"bootstrap.php\"\nfind = \"createUnsafeMutable(\"\nreplace = \"createUnsafeImmutable(\"\n";
    assert!(text.contains(change), "{text}");
    let example = [files[0], files[1], (".env.example", files[3].1)];
    let (facts, _) = check(&example, AppKind::Plain, "web/index.php");
    let told = "it has .env.example and no .env: ";
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
}

#[test]
fn symfonys_demo_keeps_its_file_of_sqlite() {
    let files = [
        ("bin/console", ""),
        ("public/index.php", ""),
        ("data/database.sqlite", "SQLite format 3\0"),
        (
            ".env",
            "APP_ENV=dev\nAPP_SECRET=\nAPP_SHARE_DIR=var/share\n\
             DATABASE_URL=\"sqlite:///%kernel.project_dir%/data/database.sqlite\"\nMAILER_DSN=null://null\n",
        ),
    ];
    let (facts, text) = check(&files, AppKind::Symfony, "public/index.php");
    assert_eq!(facts.engine, Some(DbEngine::Sqlite));
    assert_eq!((facts.env.len(), facts.changes.len()), (0, 0));
    let told = "it has data in data/database.sqlite (SQLite), ";
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
    assert!(text.contains("\n# APP_ENV = \"prod\"\n"), "{text}");
}

#[test]
fn shopware_looks_as_if_it_were_asked_over_tls_where_its_address_says_so() {
    let settings = "APP_ENV=prod\nAPP_URL=https://shop.test\nDATABASE_URL=mysql://root:secret@localhost/shopware\n\
                    LOCK_DSN=flock\nSHOPWARE_ES_ENABLED=0\n";
    let files = |settings| {
        [
            ("bin/console", ""),
            ("public/index.php", ""),
            ("vendor/shopware/core/composer.json", ""),
            (".env", settings),
        ]
    };
    let (facts, _) = check(&files(settings), AppKind::Symfony, "public/index.php");
    assert_eq!(
        (facts.name.as_str(), facts.engine),
        ("Shopware", Some(DbEngine::Mariadb))
    );
    assert_eq!(facts.hosts, ["shop.test"]);
    let database = "mysql://{DB_USERNAME}:{DB_PASSWORD}@{DB_HOST}:{DB_PORT}/{DB_DATABASE}";
    assert_eq!(env(&facts), [("DATABASE_URL", database), ("HTTPS", "on")]);
    let bare = settings.replace("https:", "http:");
    let (facts, _) = check(&files(&bare), AppKind::Symfony, "public/index.php");
    assert_eq!(env(&facts), [("DATABASE_URL", database)]);
}

#[test]
fn wordpress_gets_a_redis_only_where_its_object_cache_asks_one() {
    let named = "define('WP_REDIS_HOST', 'cache');\n$table_prefix";
    let config = WP_CONFIG.replace("$table_prefix", named);
    let mut files = vec![
        ("index.php", ""),
        ("wp-load.php", ""),
        ("wp-content/index.php", ""),
        ("wp-config.php", config.as_str()),
    ];
    let (facts, text) = check(&files, AppKind::Wordpress, "index.php");
    assert!(!facts.redis && text.contains("\n# cache = "), "{text}");
    assert!(!text.contains("getenv('REDIS_HOST')"), "{text}");
    files.push(("wp-content/object-cache.php", ""));
    let (facts, text) = check(&files, AppKind::Wordpress, "index.php");
    assert!(facts.redis && text.contains("\ncache = "), "{text}");
    let host = "define('WP_REDIS_HOST', getenv('REDIS_HOST'));";
    assert!(text.contains(host), "{text}");
}

#[test]
fn several_servers_of_redis_are_told_and_left_as_they_are() {
    let named = "define('WP_REDIS_CLUSTER', ['tcp://10.0.0.9:7000']);\n$table_prefix";
    let config = WP_CONFIG.replace("$table_prefix", named);
    let files = [
        ("index.php", ""),
        ("wp-load.php", ""),
        ("wp-config.php", config.as_str()),
    ];
    let (facts, text) = check(&files, AppKind::Wordpress, "index.php");
    assert!(facts.redis && !text.contains("WP_REDIS_CLUSTER'"), "{text}");
    let told = "wp-config.php gives Redis as a list of servers, as sentinels or as a socket (WP_REDIS_CLUSTER), ";
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
    let environment = "CACHE_DRIVER=redis\nREDIS_SENTINEL_HOST=10.0.0.9\n";
    let files = [
        ("artisan", ""),
        ("public/index.php", ""),
        (".env", environment),
    ];
    let (facts, _) = check(&files, AppKind::Laravel, "public/index.php");
    let told = "its environment gives Redis as a list of servers, as sentinels or as a socket (REDIS_SENTINEL_HOST), ";
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
    assert!(env(&facts).is_empty(), "{:?}", facts.env);
}

#[test]
fn nextcloud_gets_its_dump_the_labs_redis_and_data_of_its_own() {
    let settings = "<?php\n$CONFIG = array (\n  'passwordsalt' => 'secret',\n  'trusted_domains' => \n  array (\n    \
                    0 => 'cloud.test',\n  ),\n  'datadirectory' => '/mnt/data',\n  'dbtype' => 'mysql',\n  \
                    'version' => '29.0.1.1',\n  'overwrite.cli.url' => 'https://cloud.test',\n  'dbname' => 'cloud',\n  \
                    'dbhost' => 'localhost',\n  'dbuser' => 'u',\n  'dbpassword' => 'secret',\n  'installed' => true,\n  \
                    'memcache.locking' => '\\\\OC\\\\Memcache\\\\Redis',\n  'redis' => \n  array (\n    \
                    'host' => 'cache',\n  ),\n);\n";
    let other = "-- MariaDB dump 10.19\n-- Host: x    Database: blog\nINSERT INTO x";
    let own = other.replace("blog", "cloud");
    let files = [
        ("index.php", ""),
        ("lib/versioncheck.php", ""),
        ("version.php", ""),
        ("config/config.php", settings),
        ("backup/z.sql", own.as_str()),
        ("backup/a.sql", other),
    ];
    let (facts, text) = check(&files, AppKind::Plain, "index.php");
    assert_eq!((facts.name.as_str(), facts.redis), ("Nextcloud", true));
    assert!(facts.notes.is_empty(), "{:?}", facts.notes);
    for wanted in [
        "db = { server = \"mariadb\", seed = \"backup/z.sql\" }",
        "\ncache = { server = \"redis\" }",
        "path = \"config/zz-kneepoint.config.php\"",
        "getenv('REDIS_HOST')",
        "'datadirectory' => $kept,",
    ] {
        assert!(text.contains(wanted), "no {wanted} in:\n{text}");
    }
    assert_eq!(facts.changes.len(), 1, "{:?}", facts.changes);
    let (facts, _) = check(&files[..3], AppKind::Plain, "index.php");
    let told = "Nextcloud has no config/config.php: it is not installed yet, ";
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
}
