//! What the code of an application says it reads: names of environment variables, and the ways it reaches a database.

use super::database::SettingsFile;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files looked into at most: an application's own code is smaller, and what is installed is passed over.
const MOST_FILES: usize = 4_000;
/// Largest file looked into, in bytes: code is smaller, data is not code.
const LARGEST_BYTES: u64 = 300_000;
/// How deep directories are followed.
const DEEPEST: u32 = 8;
/// Directories of others' code, of data and of tests.
const PASSED_OVER: &[&str] = &[
    "vendor",
    "vendors",
    "3rdparty",
    "node_modules",
    "tests",
    "test",
    "cache",
    "var",
    "storage",
    "docs",
    "locale",
    "languages",
    "i18n",
    "uploads",
    "assets",
    "plugins",
    "themes",
    "extensions",
    "skins",
];
/// How code reads an environment variable, up to its name.
const READERS: &[&str] = &["getenv(", "getenv_docker(", "env(", "_ENV[", "_SERVER["];
/// How the drivers of tools that speak to any database reach MariaDB or MySQL: as classes of their own.
const EXTENDED: [&str; 4] = [
    "extends mysqli",
    "extends \\mysqli",
    "extends MySQLi",
    "extends \\MySQLi",
];
/// How code that reads a `.env` lets it win over the environment, and how it would let the environment win.
const OVERRIDING: [(&str, &str); 3] = [
    ("createUnsafeMutable(", "createUnsafeImmutable("),
    ("createMutable(", "createImmutable("),
    ("->overload(", "->load("),
];

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reads {
    /// Names of environment variables.
    pub(super) env: BTreeSet<String>,
    /// Through PDO, with the port within the data source name.
    pub(super) pdo: bool,
    /// Through mysqli.
    pub(super) mysqli: bool,
    /// MariaDB or MySQL, through either.
    pub(super) mysql: bool,
    /// PostgreSQL.
    pub(super) postgresql: bool,
    /// Files that let a `.env` win over the environment, with how they do and what does not.
    pub(super) overriding: Vec<(PathBuf, (&'static str, &'static str))>,
}

/// Looks into the PHP files below a directory, as many as an application has, and into its files of settings: where there is
/// much code, they lie behind the last of as many.
pub(super) fn look(root: &Path, files: &[SettingsFile]) -> Reads {
    let mut reads = Reads::default();
    for file in files {
        note(&file.text, &mut reads);
    }
    let mut left = MOST_FILES;
    walk(root, 0, &mut left, &mut reads);
    reads
}

fn walk(dir: &Path, depth: u32, left: &mut usize, reads: &mut Reads) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        // What a link leads to may be anywhere, and may lead back.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() {
            let passed = name.starts_with('.') || PASSED_OVER.contains(&name.as_str());
            if depth < DEEPEST && !passed {
                walk(&entry.path(), depth + 1, left, reads);
            }
        } else if kind.is_file() && (name.ends_with(".php") || name.ends_with(".inc")) {
            if *left == 0 {
                return;
            }
            *left -= 1;
            if entry
                .metadata()
                .is_ok_and(|file| file.len() <= LARGEST_BYTES)
            {
                let bytes = std::fs::read(entry.path()).unwrap_or_default();
                let text = String::from_utf8_lossy(&bytes);
                note(&text, reads);
                // A file that is no UTF-8 cannot be changed.
                let found = overriding(&text).filter(|_| matches!(text, Cow::Borrowed(_)));
                reads
                    .overriding
                    .extend(found.map(|pair| (entry.path(), pair)));
            }
        }
    }
}

/// How a text lets a `.env` win over the environment, and what does not.
fn overriding(text: &str) -> Option<(&'static str, &'static str)> {
    let mut pairs = OVERRIDING.iter().filter(|_| text.contains("Dotenv"));
    // The library itself has both ways: a second function of one name would be an error.
    let is_used = |find: &str| text.contains(find) && !text.contains(&format!("function {find}"));
    pairs.find(|(find, _)| is_used(find)).copied()
}

fn note(text: &str, reads: &mut Reads) {
    for reader in READERS {
        for (at, _) in text.match_indices(reader) {
            let rest = text[at + reader.len()..].trim_start();
            let Some(rest) = rest.strip_prefix(['\'', '"']) else {
                continue;
            };
            let end = rest.find(['\'', '"']).unwrap_or(0);
            let name = &rest[..end];
            let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            if !name.is_empty() && name.chars().all(plain) {
                reads.env.insert(name.to_owned());
            }
        }
    }
    let has = |word: &str| text.contains(word);
    let mysqli = has("mysqli_connect(")
        || has("mysqli_real_connect(")
        || has("new mysqli(")
        || has("new \\mysqli(");
    let extends = EXTENDED.iter().any(|class| has(class));
    let pdo_mysql = has("mysql:host=") || has("mysql:dbname=") || has("mysql:charset=");
    reads.mysqli |= mysqli;
    reads.pdo |= pdo_mysql || has("pgsql:host=") || has("new PDO(") || has("new \\PDO(");
    reads.mysql |= mysqli || extends || pdo_mysql;
    reads.postgresql |= has("pgsql:host=") || has("pgsql:dbname=") || has("pg_connect(");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ways_are_found_in_code_and_not_in_what_is_installed() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        };
        write(
            "src/Db.php",
            "<?php new PDO('mysql:host=' . getenv( 'MYSQL_HOST'), $_ENV[\"MYSQL_USER\"], env('MYSQL_PASSWORD', ''));",
        );
        write("vendor/x/y.php", "<?php getenv('OTHER'); pg_connect('');");
        write("3rdparty/x.php", "<?php getenv('PGHOST');");
        write("notes.txt", "getenv('NOTES')");
        let reads = look(dir.path(), &[]);
        let names: Vec<&str> = reads.env.iter().map(String::as_str).collect();
        assert_eq!(names, ["MYSQL_HOST", "MYSQL_PASSWORD", "MYSQL_USER"]);
        assert!(reads.pdo && reads.mysql && !reads.mysqli && !reads.postgresql);
    }

    #[test]
    fn what_the_files_of_settings_read_is_known_wherever_they_lie() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let file = SettingsFile {
            path: "storage/settings.php".into(),
            text: "<?php $CFG->dbhost = getenv('MOODLE_DB_HOST') ?: 'db';".into(),
        };
        let reads = look(dir.path(), &[file]);
        assert!(reads.env.contains("MOODLE_DB_HOST"), "{reads:?}");
    }

    #[test]
    fn a_file_that_lets_its_own_environment_win_is_known() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(dir.path().join("lib")).expect("a directory");
        let write = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).expect("a file");
        };
        write(
            "bootstrap.php",
            "<?php\n// Use `createUnsafeImmutable` to disable this.\n\
             Dotenv\\Dotenv::createUnsafeMutable(CRAFT_BASE_PATH)->safeLoad();\n",
        );
        write(
            "index.php",
            "<?php Dotenv\\Dotenv::createImmutable(__DIR__)->load();",
        );
        write("twig.php", "<?php $twig->overload('x');");
        write(
            "lib/Dotenv.php",
            "<?php class Dotenv { static function createMutable($p) {} static function createImmutable($p) {} }",
        );
        std::fs::write(
            dir.path().join("latin.php"),
            b"<?php // \xe9\nDotenv\\Dotenv::createMutable(__DIR__)->load();",
        )
        .expect("a file");
        let found = look(dir.path(), &[]).overriding;
        let pair = ("createUnsafeMutable(", "createUnsafeImmutable(");
        assert_eq!(found, [(dir.path().join("bootstrap.php"), pair)]);
    }

    #[test]
    fn a_driver_that_is_a_class_of_its_own_is_one() {
        for text in [
            "class Db extends \\mysqli {",
            "class Min_DB extends MySQLi {",
            "$this->dsn(\"mysql:charset=utf8;host=\" . $server);",
        ] {
            let mut reads = Reads::default();
            note(text, &mut reads);
            assert!(reads.mysql && !reads.mysqli && !reads.postgresql, "{text}");
        }
    }
}
