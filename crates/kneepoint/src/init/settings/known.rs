//! What particular applications need in their private copy beside the settings of the database.

use super::changes::FileChange;
use super::database::{SettingsFile, read};
use kneepoint_stack::application::code::{Assignment, assignments};
use std::path::{Path, PathBuf};

/// The site's own address as PHP sees it: that by which it was asked.
pub(super) const OWN_ADDRESS: &str = "'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost')";
/// Why it gets that one.
pub(super) const ADDRESS: &str =
    "The site is visited under the lab's address: without this it sends its visitors to its own.";
/// Why it takes any name.
pub(super) const REFUSES: &str =
    "The site is visited under the lab's address, by which it would refuse to be called.";
/// What has Drupal's database.
pub(super) const DRUPAL: &str = "$databases['default']['default']";
/// Where Debian's package has the settings of sites.
const DEBIAN_WORDPRESS: &str = "/etc/wordpress";

pub(super) fn find<'t>(text: &'t str, target: &str) -> Option<Assignment<'t>> {
    let mut found = assignments(text).into_iter();
    found.find(|assignment| assignment.target == target)
}

/// A statement of a file with another value.
pub(super) fn with_value(
    file: &SettingsFile,
    old: &Assignment<'_>,
    new: &str,
    why: &str,
) -> FileChange {
    let behind = &old.whole[old.before.len() + old.value.len()..];
    let text = format!("{}{new}{behind}", old.before);
    FileChange::replace(&file.path, old.whole, text, why)
}

/// WordPress: the site's address, and no work of its clock.
pub(super) fn wordpress(file: &SettingsFile) -> Vec<FileChange> {
    let mut changes = Vec::new();
    let mut added = String::new();
    for name in ["WP_HOME", "WP_SITEURL"] {
        match find(&file.text, name) {
            Some(old) => changes.push(with_value(file, &old, OWN_ADDRESS, ADDRESS)),
            None => added.push_str(&format!("define('{name}', {OWN_ADDRESS});\n")),
        }
    }
    let mut why = ADDRESS.to_owned();
    if find(&file.text, "DISABLE_WP_CRON").is_none() {
        added.push_str("define('DISABLE_WP_CRON', true);\n");
        why.push_str(
            " Its clock (wp-cron.php), which visitors start by the way, stands still: it would ask itself over HTTP and \
             change what is measured.",
        );
    }
    let anchor = include_of_settings(&file.text);
    if let Some(anchor) = anchor.filter(|_| !added.is_empty()) {
        changes.push(FileChange::replace(
            &file.path,
            anchor,
            format!("{added}{anchor}"),
            &why,
        ));
    }
    changes
}

/// The statement that hands over to WordPress; settings stand before it.
fn include_of_settings(text: &str) -> Option<&str> {
    let file = text.rfind("wp-settings.php")?;
    let start = text[..file].rfind("require")?;
    let end = file + text[file..].find(';')? + 1;
    text.get(start..end)
}

/// Settings of WordPress that stand outside of its own wp-config.php.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// The file.
    pub(super) from: PathBuf,
    /// The name of the database.
    pub(super) database: Option<String>,
    /// The file of settings that the copy gets.
    pub(super) change: FileChange,
}

/// WordPress whose settings stand elsewhere, as Debian's package has them: a file of settings for the copy, made from
/// those without what is secret. `None` where there are none.
pub(super) fn wordpress_elsewhere(root: &Path) -> Option<Elsewhere> {
    let (from, text) = settings_elsewhere(root)?;
    let change = FileChange {
        path: "wp-config.php".into(),
        find: None,
        text: settings_for_copy(root, &text),
        why: format!(
            "The settings stand in {}. The copy has these instead: the lab's database, the lab's address, no work of \
             WordPress' clock, and all else that is no secret.",
            from.display()
        ),
    };
    let database = find(&text, "DB_NAME").and_then(|name| name.text().map(str::to_owned));
    Some(Elsewhere {
        from,
        database,
        change,
    })
}

fn settings_elsewhere(root: &Path) -> Option<(PathBuf, String)> {
    let mut paths = vec![root.join("../wp-config.php")];
    for dir in [root, Path::new(DEBIAN_WORDPRESS)] {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries
            .filter(|entry| {
                let name = entry.file_name().to_string_lossy().into_owned();
                name.starts_with("config-") && name.ends_with(".php")
            })
            .map(|entry| entry.path())
            .collect();
        // `config-default.php` serves every host.
        found.sort_by_key(|path| (!path.ends_with("config-default.php"), path.clone()));
        paths.extend(found);
    }
    paths.into_iter().find_map(|path| {
        let text = read(&path)?;
        find(&text, "DB_PASSWORD")?;
        Some((path.canonicalize().unwrap_or(path), text))
    })
}

/// A wp-config.php with the lab's values, and with the constants of another that are no secrets.
fn settings_for_copy(root: &Path, text: &str) -> String {
    let mut code = format!(
        "<?php\ndefine('DB_NAME', getenv('DB_DATABASE'));\ndefine('DB_USER', getenv('DB_USERNAME'));\n\
         define('DB_PASSWORD', getenv('DB_PASSWORD'));\n\
         define('DB_HOST', getenv('DB_HOST') . ':' . (getenv('DB_SOCKET') ?: getenv('DB_PORT')));\n\
         define('WP_HOME', {OWN_ADDRESS});\ndefine('WP_SITEURL', {OWN_ADDRESS});\ndefine('DISABLE_WP_CRON', true);\n"
    );
    for old in assignments(text).iter().filter(|old| is_kept(root, old)) {
        code.push_str(old.whole);
        code.push('\n');
    }
    if find(text, "$table_prefix").is_none() {
        code.push_str("$table_prefix = 'wp_';\n");
    }
    code.push_str("defined('ABSPATH') || define('ABSPATH', __DIR__ . '/');\nrequire_once ABSPATH . 'wp-settings.php';\n");
    code
}

fn is_kept(root: &Path, old: &Assignment<'_>) -> bool {
    const OURS: &[&str] = &[
        "WP_HOME",
        "WP_SITEURL",
        "DISABLE_WP_CRON",
        "ABSPATH",
        "DB_NAME",
        "DB_USER",
        "DB_HOST",
    ];
    const SECRET: &[&str] = &["KEY", "SALT", "PASS", "SECRET", "TOKEN"];
    let target = old.target;
    let is_constant = old.whole.starts_with("define") || target == "$table_prefix";
    let is_secret = SECRET.iter().any(|word| target.contains(word));
    let is_value = old.text().is_some() || old.value.chars().all(char::is_alphanumeric);
    // The application's own directory of content goes into the copy; one elsewhere would be written to.
    let is_content = target == "WP_CONTENT_DIR" && root.join("wp-content").is_dir();
    is_constant && is_value && !is_secret && !is_content && !OURS.contains(&target)
}

/// MediaWiki: the site's address and path, and where its SQLite files are.
pub(super) fn mediawiki(root: &Path, file: &SettingsFile) -> (Vec<FileChange>, Vec<String>) {
    let (mut changes, mut notes) = (Vec::new(), Vec::new());
    if let Some(old) = find(&file.text, "$wgServer").filter(|old| old.text().is_some()) {
        changes.push(with_value(file, &old, OWN_ADDRESS, ADDRESS));
    }
    if let Some(old) = find(&file.text, "$wgScriptPath")
        && old.text().is_some_and(|text| !text.is_empty())
    {
        let why = "In the lab the application's directory is the whole site, not a part of it.";
        changes.push(with_value(file, &old, "''", why));
    }
    if let Some(old) = find(&file.text, "$wgSQLiteDataDir") {
        let dir = old.text().map(Path::new);
        if let Some(dir) = dir.filter(|dir| dir.is_absolute() && !dir.starts_with(root)) {
            notes.push(format!(
                "the SQLite files are in {}, outside of the application: copy them below {} and name that directory in \
                 $wgSQLiteDataDir, so that the private copy has its own",
                dir.display(),
                root.display()
            ));
        }
    }
    (changes, notes)
}

/// Paths of the application as it lies in your directory: the copy has its own.
pub(super) fn own_paths(root: &Path, file: &SettingsFile) -> Vec<FileChange> {
    const WHY: &str = "A path within your directory: the copy takes the same within itself.";
    let root = root.display().to_string();
    let depth = file.path.matches('/').count();
    let found = assignments(&file.text);
    let of_root = found.iter().filter(|old| !old.fixed).filter_map(|old| {
        let (before, after) = old.text()?.split_once(&root)?;
        let whole = after.is_empty() || after.starts_with(['/', '?']);
        let quote = &old.value[..1];
        let up = "/..".repeat(depth);
        let start = match before.is_empty() {
            true => String::new(),
            false => format!("{quote}{before}{quote} . "),
        };
        let new = format!("{start}__DIR__ . {quote}{up}{after}{quote}");
        whole.then(|| with_value(file, old, &new, WHY))
    });
    of_root.collect()
}

/// Directories outside of the application that a file names and no change takes away, a sentence each.
pub(super) fn outside(root: &Path, file: &SettingsFile, changes: &[FileChange]) -> Vec<String> {
    /// Where no application writes.
    const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/etc", "/proc", "/dev"];
    /// What every host of the lab has for itself.
    const KNOWN: [&str; 2] = ["/tmp", "/var/tmp"];
    let is_changed = |old: &Assignment<'_>| {
        let mut found = changes.iter().map(|change| change.find.as_deref());
        // Of MediaWiki's it is said what to do.
        found.any(|find| find == Some(old.whole)) || old.target == "$wgSQLiteDataDir"
    };
    let found = assignments(&file.text).into_iter();
    let kept = found.filter(|old| !old.fixed && !is_changed(old));
    let named = kept.filter_map(|old| {
        let dir = Path::new(old.text()?);
        let is_own = dir.starts_with(root) || root.starts_with(dir);
        let is_known = KNOWN.iter().any(|known| dir == Path::new(known))
            || SYSTEM.iter().any(|system| dir.starts_with(system));
        let is_one = dir.is_absolute() && !is_own && !is_known && dir.is_dir();
        is_one.then(|| {
            format!(
                "{} names {} ({}), which is not within the application: the copy has none of it, and a closed lab only reads \
                 it. If it must be written, let an [[app.file]] name a directory of the copy",
                file.path,
                dir.display(),
                old.target
            )
        })
    });
    named.collect()
}

/// Drupal: its list of databases, and by which names it may be called.
pub(super) fn drupal(file: &SettingsFile) -> Vec<FileChange> {
    let mut changes = Vec::new();
    let found = find(&file.text, DRUPAL);
    if let Some(old) = found.filter(|old| old.value.starts_with(['[', 'a'])) {
        // A socket would be asked before the address.
        let socket = match old.value.contains("'unix_socket'") {
            true => ", 'unix_socket' => null",
            false => "",
        };
        let text = format!(
            "{}['database' => getenv('DB_DATABASE'), 'username' => getenv('DB_USERNAME'), 'password' => \
             getenv('DB_PASSWORD'), 'host' => getenv('DB_HOST'), 'port' => getenv('DB_PORT'){socket}] + ",
            old.before
        );
        let why = "The lab's database instead of yours: what stands on the left counts. (Yours is not written here.)";
        changes.push(FileChange::replace(&file.path, old.before, text, why));
    }
    const HOSTS: &str = "$settings['trusted_host_patterns']";
    let hosts = assignments(&file.text).into_iter();
    for old in hosts.filter(|old| old.target.starts_with(HOSTS)) {
        // `[...][] = '...'` adds one to the list.
        let value = match old.target == HOSTS {
            true => "['.*']",
            false => "'.*'",
        };
        changes.push(with_value(file, &old, value, REFUSES));
    }
    changes
}

/// The driver that Drupal's list names.
pub(super) fn drupal_driver(file: &SettingsFile) -> Option<String> {
    let old = find(&file.text, DRUPAL)?;
    of_key(old.value, "driver")
}

/// The text behind a key of a list.
pub(super) fn of_key(list: &str, key: &str) -> Option<String> {
    let (_, behind) = list.split_once(&format!("'{key}'"))?;
    behind.split('\'').nth(1).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn file(text: &str) -> SettingsFile {
        SettingsFile {
            path: "settings.php".into(),
            text: text.into(),
        }
    }

    #[track_caller]
    fn check(file: &SettingsFile, changes: &[FileChange], expected: &Expect) {
        let mut copy = file.text.clone();
        for change in changes {
            let find = change.find.as_deref().expect("a replacement");
            assert!(copy.contains(find) && !find.contains("secret"), "{find}");
            copy = copy.replace(find, &change.text);
        }
        expected.assert_eq(&copy);
    }

    #[test]
    fn wordpress_answers_under_the_labs_address() {
        let file = file(
            "<?php\ndefine( 'WP_HOME', 'https://shop.example' );\n/* That's all */\n\
             require_once( ABSPATH . 'wp-settings.php' );\n",
        );
        check(
            &file,
            &wordpress(&file),
            &expect![[r#"
            <?php
            define( 'WP_HOME', 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost') );
            /* That's all */
            define('WP_SITEURL', 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost'));
            define('DISABLE_WP_CRON', true);
            require_once( ABSPATH . 'wp-settings.php' );
        "#]],
        );
    }

    #[test]
    fn wordpress_of_debian_gets_settings_without_secrets() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("site");
        std::fs::create_dir_all(root.join("wp-content")).expect("a directory");
        std::fs::write(
            root.join("config-default.php"),
            "<?php\ndefine('DB_NAME', 'shop');\ndefine('DB_USER', 'shop');\ndefine('DB_PASSWORD', 'secret');\n\
             define('DB_HOST', 'db');\ndefine('AUTH_KEY', 'secret');\ndefine('WP_CONTENT_DIR', '/var/lib/wp');\n\
             define('WP_CACHE', true);\n$table_prefix = 'shop_';\n?>\n",
        )
        .expect("a file");
        let Elsewhere {
            from,
            database,
            change,
        } = wordpress_elsewhere(&root).expect("settings");
        assert!(from.ends_with("site/config-default.php"));
        assert_eq!(database.as_deref(), Some("shop"));
        assert!(!change.text.contains("secret"));
        expect![[r#"
            <?php
            define('DB_NAME', getenv('DB_DATABASE'));
            define('DB_USER', getenv('DB_USERNAME'));
            define('DB_PASSWORD', getenv('DB_PASSWORD'));
            define('DB_HOST', getenv('DB_HOST') . ':' . (getenv('DB_SOCKET') ?: getenv('DB_PORT')));
            define('WP_HOME', 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost'));
            define('WP_SITEURL', 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost'));
            define('DISABLE_WP_CRON', true);
            define('WP_CACHE', true);
            $table_prefix = 'shop_';
            defined('ABSPATH') || define('ABSPATH', __DIR__ . '/');
            require_once ABSPATH . 'wp-settings.php';
        "#]]
        .assert_eq(&change.text);
    }

    #[test]
    fn mediawiki_is_the_whole_site_and_keeps_its_files_in_the_copy() {
        let file = file(
            "<?php\n$wgScriptPath = \"/w\";\n$wgServer = \"https://wiki.example\";\n$wgSQLiteDataDir = \"/srv/wiki/data\";\n",
        );
        let (mut changes, notes) = mediawiki(Path::new("/srv/wiki"), &file);
        assert!(notes.is_empty());
        changes.extend(own_paths(Path::new("/srv/wiki"), &file));
        check(
            &file,
            &changes,
            &expect![[r#"
            <?php
            $wgScriptPath = '';
            $wgServer = 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost');
            $wgSQLiteDataDir = __DIR__ . "/data";
        "#]],
        );
        let (_, notes) = mediawiki(Path::new("/srv/other"), &file);
        assert!(notes[0].contains("/srv/wiki/data"), "{notes:?}");
    }

    #[test]
    fn paths_of_the_application_become_the_copys() {
        let file = SettingsFile {
            path: "config/config.php".into(),
            text: "<?php\n$c['db_dsnw'] = 'sqlite:////srv/app/db/x.db?mode=0646';\ndefine('DATA', '/srv/app');\n\
                   $a = '/srv/application';\n"
                .into(),
        };
        check(
            &file,
            &own_paths(Path::new("/srv/app"), &file),
            &expect![[r#"
            <?php
            $c['db_dsnw'] = 'sqlite:///' . __DIR__ . '/../db/x.db?mode=0646';
            define('DATA', __DIR__ . '/..');
            $a = '/srv/application';
        "#]],
        );
    }

    #[test]
    fn a_directory_outside_of_the_application_is_said_unless_a_change_takes_it_away() {
        let dir = tempfile::tempdir().expect("a directory");
        let (root, private) = (dir.path().join("site"), dir.path().join("private"));
        for dir in [root.join("files"), private.clone()] {
            std::fs::create_dir_all(dir).expect("a directory");
        }
        let (root, private) = (root.as_path(), private.display());
        let file = file(&format!(
            "<?php\n$settings['file_private_path'] = '{private}';\n$own = '{}/files';\n$none = '{private}/none';\n\
             $url = '/shop';\n$tmp = '/tmp';\n$up = '/';\n",
            root.display()
        ));
        let told = outside(root, &file, &[]);
        let begins =
            format!("settings.php names {private} ($settings['file_private_path']), which is not ");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(&begins), "{told:?}");
        let old = find(&file.text, "$settings['file_private_path']").expect("a statement");
        let change = with_value(&file, &old, "null", "");
        assert!(outside(root, &file, &[change]).is_empty());
    }

    #[test]
    fn a_socket_of_drupals_is_not_asked_first() {
        let file = file(
            "<?php\n$databases['default']['default'] = [\n  'unix_socket' => '/run/db.sock',\n];\n",
        );
        let changes = drupal(&file);
        assert!(
            changes[0].text.ends_with(", 'unix_socket' => null] + "),
            "{changes:?}"
        );
    }

    #[test]
    fn drupal_keeps_all_of_its_list_but_the_address() {
        let file = file(
            "<?php\n/* $databases['default']['default'] = [] */\n$databases['default']['default'] = array (\n  \
             'database' => 'd',\n  'password' => 'secret',\n  'driver' => 'pgsql',\n);\n\
             $settings['trusted_host_patterns'] = ['^www\\.example$'];\n\
             $settings['trusted_host_patterns'][] = '^shop\\.example$';\n",
        );
        assert_eq!(drupal_driver(&file).as_deref(), Some("pgsql"));
        check(
            &file,
            &drupal(&file),
            &expect![[r#"
            <?php
            /* $databases['default']['default'] = ['database' => getenv('DB_DATABASE'), 'username' => getenv('DB_USERNAME'), 'password' => getenv('DB_PASSWORD'), 'host' => getenv('DB_HOST'), 'port' => getenv('DB_PORT')] + [] */
            $databases['default']['default'] = ['database' => getenv('DB_DATABASE'), 'username' => getenv('DB_USERNAME'), 'password' => getenv('DB_PASSWORD'), 'host' => getenv('DB_HOST'), 'port' => getenv('DB_PORT')] + array (
              'database' => 'd',
              'password' => 'secret',
              'driver' => 'pgsql',
            );
            $settings['trusted_host_patterns'] = ['.*'];
            $settings['trusted_host_patterns'][] = '.*';
        "#]],
        );
    }
}
