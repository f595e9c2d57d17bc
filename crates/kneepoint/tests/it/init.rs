//! `init` on an application that it has never seen, and what it wrote as it is.

use crate::support::company::{among_others, briefly_among_others};
use crate::support::{kneepoint, start, text, wait};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

/// A small shop as people have them: constants in a file, a first page that redirects, pages with titles, and a link that
/// nobody may follow unasked. Its database is elsewhere.
fn shop(directory: &Path, dump: bool) -> PathBuf {
    let root = directory.join("shop");
    let write = |name: &str, content: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, content).expect("a file");
    };
    write(
        "index.php",
        "<?php header('Location: /list.php', true, 302);",
    );
    write(
        "config.php",
        "<?php\n// The database.\ndefine( 'DB_HOST', 'db.example.com' );\ndefine( 'DB_NAME', 'shop' );\n\
         define( 'DB_USER', 'shop' );\ndefine( 'DB_PASSWORD', 'top-secret' );\n",
    );
    write(
        "db.php",
        "<?php require __DIR__ . '/config.php';\nmysqli_report(MYSQLI_REPORT_OFF);\n\
         $db = @mysqli_connect(DB_HOST, DB_USER, DB_PASSWORD, DB_NAME);\n\
         if (!$db || !$db->query('SELECT 1 FROM article LIMIT 1')) { exit('<h1>Error establishing a database connection</h1>'); }\n",
    );
    write(
        "list.php",
        "<?php require 'db.php'; $n = $db->query('SELECT count(*) FROM article')->fetch_row()[0];\n\
         echo \"<html><head><title>Fish &amp; chips</title></head><body><h1>$n articles</h1>\n\
         <a href='article.php?id=1'>one</a> <a href='/about.php'>about</a> <a href='/logout.php'>out</a></body></html>\";",
    );
    write(
        "article.php",
        "<?php require 'db.php'; $id = (int) ($_GET['id'] ?? 0);\n\
         $name = $db->query(\"SELECT name FROM article WHERE id = $id\")->fetch_row()[0];\n\
         echo \"<html><head><title>Article: $name</title></head><body><p>$name is fresh.</p></body></html>\";",
    );
    write(
        "about.php",
        "<html><head><title>About us</title></head><body><p>We fry.</p></body></html>",
    );
    write(
        "logout.php",
        "<html><head><title>Good bye</title></head><body><p>Bye.</p></body></html>",
    );
    if dump {
        write(
            "backup/shop.sql",
            "-- MariaDB dump 10.19\n-- Host: db    Database: shop\n\
             CREATE TABLE `article` (`id` int NOT NULL, `name` varchar(100), PRIMARY KEY (`id`)) ENGINE=InnoDB;\n\
             INSERT INTO `article` VALUES (1,'cod'),(2,'chips');\n",
        );
    }
    open_to_all(directory);
    root
}

/// PHP may run as somebody else.
fn open_to_all(directory: &Path) {
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory, open).expect("opened");
}

fn run(arguments: &[&str], directory: &Path) -> Output {
    wait(
        start(kneepoint().args(arguments).current_dir(directory)),
        Duration::from_secs(180),
    )
}

/// The files below a directory with what they hold.
fn content(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
            match entry.path().is_dir() {
                true => dirs.push(entry.path()),
                false => found.push((entry.path(), std::fs::read(entry.path()).expect("a file"))),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn init_on_an_unknown_application_writes_what_limit_runs_without_a_correction() {
    let _place = among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let root = shop(directory.path(), true);
    let before = content(&root);
    let output = run(&["init", "shop", "--loopback"], directory.path());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("GET / redirects to /list.php"), "{said}");
    assert!(said.contains("seed: backup/shop.sql"), "{said}");
    let path = root.join("kneepoint.toml");
    let scenario = std::fs::read_to_string(&path).expect("the scenario");
    for wanted in [
        "path = \"/list.php\"",
        "body_contains = \"Fish &amp; chips\"",
        "path = \"/article.php?id=1\"",
        "body_contains = \"Article: cod\"",
        "body_contains = \"About us\"",
        "seed = \"backup/shop.sql\"",
    ] {
        assert!(scenario.contains(wanted), "no {wanted} in:\n{scenario}");
    }
    for unwanted in ["top-secret", "logout"] {
        assert!(
            !scenario.contains(unwanted) && !said.contains(unwanted),
            "{scenario}\n{said}"
        );
    }
    let output = run(
        &[
            "limit",
            "shop/kneepoint.toml",
            "--loopback",
            "--budget",
            "20s",
            "--no-report",
            "--json",
            "-",
        ],
        directory.path(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let run: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rate = &run["run"]["limits"][0]["rate_hz"]["estimate"];
    assert!(rate.as_f64().is_some_and(|rate| rate > 0.0), "{run}");
    std::fs::remove_file(path).expect("removed");
    assert_eq!(
        content(&root),
        before,
        "the application's own files changed"
    );
}

#[test]
fn init_says_what_is_missing_in_the_applications_own_words() {
    let _place = briefly_among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let root = shop(directory.path(), false);
    let output = run(&["init", "shop", "--loopback"], directory.path());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("Error establishing a database connection"),
        "{said}"
    );
    assert!(said.contains("no dump of its database was found"), "{said}");
    let scenario = std::fs::read_to_string(root.join("kneepoint.toml")).expect("a draft");
    assert!(scenario.contains("NOT READY"), "{scenario}");
}

#[test]
fn init_asks_a_site_that_answers_to_its_own_name_alone_by_that_name() {
    let _place = briefly_among_others();
    let directory = tempfile::tempdir().expect("temp dir");
    let root = directory.path().join("site");
    std::fs::create_dir(&root).expect("a directory");
    let write = |name: &str, content: &str| {
        std::fs::write(root.join(name), content).expect("a file");
    };
    write(".env", "APP_URL=http://shop.test\n");
    write(
        "index.php",
        "<?php if ($_SERVER['HTTP_HOST'] !== 'shop.test') { http_response_code(404); exit('<h1>No channel</h1>'); }\n\
         echo '<html><head><title>Fish of the day</title></head><body><p>Cod.</p></body></html>';",
    );
    open_to_all(directory.path());
    let output = run(&["init", "site", "--loopback"], directory.path());
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("asked for as shop.test"), "{said}");
    let scenario = std::fs::read_to_string(root.join("kneepoint.toml")).expect("the scenario");
    for wanted in [
        "headers = { Host = \"shop.test\" }",
        "body_contains = \"Fish of the day\"",
    ] {
        assert!(scenario.contains(wanted), "no {wanted} in:\n{scenario}");
    }
    assert!(!scenario.contains("NOT READY"), "{scenario}");
}
