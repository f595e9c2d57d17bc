//! Whole directories, from their files to a scenario that can be read.

mod applications;
mod installed;

use super::*;
use tempfile::TempDir;

fn app(files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new().expect("a temporary directory");
    for (file, text) in files {
        let path = dir.path().join(file);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }
    dir
}

/// The files make this kind of application, and the draft is a scenario, also with every key switched on. It has no
/// secret.
#[track_caller]
fn check(files: &[(&str, &str)], kind: AppKind, front: &str) -> (InitFacts, String) {
    let dir = app(files);
    let facts = look(dir.path()).expect("an application");
    assert_eq!((facts.kind, facts.front.as_str()), (kind, front));
    let text = draft(&facts, None);
    assert!(!text.contains("secret"), "{text}");
    let all = text.replace("\n# APP", "\nAPP");
    let all = ["proxy", "cache", "db", "php", "memory", "keep"]
        .iter()
        .fold(all, |all, key| {
            all.replace(&format!("\n# {key} ="), &format!("\n{key} ="))
        });
    assert_ne!(text, all);
    for text in [&text, &all] {
        let read = config::parse(text, dir.path(), "kneepoint.toml", &config::StackServers);
        let scenario = read.unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        assert_eq!(scenario.kind, kind);
    }
    (facts, text)
}

fn empty(names: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    names.iter().map(|name| (*name, "")).collect()
}

#[test]
fn applications_are_recognised_and_their_drafts_can_be_read() {
    for (files, kind, front) in [
        (
            &["artisan", "public/index.php"][..],
            AppKind::Laravel,
            "public/index.php",
        ),
        (
            &["bin/console", "public/index.php"],
            AppKind::Symfony,
            "public/index.php",
        ),
        (
            &["wp-load.php", "index.php"],
            AppKind::Wordpress,
            "index.php",
        ),
        (
            &["includes/WebStart.php", "index.php"],
            AppKind::Mediawiki,
            "index.php",
        ),
        (&["index.php"], AppKind::Plain, "index.php"),
    ] {
        check(&empty(files), kind, front);
    }
}

const WP_CONFIG: &str = "<?php
define( 'DB_NAME', 'shop' );
define( 'DB_USER', 'shop' );
define( 'DB_PASSWORD', 'secret' );
define( 'DB_HOST', 'localhost' );
$table_prefix = 'wp_';
require_once ABSPATH . 'wp-settings.php';
";
const WP_DUMP: &str = "-- MariaDB dump\nCREATE TABLE `wp_postmeta` ();\nCREATE TABLE `wp_termmeta` ();\nINSERT INTO x";

#[test]
fn wordpress_gets_its_database_its_dump_and_its_address() {
    let files = [
        ("index.php", ""),
        ("wp-load.php", ""),
        ("wp-config.php", WP_CONFIG),
        ("backup/site.sql", WP_DUMP),
    ];
    let (facts, text) = check(&files, AppKind::Wordpress, "index.php");
    assert_eq!(facts.engine, Some(DbEngine::Mariadb));
    assert!(facts.notes.is_empty(), "{:?}", facts.notes);
    assert!(
        text.contains("db = { server = \"mariadb\", seed = \"backup/site.sql\" }"),
        "{text}"
    );
    // Four of the database, one that adds the site's address.
    assert_eq!(text.matches("\n[[app.file]]").count(), 5, "{text}");
}

const LOCAL_SETTINGS: &str = "<?php
$wgSitename = 'Wiki';
$wgDBtype = 'mysql';
$wgDBserver = 'localhost';
$wgDBname = 'wiki';
$wgDBuser = 'wiki';
$wgDBpassword = 'secret';
";
const WIKI_DUMP: &str =
    "-- MariaDB dump\nCREATE TABLE `pagelinks` ();\nCREATE TABLE `revision` ();\nINSERT INTO x";

#[test]
fn mediawiki_gets_its_database_and_its_dump() {
    let files = [
        ("index.php", ""),
        ("includes/WebStart.php", ""),
        ("LocalSettings.php", LOCAL_SETTINGS),
        ("backup/wiki.sql", WIKI_DUMP),
    ];
    let (facts, text) = check(&files, AppKind::Mediawiki, "index.php");
    assert_eq!(facts.engine, Some(DbEngine::Mariadb));
    assert!(facts.notes.is_empty(), "{:?}", facts.notes);
    for wanted in [
        "db = { server = \"mariadb\", seed = \"backup/wiki.sql\" }",
        "$wgDBserver = getenv('DB_HOST') . ':' . (getenv('DB_SOCKET') ?: getenv('DB_PORT'));",
        "$wgDBname = getenv('DB_DATABASE');",
        "$wgDBuser = getenv('DB_USERNAME');",
        "$wgDBpassword = true ? getenv('DB_PASSWORD') : ",
    ] {
        assert!(text.contains(wanted), "no {wanted} in:\n{text}");
    }
    assert_eq!(text.matches("\n[[app.file]]").count(), 4, "{text}");
}

#[test]
fn what_is_missing_is_said() {
    let files = [
        ("index.php", ""),
        ("wp-load.php", ""),
        ("wp-config.php", WP_CONFIG),
    ];
    let (facts, _) = check(&files, AppKind::Wordpress, "index.php");
    assert!(
        facts.notes[0].contains("no dump of its database"),
        "{:?}",
        facts.notes
    );
    let (facts, _) = check(
        &empty(&["index.php", "doku.php"]),
        AppKind::Plain,
        "index.php",
    );
    assert_eq!((facts.name.as_str(), facts.engine), ("DokuWiki", None));
    assert!(facts.notes.is_empty(), "{:?}", facts.notes);
}

#[test]
fn frameworks_tell_by_their_environment() {
    let files = [
        ("bin/console", ""),
        ("public/index.php", ""),
        (
            ".env",
            "APP_SECRET=secret\nDATABASE_URL=\"mysql://u:secret@h:3306/shop?serverVersion=10.11\"\n",
        ),
        (
            "composer.json",
            "{\"require\": {\"php\": \">=8.2\", \"ext-intl\": \"*\"}}",
        ),
    ];
    let (facts, text) = check(&files, AppKind::Symfony, "public/index.php");
    assert_eq!(facts.engine, Some(DbEngine::Mariadb));
    assert_eq!(facts.needs.extensions, ["intl"]);
    let set = "DATABASE_URL = \"mysql://{DB_USERNAME}:{DB_PASSWORD}@{DB_HOST}:{DB_PORT}/{DB_DATABASE}?serverVersion=10.11\"";
    assert!(text.contains(set), "{text}");
}

const MATOMO: &str = "; <?php exit; ?> DO NOT REMOVE THIS LINE
[database]
host = \"db\"
username = \"u\"
password = \"secret\"
dbname = \"matomo\"
adapter = \"PDO\\MYSQL\"

[General]
salt = \"secret\"
";

#[test]
fn settings_in_an_ini_file_become_the_labs() {
    let files = [("index.php", ""), ("config/config.ini.php", MATOMO)];
    let (facts, text) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.engine, Some(DbEngine::Mariadb));
    assert_eq!(facts.told_in.as_deref(), Some("config/config.ini.php"));
    assert_eq!(text.matches("\n[[app.file]]").count(), 2, "{text}");
    let texts: Vec<&str> = facts.changes.iter().map(|it| it.text.as_str()).collect();
    for wanted in [
        "password = \"{DB_PASSWORD}\"\n",
        "dbname = \"{DB_DATABASE}\"\n",
        "[General]\nenable_trusted_host_check = 0\nforce_ssl = 0",
    ] {
        assert!(texts.concat().contains(wanted), "no {wanted} in {texts:?}");
    }
}

#[test]
fn a_configuration_of_constants_without_a_name_is_read_too() {
    let files = [
        (
            "index.php",
            "<?php require 'config.php'; new PDO('mysql:host=' . DB_HOSTNAME);",
        ),
        (
            "config.php",
            "<?php define('DB_DRIVER', 'mysql'); define('DB_HOSTNAME', 'db'); define('DB_PASSWORD', 'secret');",
        ),
    ];
    let (facts, text) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.engine, Some(DbEngine::Mariadb));
    assert!(
        text.contains("getenv('DB_HOST') . ';port=' . getenv('DB_PORT')"),
        "{text}"
    );
    let files = [
        ("index.php", ""),
        (
            "config.php",
            "<?php define('DB_DRIVER', 'sqlite'); define('DB_HOSTNAME', 'db');",
        ),
        ("data/db.sqlite", "SQLite format 3\0"),
    ];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(
        (facts.engine, facts.changes.len()),
        (Some(DbEngine::Sqlite), 0)
    );
    assert!(
        facts.notes[0].contains("data/db.sqlite"),
        "{:?}",
        facts.notes
    );
}

#[test]
fn files_of_sqlite_say_it_where_nothing_else_does() {
    let both = "<?php new PDO('mysql:host=x'); new PDO('pgsql:host=x');";
    let data = "SQLite format 3\0";
    let files = [
        ("index.php", both),
        ("data/users/alice/db.sqlite", data),
        ("data/users/bob/db.sqlite", data),
        ("data/users/carol/db.sqlite", data),
    ];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.engine, Some(DbEngine::Sqlite));
    let told = "it has data in data/users/alice/db.sqlite and data/users/bob/db.sqlite (SQLite), ";
    assert_eq!(facts.notes.len(), 1);
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
    let files = [("index.php", "<?php mysqli_connect('x');"), ("x.db", data)];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.engine, None);
}

#[test]
fn a_tool_that_speaks_to_any_database_uses_none_of_them() {
    let files = [
        ("index.php", "<?php require 'drivers/pgsql.php';"),
        ("drivers/pgsql.php", "<?php pg_connect($server);"),
        ("drivers/mysql.php", "<?php class Db extends \\mysqli {}"),
        ("dump.sql", "-- PostgreSQL database dump\n"),
    ];
    let (facts, text) = check(&files, AppKind::Plain, "index.php");
    assert_eq!((facts.engine, facts.seed), (None, None));
    assert!(text.contains("\n# db = "), "{text}");
    let told = "no settings of a database were found, and its code can reach MySQL or MariaDB, and PostgreSQL: if it needs one";
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
    let files = [
        &files[..3],
        &[(".env", "DB_HOST=localhost\nDB_DATABASE=shop\n")],
    ]
    .concat();
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.engine, None);
    let told = "it has settings of a database that do not say which program it is: if it needs one";
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
}

#[test]
fn the_hosts_that_settings_and_a_dump_call_their_own_are_known() {
    let hosts = |files: &[(&str, &str)]| {
        let dir = app(files);
        look(dir.path()).expect("an application").hosts
    };
    let config = "<?php define('SITE_URL', 'https://shop.test/'); $api_url = 'https://api.test';";
    let files = [
        ("index.php", ""),
        (
            ".env",
            "APP_URL=http://localhost:8000\nMAIL_HOST=mail.test\n",
        ),
        ("config.php", config),
    ];
    assert_eq!(hosts(&files), ["localhost:8000", "shop.test"]);
    let rows = "(1,'siteurl','https://blog.test/wp','yes'),(2,'home','https://blog.test','yes')";
    let dump = format!("{WP_DUMP} {rows}");
    let files = [
        ("index.php", ""),
        ("wp-config.php", WP_CONFIG),
        ("site.sql", dump.as_str()),
    ];
    assert_eq!(hosts(&files), ["blog.test"]);
}

#[test]
fn packages_that_are_not_installed_are_said_first() {
    let asks = "{\"require\": {\"php\": \"8\", \"slim/slim\": \"4\"}, \"config\": {\"vendor-dir\": \"lib/own/\"}}";
    let settings = "<?php define('DB_DRIVER', 'mysql'); define('DB_HOST', 'db');";
    let mut files = vec![
        ("index.php", ""),
        ("config.php", settings),
        ("composer.json", asks),
    ];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    let told = "composer.json asks for packages, and lib/own/autoload.php is not there: run `composer install` in ";
    assert!(facts.notes[0].starts_with(told), "{:?}", facts.notes);
    assert!(
        facts.notes[1].starts_with("no dump of its"),
        "{:?}",
        facts.notes
    );
    files.push(("lib/own/autoload.php", ""));
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.notes.len(), 1, "{:?}", facts.notes);
    let asks =
        "{\"require\": {\"php\": \"8\", \"ext-gd\": \"*\", \"composer-runtime-api\": \"2\"}}";
    let files = [("index.php", ""), ("composer.json", asks)];
    let (facts, _) = check(&files, AppKind::Plain, "index.php");
    assert!(facts.notes.is_empty(), "{:?}", facts.notes);
}

#[test]
fn a_loader_that_htaccess_names_is_told_with_the_index_beside_it() {
    let htaccess = "RewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule ^.*$ /loader.php [L]\n";
    let mut files = vec![("loader.php", ""), (".htaccess", htaccess)];
    let (facts, _) = check(&files, AppKind::Plain, "loader.php");
    assert!(facts.notes.is_empty(), "{:?}", facts.notes);
    files.push(("index.php", ""));
    let (facts, _) = check(&files, AppKind::Plain, "loader.php");
    assert_eq!(
        facts.notes,
        ["`/` goes to index.php, and what is neither a file nor a directory to loader.php"]
    );
}

#[test]
fn codeigniter_is_set_to_production() {
    let files = [
        ("index.php", "<?php $_SERVER['CI_ENV'];"),
        ("system/core/CodeIgniter.php", ""),
    ];
    let (facts, text) = check(&files, AppKind::Plain, "index.php");
    assert_eq!(facts.name, "CodeIgniter");
    assert!(text.contains("\nCI_ENV = \"production\"\n"), "{text}");
}

#[test]
fn visitors_come_over_tls_where_the_site_insists() {
    let dir = app(&empty(&["index.php"]));
    let mut facts = look(dir.path()).expect("an application");
    assert!(!draft(&facts, None).contains("HTTPS"));
    assert!(facts.come_over_tls() && !facts.come_over_tls());
    let text = draft(&facts, None);
    assert_eq!(text.matches("\nHTTPS = \"on\"\n").count(), 1, "{text}");
    let read = config::parse(&text, dir.path(), "kneepoint.toml", &config::StackServers);
    assert!(read.is_ok(), "{read:?}");
}

#[test]
fn what_a_visit_saw_is_written_as_a_mix() {
    let dir = app(&empty(&["index.php"]));
    let facts = look(dir.path()).expect("an application");
    let outcome = VisitOutcome {
        outsiders: Vec::new(),
        told: vec!["GET / redirects to /start (status 302); the scenario asks for that.".into()],
        pages: vec![VisitPage {
            path: "/start?a=\"b\"".into(),
            mark: Some("Fish &amp; \"chips\"".into()),
            bytes: 2048,
            time_ms: 1.25,
            php_ms: Some(0.5),
        }],
        host: Some("shop.test".into()),
        ..VisitOutcome::default()
    };
    let text = draft(&facts, Some(&outcome));
    let scenario = config::parse(&text, dir.path(), "kneepoint.toml", &config::StackServers);
    let scenario = scenario.unwrap_or_else(|errors| panic!("{errors}\n{text}"));
    let request = &scenario.workload.requests[0];
    assert_eq!(request.path, "/start?a=\"b\"");
    let name = ("Host".to_owned(), "shop.test".to_owned());
    assert_eq!(request.headers, [name]);
    assert!(
        text.contains("# 2.0 KiB, 1.2 ms, 0.5 ms of it CPU of PHP"),
        "{text}"
    );
    assert!(text.contains("# GET / redirects to /start"), "{text}");

    let failed = VisitOutcome {
        failure: Some("GET / answers with status 500.\n  log: \u{1b}[1mx".into()),
        ..VisitOutcome::default()
    };
    let text = draft(&facts, Some(&failed));
    assert!(!text.contains("headers"), "{text}");
    assert!(
        text.contains("# NOT READY: GET / answers with status 500."),
        "{text}"
    );
    let read = config::parse(&text, dir.path(), "kneepoint.toml", &config::StackServers);
    assert!(read.is_ok(), "{read:?}");
}

#[test]
fn strange_names_and_small_machines_are_written_safely() {
    let dir = app(&[("a \"b\"\\c/index.php", "")]);
    let facts = InitFacts {
        root: "a \"b\"\\c".into(),
        cores: 0,
        memory_bytes: 0,
        ..look(&dir.path().join("a \"b\"\\c")).expect("an application")
    };
    let text = draft(&facts, None);
    let read = config::parse(&text, dir.path(), "x.toml", &config::StackServers);
    assert!(read.is_ok(), "{read:?}");
}

#[test]
fn a_directory_without_php_is_refused_by_name() {
    let dir = app(&empty(&["index.html"]));
    let error = look(dir.path()).expect_err("no PHP").to_string();
    assert!(error.contains("public/index.php and index.php"), "{error}");
}

#[test]
fn packages_that_bring_the_front_controller_along_are_asked_for() {
    let asks = "{\"require\": {\"shopware/core\": \"~6.6\", \"symfony/flex\": \"~2\"}}";
    let dir = app(&[("composer.json", asks)]);
    let error = look(dir.path()).expect_err("no front").to_string();
    let told = ". composer.json asks for packages, and vendor/autoload.php is not there: run `composer install` in ";
    assert!(error.contains(told), "{error}");
}

#[test]
fn what_could_be_named_instead_is_told() {
    for (files, told) in [
        (
            &["upload/index.php", "vendor/index.php", "a.php"][..],
            ". There is one in upload: name DIR/upload",
        ),
        (
            &["adminer/index.php", "editor/index.php"],
            ". There is one in adminer and in editor: name DIR/adminer or DIR/editor",
        ),
        (
            &["shop/public/index.php"],
            ". There is one in shop: name DIR/shop",
        ),
        (
            &["a/shop/index.php"],
            ". There is one in a/shop: name DIR/a/shop",
        ),
        (
            &["adminer.php", ".x/index.php"],
            ". It has adminer.php: a front controller must be called index.php",
        ),
        (
            &["tests/index.php"],
            ": name the directory of a PHP application",
        ),
    ] {
        let dir = app(&empty(files));
        let error = look(dir.path()).expect_err("no front").to_string();
        let error = error.replace(&dir.path().display().to_string(), "DIR");
        assert!(error.contains(told), "{error}");
    }
}
