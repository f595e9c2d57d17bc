//! Which database an application uses, and where it says so.

use super::roles::{Role, of_database};
use kneepoint_stack::application::code::{Assignment, assignments};
use kneepoint_stack::application::lists::lists;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Entries of directories looked at for files of SQLite, all together.
const MOST_ENTRIES: usize = 500;
/// Largest configuration file looked into, in bytes.
const LARGEST_BYTES: u64 = 1 << 20;

/// A program, or files, that hold the application's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DbEngine {
    /// MariaDB or MySQL.
    Mariadb,
    /// PostgreSQL.
    Postgresql,
    /// SQLite: files of the application, no server.
    Sqlite,
}

impl DbEngine {
    /// What configurations call it: `mysqli`, `pdo_pgsql`, the scheme of an address.
    pub(super) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(&["mysql", "mariadb"]) {
            Some(Self::Mariadb)
        } else if has(&["pgsql", "postgres"]) {
            Some(Self::Postgresql)
        } else {
            has(&["sqlite"]).then_some(Self::Sqlite)
        }
    }

    /// The same of the scheme that a text begins with: `mysql:host=x`, `pgsql://x`.
    pub(super) fn of_scheme(text: &str) -> Option<Self> {
        Self::named(text.split(':').next()?)
    }

    /// The name of the server in a scenario; SQLite has none.
    #[must_use]
    pub fn server(self) -> Option<&'static str> {
        match self {
            Self::Mariadb => Some("mariadb"),
            Self::Postgresql => Some("postgresql"),
            Self::Sqlite => None,
        }
    }

    /// What people call it.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Mariadb => "MariaDB",
            Self::Postgresql => "PostgreSQL",
            Self::Sqlite => "SQLite",
        }
    }

    /// The scheme of its address.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Mariadb => "mysql",
            Self::Postgresql => "postgresql",
            Self::Sqlite => "sqlite",
        }
    }
}

/// A file of settings in PHP or INI, with its text.
#[derive(Debug, Clone)]
pub(super) struct SettingsFile {
    /// Relative to the application's root.
    pub(super) path: String,
    pub(super) text: String,
}

/// Where applications of many kinds keep their settings in PHP.
const USUAL: &[&str] = &[
    "wp-config.php",
    "LocalSettings.php",
    "config.php",
    "config.inc.php",
    "configuration.php",
    "settings.php",
    "db.php",
    "database.php",
    "config/config.php",
    "config/config.inc.php",
    "config/settings.php",
    "config/settings.inc.php",
    "config/db.php",
    "config/database.php",
    "config/db.inc.php",
    "inc/config.php",
    "inc/settings.php",
    "include/config.php",
    "includes/config.php",
    "includes/configure.php",
    "app/config.php",
    "app/Config/database.php",
    "app/config/database.php",
    "app/config/config.php",
    "app/config/parameters.php",
    "app/etc/env.php",
    "application/config/config.php",
    "common/config/main-local.php",
    "config/app.php",
    "config/app_local.php",
    "config/autoload/local.php",
    "config/system/settings.php",
    "config/web.php",
    "typo3conf/LocalConfiguration.php",
    "protected/config/main.php",
    "local/config/database.inc.php",
    "user/config.php",
    // The back office of some has a copy of its own.
    "admin/config.php",
    "application/config/database.php",
    "src/config.php",
    "data/config.php",
    "conf/config.php",
    "sites/default/settings.php",
    "sites/default/settings.local.php",
];

/// The settings files of an application. `public` is the directory of the front controller, relative to the root.
pub(super) fn settings_files(root: &Path, public: &Path) -> Vec<SettingsFile> {
    files_named(USUAL, root, public)
}

/// Those of some files that are there, below the root and below the directory of the front controller.
pub(super) fn files_named(names: &[&str], root: &Path, public: &Path) -> Vec<SettingsFile> {
    let below = |dir: &Path| names.iter().map(|name| dir.join(name)).collect::<Vec<_>>();
    let mut paths = below(Path::new(""));
    if public != Path::new("") {
        paths.extend(below(public));
    }
    let found = paths.into_iter().filter_map(|path| {
        Some(SettingsFile {
            text: read(&root.join(&path))?,
            path: path.display().to_string(),
        })
    });
    found.collect()
}

/// A text file of bearable size.
pub(in crate::init) fn read(path: &Path) -> Option<String> {
    let file = std::fs::metadata(path).ok()?;
    let small = file.is_file() && file.len() <= LARGEST_BYTES;
    small.then(|| std::fs::read_to_string(path).ok()).flatten()
}

/// A setting of the database, as one of the files has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct DbSetting<'t> {
    pub(super) file: &'t str,
    pub(super) role: Role,
    pub(super) code: Assignment<'t>,
}

impl DbSetting<'_> {
    /// Whether the value comes from the environment already.
    pub(super) fn reads_environment(&self) -> bool {
        let reads = ["getenv", "env(", "_ENV", "_SERVER"];
        reads.iter().any(|word| self.code.value.contains(word))
    }
}

/// The settings of the database in all files.
pub(super) fn settings(files: &[SettingsFile]) -> Vec<DbSetting<'_>> {
    let of_file = |file| {
        let SettingsFile { path, text }: &SettingsFile = file;
        assignments(text).into_iter().filter_map(move |code| {
            let role = of_database(code.target)?;
            let is_address = || code.text().is_some_and(is_address);
            (role != Role::Url || is_address()).then_some(DbSetting {
                file: path,
                role,
                code,
            })
        })
    };
    files.iter().flat_map(of_file).collect()
}

/// Whether a text is the address of a database and not that of a page.
pub(super) fn is_address(text: &str) -> bool {
    text.contains(':') && DbEngine::of_scheme(text).is_some()
}

/// What the settings say the database is: the driver, the scheme of an address, or the usual port.
pub(super) fn engine(settings: &[DbSetting<'_>]) -> Option<DbEngine> {
    let text_of = |role: Role| {
        let mut of_role = settings.iter().filter(move |setting| setting.role == role);
        of_role.find_map(|setting| setting.code.text())
    };
    let by_port = |port: &str| match port {
        "3306" => Some(DbEngine::Mariadb),
        "5432" => Some(DbEngine::Postgresql),
        _ => None,
    };
    let driver = text_of(Role::Driver).and_then(DbEngine::named);
    let address = || text_of(Role::Url).and_then(DbEngine::of_scheme);
    let port = || text_of(Role::Port).and_then(by_port);
    driver.or_else(address).or_else(port)
}

/// What a list of connections takes where the environment names none, as Laravel's does:
/// `'default' => env('DB_CONNECTION', 'mysql')`.
pub(super) fn by_default(files: &[SettingsFile]) -> Option<DbEngine> {
    let of_value = |value: &str| {
        let (_, behind) = value.strip_prefix("env(")?.split_once("DB_CONNECTION")?;
        DbEngine::named(behind)
    };
    let of_file = |file: &SettingsFile| {
        let found = lists(&file.text);
        let mut entries = found.iter().flat_map(|list| &list.entries);
        entries.find_map(|(key, value)| of_value(value).filter(|_| *key == "default"))
    };
    files.iter().find_map(of_file)
}

/// What files of SQLite say, where nothing else says which database it is.
pub(super) fn by_files(root: &Path) -> Option<DbEngine> {
    (!sqlite_files(root).is_empty()).then_some(DbEngine::Sqlite)
}

/// Files of SQLite where applications have them, relative to the root. What a link leads to is passed over: the private copy
/// has no copy of it.
pub(super) fn sqlite_files(root: &Path) -> Vec<PathBuf> {
    /// With each, how many directories deeper it is looked into.
    const DIRS: &[(&str, u32)] = &[
        ("", 0),
        ("db", 0),
        ("sqlite", 0),
        ("writable", 0),
        ("database", 2),
        ("data", 2),
        ("user", 2),
        ("var", 2),
        ("storage", 2),
    ];
    /// What these hold is made anew from the data.
    const PASSED_OVER: &[&str] = &["cache", "log", "logs", "sessions", "tmp"];
    let is_own = |dir: &str| {
        let kind = std::fs::symlink_metadata(root.join(dir));
        dir.is_empty() || kind.is_ok_and(|kind| kind.is_dir())
    };
    let own = DIRS.iter().filter(|(dir, _)| is_own(dir));
    // The upper ones first: not all are looked at where there are many.
    let mut queue: VecDeque<(PathBuf, u32)> = own
        .map(|(dir, deeper)| (PathBuf::from(dir), *deeper))
        .collect();
    let mut left = MOST_ENTRIES;
    let mut found = Vec::new();
    while let Some((dir, deeper)) = queue.pop_front() {
        let entries = std::fs::read_dir(root.join(&dir)).into_iter().flatten();
        for entry in entries.flatten().take(left) {
            left -= 1;
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let name = entry.file_name();
            let passed = || PASSED_OVER.iter().any(|passed| name == *passed);
            if kind.is_dir() && deeper > 0 && !passed() {
                queue.push_back((dir.join(&name), deeper - 1));
            } else if kind.is_file() && is_sqlite(&entry.path()) {
                found.push(dir.join(&name));
            }
        }
    }
    found.sort();
    found
}

fn is_sqlite(path: &Path) -> bool {
    use std::io::Read as _;
    let mut magic = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && &magic == b"SQLite format 3\0"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_connections_says_which_it_takes_by_default() {
        let by_default = |text: &str| {
            by_default(&[SettingsFile {
                path: "app/Config/database.php".into(),
                text: format!("<?php\nreturn [{text}];\n"),
            }])
        };
        let connections = "'connections' => ['mysql' => ['driver' => 'mysql', 'host' => $mysql_host], 'pgsql' => []]";
        let default = "'default' => env('DB_CONNECTION', 'mysql'), ";
        let both = format!("{default}{connections}");
        assert_eq!(by_default(&both), Some(DbEngine::Mariadb));
        assert_eq!(by_default(connections), None);
        for other in [
            "'default' => env('DB_CONNECTION')",
            "'default' => env('CACHE_DRIVER', 'file')",
            "'driver' => env('DB_CONNECTION', 'pgsql')",
        ] {
            assert_eq!(by_default(other), None, "{other}");
        }
    }

    #[test]
    fn files_of_sqlite_are_found_two_directories_deep_and_behind_no_link() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("site");
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        };
        for name in [
            "app.db",
            "data/users/alice/db.sqlite",
            "data/a/b/c/deep.sqlite",
            "data/cache/x.sqlite",
            "db/sub/x.sqlite",
            "../other/x.sqlite",
        ] {
            write(name, "SQLite format 3\0");
        }
        write("data/users/alice/notes.txt", "no database");
        std::os::unix::fs::symlink("../other", root.join("storage")).expect("linked");
        std::os::unix::fs::symlink("../../other", root.join("data/other")).expect("linked");
        let found = sqlite_files(&root);
        let expected = ["app.db", "data/users/alice/db.sqlite"].map(PathBuf::from);
        assert_eq!(found, expected);
        for number in 0..=MOST_ENTRIES {
            write(&format!("data/{number}"), "");
        }
        assert_eq!(sqlite_files(&root), ["app.db"].map(PathBuf::from));
    }
}
