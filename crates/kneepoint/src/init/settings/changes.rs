//! The changes to an application's files by which its private copy reads the lab's addresses. They never hold a
//! password: where one stands, the text before it is what is looked for.

use super::database::{DbEngine, DbSetting};
use super::reads::Reads;
use super::roles::Role;
use kneepoint_model::AppKind;
use std::path::Path;

/// One `[[app.file]]` of the draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file, relative to the root.
    pub path: String,
    /// The text to replace; `None` makes `text` the whole file.
    pub find: Option<String>,
    /// What stands there in the copy.
    pub text: String,
    /// What it is for, in words.
    pub why: String,
}

impl FileChange {
    pub(super) fn replace(path: &str, find: &str, text: String, why: &str) -> Self {
        Self {
            path: path.to_owned(),
            find: Some(find.to_owned()),
            text,
            why: why.to_owned(),
        }
    }
}

/// How the address gets a port where the application has no setting of its own for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PortStyle {
    /// The application takes `host:port`, and `localhost:/socket`.
    Colon,
    /// The host stands in a data source name of PDO.
    Pdo,
    /// mysqli's default.
    Mysqli,
    /// It has a setting of its own, or nobody knows.
    Apart,
}

impl PortStyle {
    pub(super) fn of(
        kind: AppKind,
        engine: DbEngine,
        settings: &[DbSetting<'_>],
        reads: &Reads,
    ) -> Self {
        let has_port = || settings.iter().any(|setting| setting.role == Role::Port);
        let mut drivers = settings
            .iter()
            .filter(|setting| setting.role == Role::Driver);
        let driver = drivers.find_map(|setting| setting.code.text());
        let driver = driver.unwrap_or_default().to_ascii_lowercase();
        match kind {
            AppKind::Wordpress => Self::Colon,
            AppKind::Mediawiki if engine == DbEngine::Mariadb => Self::Colon,
            _ if has_port() => Self::Apart,
            // Of the ways that its code knows, it goes the one that its settings name.
            _ if driver.contains("mysqli") => Self::Mysqli,
            _ if driver.contains("pdo") => Self::Pdo,
            _ if reads.pdo && !reads.mysqli => Self::Pdo,
            _ if reads.mysqli => Self::Mysqli,
            _ => Self::Apart,
        }
    }
}

/// The expression of PHP that gives the lab's value.
fn expression(role: Role, style: PortStyle, engine: DbEngine, old: &str) -> Option<String> {
    let get = |name: &str| format!("getenv('{name}')");
    Some(match role {
        Role::Host => match style {
            PortStyle::Colon => {
                "getenv('DB_HOST') . ':' . (getenv('DB_SOCKET') ?: getenv('DB_PORT'))".into()
            }
            PortStyle::Pdo => "getenv('DB_HOST') . ';port=' . getenv('DB_PORT')".into(),
            PortStyle::Mysqli | PortStyle::Apart => get("DB_HOST"),
        },
        Role::Port => get("DB_PORT"),
        Role::Name => get("DB_DATABASE"),
        Role::User => get("DB_USERNAME"),
        Role::Password => get("DB_PASSWORD"),
        Role::Url => address(engine, old),
        Role::Driver => return None,
    })
}

/// An address in one text: of PDO, or like that of a page.
pub(super) fn address(engine: DbEngine, old: &str) -> String {
    if old.contains("://") {
        return format!(
            "'{}://' . getenv('DB_USERNAME') . ':' . getenv('DB_PASSWORD') . '@' . getenv('DB_HOST') . ':' . \
             getenv('DB_PORT') . '/' . getenv('DB_DATABASE')",
            old.split("://").next().unwrap_or(engine.scheme())
        );
    }
    format!(
        "'{}:host=' . getenv('DB_HOST') . ';port=' . getenv('DB_PORT') . ';dbname=' . getenv('DB_DATABASE')",
        old.split(':').next().unwrap_or(engine.scheme())
    )
}

fn why(role: Role) -> &'static str {
    match role {
        Role::Host => "The lab's database instead of yours: its address.",
        Role::Port => "The lab's database instead of yours: its port.",
        Role::Name => "The lab's database instead of yours: its name.",
        Role::User => "The lab's database instead of yours: its user.",
        Role::Password => {
            "The lab's database instead of yours: its password. (Yours is not written here: the old value stays behind \
             the colon, where it counts no more.)"
        }
        Role::Url => {
            "The lab's database instead of yours: its address with all else. (Yours is not written here: the old value \
             stays behind the colon, where it counts no more.)"
        }
        Role::Driver => "",
    }
}

/// The changes that replace the settings of the database, and a sentence for each that cannot be replaced.
pub(super) fn of_database(
    engine: DbEngine,
    settings: &[DbSetting<'_>],
    style: PortStyle,
) -> (Vec<FileChange>, Vec<String>) {
    let (mut changes, mut notes) = (Vec::new(), Vec::new());
    for setting in settings {
        if setting.role == Role::Driver || setting.reads_environment() {
            continue;
        }
        let code = setting.code;
        let (target, file) = (code.target, setting.file);
        // An object or a list that is called so is not the name of a database.
        if code.text().is_none() && target.starts_with('$') {
            continue;
        }
        if code.fixed {
            notes.push(format!(
                "{file} has {target} as a constant or property, which cannot read the environment: let an [[app.file]] \
                 give it the value of {} another way",
                lab_name(setting.role)
            ));
            continue;
        }
        let old = code.text().unwrap_or_default();
        if let Some(new) = expression(setting.role, style, engine, old) {
            changes.push(change(setting, &new, style));
        }
    }
    changes.dedup();
    (changes, notes)
}

fn change(setting: &DbSetting<'_>, new: &str, style: PortStyle) -> FileChange {
    let code = setting.code;
    let why = why(setting.role);
    if matches!(setting.role, Role::Password | Role::Url) || code.text().is_none() {
        // PHP takes no second question behind the first without brackets. `print` takes all that follows, and nothing is printed:
        // that branch is never run.
        let print = match code.text().is_none() && code.value.contains('?') {
            true => "print ",
            false => "",
        };
        let text = format!("{}true ? {new} : {print}", code.before);
        return FileChange::replace(setting.file, code.before, text, why);
    }
    let behind = &code.whole[code.before.len() + code.value.len()..];
    let mut text = format!("{}{new}{behind}", code.before);
    if setting.role == Role::Host && style == PortStyle::Mysqli {
        text.push_str(" ini_set('mysqli.default_port', getenv('DB_PORT'));");
    }
    FileChange::replace(setting.file, code.whole, text, why)
}

/// The changes by which the environment, which has the lab's values, wins over a `.env`.
pub(super) fn of_overriding(root: &Path, reads: &Reads) -> Vec<FileChange> {
    const WHY: &str =
        "Its .env would win over the environment, which has the lab's values: not so in the copy.";
    if !root.join(".env").is_file() {
        return Vec::new();
    }
    let changes = reads.overriding.iter().filter_map(|(path, (find, new))| {
        let path = path.strip_prefix(root).ok()?.display().to_string();
        Some(FileChange::replace(&path, find, (*new).to_owned(), WHY))
    });
    changes.collect()
}

/// The environment variable in which the lab offers it.
pub(super) fn lab_name(role: Role) -> &'static str {
    match role {
        Role::Host => "DB_HOST",
        Role::Port => "DB_PORT",
        Role::Name => "DB_DATABASE",
        Role::User => "DB_USERNAME",
        Role::Password => "DB_PASSWORD",
        Role::Url => "DB_HOST",
        Role::Driver => "DB_CONNECTION",
    }
}

#[cfg(test)]
mod tests {
    use super::super::database::{SettingsFile, engine, settings};
    use super::*;
    use expect_test::{Expect, expect};

    /// What a file becomes in the copy. No change holds the word `secret`.
    #[track_caller]
    fn check(kind: AppKind, reads: &Reads, text: &str, expected: &Expect) {
        let files = [SettingsFile {
            path: "config.php".into(),
            text: text.into(),
        }];
        let settings = settings(&files);
        let engine = engine(&settings).unwrap_or(DbEngine::Mariadb);
        let style = PortStyle::of(kind, engine, &settings, reads);
        let (changes, notes) = of_database(engine, &settings, style);
        let mut copy = text.to_owned();
        for change in &changes {
            let find = change.find.as_deref().expect("a replacement");
            assert!(copy.contains(find), "{find}");
            assert!(
                !find.contains("secret") && !change.text.contains("secret"),
                "{change:?}"
            );
            copy = copy.replace(find, &change.text);
        }
        let notes: String = notes.iter().map(|note| format!("! {note}\n")).collect();
        expected.assert_eq(&format!("{copy}{notes}"));
    }

    #[test]
    fn wordpress_reads_the_labs_database_with_its_port() {
        check(
            AppKind::Wordpress,
            &Reads::default(),
            "<?php\ndefine( 'DB_NAME', 'shop' );\ndefine('DB_USER','shop');\ndefine( \"DB_PASSWORD\", \"secret'); //\" );\n\
             define('DB_HOST', 'db.example.com'); // the old one\ndefine('DB_CHARSET', 'utf8mb4');\n",
            &expect![[r#"
                <?php
                define( 'DB_NAME', getenv('DB_DATABASE') );
                define('DB_USER',getenv('DB_USERNAME'));
                define( "DB_PASSWORD", true ? getenv('DB_PASSWORD') : "secret'); //" );
                define('DB_HOST', getenv('DB_HOST') . ':' . (getenv('DB_SOCKET') ?: getenv('DB_PORT'))); // the old one
                define('DB_CHARSET', 'utf8mb4');
            "#]],
        );
    }

    #[test]
    fn addresses_keep_their_form_and_numbers_need_no_word() {
        check(
            AppKind::Plain,
            &Reads::default(),
            "<?php $config['db_dsnw'] = 'mysql://u:secret@h/n'; const DB_PASSWORD = 'secret'; $feedback_url = 'x';",
            &expect![[r#"
                <?php $config['db_dsnw'] = true ? 'mysql://' . getenv('DB_USERNAME') . ':' . getenv('DB_PASSWORD') . '@' . getenv('DB_HOST') . ':' . getenv('DB_PORT') . '/' . getenv('DB_DATABASE') : 'mysql://u:secret@h/n'; const DB_PASSWORD = 'secret'; $feedback_url = 'x';! config.php has DB_PASSWORD as a constant or property, which cannot read the environment: let an [[app.file]] give it the value of DB_PASSWORD another way
            "#]],
        );
    }

    #[test]
    fn a_port_goes_the_way_the_code_connects() {
        let text = "<?php $dbhost = 'x';";
        let reads = |pdo, mysqli| Reads {
            pdo,
            mysqli,
            ..Reads::default()
        };
        check(
            AppKind::Plain,
            &reads(true, false),
            text,
            &expect![[r#"<?php $dbhost = getenv('DB_HOST') . ';port=' . getenv('DB_PORT');"#]],
        );
        check(
            AppKind::Plain,
            &reads(false, true),
            text,
            &expect![[
                r#"<?php $dbhost = getenv('DB_HOST'); ini_set('mysqli.default_port', getenv('DB_PORT'));"#
            ]],
        );
        check(
            AppKind::Plain,
            &reads(true, false),
            "<?php $dbhost = 'x'; $dbport = '5432';",
            &expect![[r#"<?php $dbhost = getenv('DB_HOST'); $dbport = getenv('DB_PORT');"#]],
        );
    }

    #[test]
    fn an_environment_that_wins_over_the_labs_does_not_in_the_copy() {
        let dir = tempfile::tempdir().expect("a directory");
        let (find, new) = ("createUnsafeMutable(", "createUnsafeImmutable(");
        let reads = Reads {
            overriding: vec![(dir.path().join("bootstrap.php"), (find, new))],
            ..Reads::default()
        };
        assert!(of_overriding(dir.path(), &reads).is_empty(), "no .env");
        std::fs::write(dir.path().join(".env"), "CRAFT_DB_SERVER=db\n").expect("a file");
        let changes = of_overriding(dir.path(), &reads);
        assert_eq!(changes.len(), 1);
        let change = &changes[0];
        assert_eq!(change.path, "bootstrap.php");
        assert_eq!(change.find.as_deref(), Some(find));
        assert_eq!(change.text, new);
    }

    #[test]
    fn a_value_with_a_question_of_its_own_stays_valid_php() {
        check(
            AppKind::Plain,
            &Reads::default(),
            "<?php\ndefine('DB_NAME', $local ? 'a' : 'b');\ndefine('DB_PASSWORD', $keys['db'] ?: 'secret');\n",
            &expect![[r#"
                <?php
                define('DB_NAME', true ? getenv('DB_DATABASE') : print $local ? 'a' : 'b');
                define('DB_PASSWORD', true ? getenv('DB_PASSWORD') : print $keys['db'] ?: 'secret');
            "#]],
        );
    }

    #[test]
    fn a_port_goes_the_way_that_the_settings_name() {
        let reads = Reads {
            pdo: true,
            ..Reads::default()
        };
        check(
            AppKind::Plain,
            &reads,
            "<?php\n$config['database']['type'] = 'mysqli';\n$config['database']['database'] = 'mybb';\n\
             $config['database']['table_prefix'] = 'mybb_';\n$config['database']['hostname'] = 'localhost';\n\
             $config['database']['password'] = 'secret';\n$config['memcache']['host'] = 'localhost';\n",
            &expect![[r#"
                <?php
                $config['database']['type'] = 'mysqli';
                $config['database']['database'] = getenv('DB_DATABASE');
                $config['database']['table_prefix'] = 'mybb_';
                $config['database']['hostname'] = getenv('DB_HOST'); ini_set('mysqli.default_port', getenv('DB_PORT'));
                $config['database']['password'] = true ? getenv('DB_PASSWORD') : 'secret';
                $config['memcache']['host'] = 'localhost';
            "#]],
        );
        check(
            AppKind::Plain,
            &Reads::default(),
            "<?php\n$db_type = 'mysql_pdo';\n$db_host = 'x';\n",
            &expect![[r#"
                <?php
                $db_type = 'mysql_pdo';
                $db_host = getenv('DB_HOST') . ';port=' . getenv('DB_PORT');
            "#]],
        );
    }

    #[test]
    fn what_reads_the_environment_stays_as_it_is() {
        let text = "<?php define('DB_HOST', getenv('DB_HOST')); define('DB_TYPE', 'pgsql');";
        check(
            AppKind::Plain,
            &Reads::default(),
            text,
            &expect![[
                r#"<?php define('DB_HOST', getenv('DB_HOST')); define('DB_TYPE', 'pgsql');"#
            ]],
        );
    }
}
