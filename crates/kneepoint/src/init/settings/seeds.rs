//! Dumps of a database that lie about: which of them is the application's.

use super::database::DbEngine;
use super::hosts::own_host;
use kneepoint_model::AppKind;
use memchr::memmem;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How much of a dump is looked into, in bytes: the tables of an application of middling size stand within.
const LOOKED_INTO: u64 = 32 << 20;
/// How much is read behind the name of an option, in bytes: an address is shorter.
const LONGEST_OPTION: usize = 300;
/// Directories where people put dumps, relative to the root.
const DIRS: &[&str] = &[
    "",
    "..",
    "db",
    "database",
    "databases",
    "sql",
    "SQL",
    "dump",
    "dumps",
    "backup",
    "backups",
    "seed",
    "seeds",
    "data",
    "deploy",
    "docker",
    "../db",
    "../sql",
    "../dump",
    "../dumps",
    "../backup",
    "../backups",
];

/// A dump that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seed {
    /// Its path, relative to the root.
    pub path: String,
    /// Whose it is.
    pub engine: DbEngine,
    /// Why this one, in words.
    pub why: String,
    /// The hosts by which the site was called that it is from, where they are known.
    pub hosts: Vec<String>,
}

/// What the dump has to fit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'w> {
    pub(super) kind: AppKind,
    /// `None` takes either.
    pub(super) engine: Option<DbEngine>,
    /// The name of the database, where it is known.
    pub(super) database: Option<&'w str>,
}

/// What a dump looks like.
#[derive(Debug)]
struct Dump {
    path: PathBuf,
    engine: DbEngine,
    has_tables: bool,
    names_database: bool,
    has_rows: bool,
    changed: SystemTime,
    hosts: Vec<String>,
}

impl Dump {
    /// What speaks for it, the weightiest first: it has the application's tables, it names its database, it has rows, it
    /// lies within the application, it is the newest.
    fn weight(&self) -> (bool, bool, bool, bool, SystemTime) {
        (
            self.has_tables,
            self.names_database,
            self.has_rows,
            self.is_within(),
            self.changed,
        )
    }

    fn is_within(&self) -> bool {
        !self.path.starts_with("..")
    }
}

/// The dump that fits best, and which others the application has.
pub(super) fn best(root: &Path, wanted: Wanted<'_>) -> Option<Seed> {
    let mut dumps: Vec<Dump> = DIRS
        .iter()
        .flat_map(|dir| dumps_in(root, Path::new(dir), wanted))
        .collect();
    dumps.sort_by_key(|dump| std::cmp::Reverse(dump.weight()));
    let (best, others) = dumps.split_first()?;
    // Those beside the application may be of others: nobody meant them.
    let others: Vec<&Dump> = others.iter().filter(|dump| dump.is_within()).collect();
    // A dump beside the application may be of another one.
    let strange = !best.is_within() && !best.has_tables && !best.names_database;
    (!strange).then(|| Seed {
        why: why(best, &others),
        path: best.path.display().to_string(),
        engine: best.engine,
        hosts: best.hosts.clone(),
    })
}

fn why(dump: &Dump, others: &[&Dump]) -> String {
    let mut reasons = Vec::new();
    if dump.has_tables {
        reasons.push("it has this application's tables");
    }
    if dump.names_database {
        reasons.push("it names this application's database");
    }
    if !dump.has_rows {
        reasons.push("it has tables and no rows");
    }
    // A dump of the one is written like one of the other.
    let maker = match dump.engine {
        DbEngine::Mariadb => "MySQL or MariaDB",
        engine => engine.title(),
    };
    let mut why = format!("a dump of {maker}");
    if !reasons.is_empty() {
        why.push_str(&format!(": {}", reasons.join(", ")));
    }
    match others {
        [] => {}
        [one] => why.push_str(&format!("; {} fits less", one.path.display())),
        [one, other] => why.push_str(&format!(
            "; {} and {} fit less",
            one.path.display(),
            other.path.display()
        )),
        many => why.push_str(&format!("; {} others fit less", many.len())),
    }
    why
}

fn dumps_in(root: &Path, dir: &Path, wanted: Wanted<'_>) -> Vec<Dump> {
    let entries = std::fs::read_dir(root.join(dir)).into_iter().flatten();
    let found = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().to_ascii_lowercase();
        let is_dump = [".sql", ".sql.gz", ".dump", ".dump.gz"];
        if !is_dump.iter().any(|end| name.ends_with(end)) || !entry.path().is_file() {
            return None;
        }
        let changed = entry.metadata().and_then(|file| file.modified());
        let dump = look(&entry.path(), wanted)?;
        Some(Dump {
            path: dir.join(entry.file_name()),
            changed: changed.unwrap_or(SystemTime::UNIX_EPOCH),
            ..dump
        })
    });
    found.collect()
}

/// Looks into a dump; `None` when it is another server's, or none at all.
fn look(path: &Path, wanted: Wanted<'_>) -> Option<Dump> {
    let file = std::fs::File::open(path).ok()?;
    let is_gzip = path.extension().is_some_and(|end| end == "gz");
    let mut text = Vec::new();
    // What can be read of a damaged file is looked at; the server says the rest.
    let _ = match is_gzip {
        true => flate2::read::MultiGzDecoder::new(file)
            .take(LOOKED_INTO)
            .read_to_end(&mut text),
        false => file.take(LOOKED_INTO).read_to_end(&mut text),
    };
    let engine = engine_of(&text)?;
    if wanted.engine.is_some_and(|wanted| wanted != engine) {
        return None;
    }
    let has = |word: &str| memmem::find(&text, word.as_bytes()).is_some();
    let names =
        |database: &str| has(&format!("Database: {database}\n")) || has(&format!("`{database}`"));
    Some(Dump {
        path: PathBuf::new(),
        engine,
        has_tables: tables_of(wanted.kind)
            .is_some_and(|tables| tables.iter().all(|table| has(table))),
        names_database: wanted.database.is_some_and(names),
        has_rows: has("INSERT INTO") || has("\nCOPY "),
        changed: SystemTime::UNIX_EPOCH,
        hosts: match wanted.kind {
            AppKind::Wordpress => hosts_of_options(&text),
            _ => Vec::new(),
        },
    })
}

/// The site's hosts in the options of WordPress: `(1,'siteurl','https://shop.example.org','yes')`. Its pages are at `home`,
/// which may be another one.
fn hosts_of_options(text: &[u8]) -> Vec<String> {
    let host_of = |name: &&str| {
        memmem::find_iter(text, name.as_bytes()).find_map(|at| {
            let behind = &text[at + name.len()..];
            let behind = String::from_utf8_lossy(&behind[..behind.len().min(LONGEST_OPTION)]);
            let value = behind.trim_start_matches([',', ' ']).strip_prefix('\'')?;
            own_host("siteurl", value.split('\'').next()?)
        })
    };
    let options = ["'siteurl'", "'home'"];
    let mut hosts: Vec<String> = options.iter().filter_map(host_of).collect();
    hosts.dedup();
    hosts
}

/// Ends of names of tables that an application of this kind always has.
fn tables_of(kind: AppKind) -> Option<&'static [&'static str]> {
    match kind {
        AppKind::Wordpress => Some(&["postmeta", "termmeta"]),
        AppKind::Mediawiki => Some(&["revision", "pagelinks"]),
        AppKind::Laravel => Some(&["migrations"]),
        AppKind::Symfony | AppKind::Plain => None,
    }
}

/// Whose dump it is, from the words that only its maker writes.
fn engine_of(text: &[u8]) -> Option<DbEngine> {
    let head = &text[..text.len().min(1 << 20)];
    let has = |word: &[u8]| memmem::find(head, word).is_some();
    let any = |words: &[&[u8]]| words.iter().any(|word| has(word));
    if any(&[
        b"PostgreSQL database dump",
        b"pg_catalog",
        b"GENERATED ALWAYS AS IDENTITY",
        b"bigserial",
        b" serial ",
    ]) {
        return Some(DbEngine::Postgresql);
    }
    if any(&[
        b"MariaDB dump",
        b"MySQL dump",
        b"ENGINE=",
        b"AUTO_INCREMENT",
        b"phpMyAdmin SQL Dump",
        b"CREATE TABLE `",
    ]) {
        return Some(DbEngine::Mariadb);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const MARIADB: &str = "-- MariaDB dump 10.19\n-- Host: x    Database: shop\n";

    fn dump(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        let bytes = match name.ends_with(".gz") {
            false => text.as_bytes().to_vec(),
            true => {
                let mut gzip =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                gzip.write_all(text.as_bytes()).expect("written");
                gzip.finish().expect("finished")
            }
        };
        std::fs::write(path, bytes).expect("a file");
    }

    #[track_caller]
    fn check(dumps: &[(&str, &str)], wanted: Wanted<'_>, expected: Option<&str>) {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("site");
        std::fs::create_dir(&root).expect("a directory");
        for (name, text) in dumps {
            dump(&root, name, text);
        }
        let found = best(&root, wanted).map(|seed| seed.path);
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn the_dump_with_the_applications_tables_is_taken() {
        let wanted = Wanted {
            kind: AppKind::Wordpress,
            engine: Some(DbEngine::Mariadb),
            database: Some("shop"),
        };
        let own = format!(
            "{MARIADB}CREATE TABLE `wp_postmeta`; CREATE TABLE `wp_termmeta`; INSERT INTO x"
        );
        let pg = "-- PostgreSQL database dump\n wp_postmeta wp_termmeta";
        check(
            &[
                ("a.sql", MARIADB),
                ("../backup/b.sql.gz", &own),
                ("c.dump", pg),
            ],
            wanted,
            Some("../backup/b.sql.gz"),
        );
        check(&[("a.sql", MARIADB), ("c.sql", pg)], wanted, Some("a.sql"));
        check(&[("c.sql", pg), ("d.sql", "select 1")], wanted, None);
    }

    #[test]
    fn others_are_told_where_they_lie_within_the_application() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("site");
        let wanted = Wanted {
            kind: AppKind::Plain,
            engine: None,
            database: None,
        };
        let why = || best(&root, wanted).expect("a dump").why;
        dump(&root, "a.sql", &format!("{MARIADB}INSERT INTO x"));
        dump(&root, "../other.sql", MARIADB);
        assert_eq!(why(), "a dump of MySQL or MariaDB");
        dump(&root, "old.sql", MARIADB);
        assert_eq!(why(), "a dump of MySQL or MariaDB; old.sql fits less");
        dump(&root, "db/new.sql", &format!("{MARIADB}INSERT INTO y"));
        let both = [
            "; a.sql and old.sql fit less",
            "; db/new.sql and old.sql fit less",
        ];
        assert!(both.iter().any(|end| why().ends_with(end)), "{}", why());
        dump(&root, "sql/b.sql", MARIADB);
        assert!(why().ends_with("; 3 others fit less"), "{}", why());
    }

    #[test]
    fn the_site_is_where_its_files_are_and_at_its_home() {
        let hosts = |text: &str| hosts_of_options(text.as_bytes()).join(" ");
        let files = "(1,'siteurl','https://files.test','yes')";
        assert_eq!(hosts(files), "files.test");
        let both = format!("('home',1),{files},(2,'home','https://shop.test/','yes')");
        assert_eq!(hosts(&both), "files.test shop.test");
        assert_eq!(hosts("(2,'home','/shop','yes')"), "");
    }

    #[test]
    fn a_dump_beside_the_application_needs_a_reason() {
        let wanted = Wanted {
            kind: AppKind::Plain,
            engine: None,
            database: Some("shop"),
        };
        check(&[("../a.sql", MARIADB)], wanted, Some("../a.sql"));
        let other = MARIADB.replace("shop", "blog");
        check(&[("../a.sql", &other)], wanted, None);
        check(&[("db/a.sql", &other)], wanted, Some("db/a.sql"));
        check(&[("x.sql", "\u{0}\u{1}")], wanted, None);
    }
}
