//! Applications whose settings are not statements that could get another value: an object, a list, files that are merged. And
//! what some insist on beside their database.

use super::changes::FileChange;
use super::database::{SettingsFile, read};
use super::known::{ADDRESS, OWN_ADDRESS, find, of_key, with_value};
use std::path::Path;

const DATABASE: &str = "The lab's database instead of yours. (Yours is not written here.)";

/// The changes that an application of this name needs.
pub(super) fn changes(root: &Path, name: &str, files: &[SettingsFile]) -> Vec<FileChange> {
    let file = |path: &str| files.iter().find(|file| file.path == path);
    match name {
        "Joomla" => file("configuration.php")
            .and_then(joomla)
            .into_iter()
            .collect(),
        "Moodle" => file("config.php").map_or_else(Vec::new, |file| moodle(root, file)),
        "Nextcloud" => file("config/config.php")
            .map(|_| nextcloud())
            .into_iter()
            .collect(),
        "WordPress (Bedrock)" => bedrock(root),
        _ => Vec::new(),
    }
}

/// Joomla: an object whose properties are the settings. What is built last holds.
fn joomla(file: &SettingsFile) -> Option<FileChange> {
    const BUILT: &str = "
    public function __construct()
    {
        $this->host = getenv('DB_HOST') . (getenv('DB_PORT') === '3306' ? '' : ':' . getenv('DB_PORT'));
        $this->user = getenv('DB_USERNAME');
        $this->password = getenv('DB_PASSWORD');
        $this->db = getenv('DB_DATABASE');
        $this->live_site = '';
        $this->force_ssl = 0;
        $this->log_path = __DIR__ . '/administrator/logs';
        $this->tmp_path = __DIR__ . '/tmp';
    }
";
    let text = &file.text;
    let begin = text.find("class JConfig")?;
    let end = begin + text[begin..].find('{')?;
    let head = text.get(begin..=end)?;
    let why =
        format!("{DATABASE} It takes the address by which it is asked, and its own directories.");
    Some(FileChange::replace(
        &file.path,
        head,
        format!("{head}{BUILT}"),
        &why,
    ))
}

/// Moodle: its address, and a directory of data that is the copy's own.
fn moodle(root: &Path, file: &SettingsFile) -> Vec<FileChange> {
    const DATA: &str = "(is_dir($kept = sys_get_temp_dir() . '/moodledata') || mkdir($kept, 0700, true)) ? $kept : $kept";
    let set = |target: &str, new: &str, why: &str| {
        find(&file.text, target).map(|old| with_value(file, &old, new, why))
    };
    let dataroot = find(&file.text, "$CFG->dataroot");
    let is_outside = dataroot
        .and_then(|old| old.text())
        .is_some_and(|dir| !Path::new(dir).starts_with(root));
    let changes = [
        set("$CFG->wwwroot", OWN_ADDRESS, ADDRESS),
        set("$CFG->sslproxy", "false", ADDRESS),
        set("$CFG->reverseproxy", "false", ADDRESS),
        set(
            "$CFG->dataroot",
            DATA,
            "A directory outside of the application, which it would write to: the copy begins with an empty one.",
        )
        .filter(|_| is_outside),
    ];
    changes.into_iter().flatten().collect()
}

/// Nextcloud merges every `config/*.config.php` over `config.php`, the last one last.
fn nextcloud() -> FileChange {
    const TEXT: &str = "<?php
$CONFIG = [
    'dbhost' => getenv('DB_HOST') . ':' . getenv('DB_PORT'),
    'dbname' => getenv('DB_DATABASE'),
    'dbuser' => getenv('DB_USERNAME'),
    'dbpassword' => getenv('DB_PASSWORD'),
    'trusted_domains' => ['*'],
    'overwritehost' => '',
    'overwriteprotocol' => '',
    'overwritewebroot' => '',
];
";
    FileChange {
        path: "config/zz-kneepoint.config.php".into(),
        find: None,
        text: TEXT.into(),
        why: format!(
            "{DATABASE} It takes the address by which it is asked. Its data directory stays: name one of the copy's own in \
            'datadirectory'."
        ),
    }
}

/// The driver that Nextcloud's list names.
pub(super) fn nextcloud_driver(file: &SettingsFile) -> Option<String> {
    of_key(&file.text, "dbtype")
}

/// Bedrock: WordPress whose settings are calls of a library, which reads no environment that PHP-FPM gives.
fn bedrock(root: &Path) -> Vec<FileChange> {
    const FILE: &str = "config/application.php";
    let site = format!("Config::define('WP_SITEURL', {OWN_ADDRESS} . '/wp')");
    let home = format!("Config::define('WP_HOME', {OWN_ADDRESS})");
    let pairs = [
        ("env('DB_NAME')", "getenv('DB_DATABASE')", DATABASE),
        ("env('DB_USER')", "getenv('DB_USERNAME')", DATABASE),
        ("env('DB_PASSWORD')", "getenv('DB_PASSWORD')", DATABASE),
        (
            "env('DB_HOST')",
            "(getenv('DB_HOST') . ':' . (getenv('DB_SOCKET') ?: getenv('DB_PORT')))",
            DATABASE,
        ),
        (
            "Config::define('WP_HOME', env('WP_HOME'))",
            home.as_str(),
            ADDRESS,
        ),
        (
            "Config::define('WP_SITEURL', env('WP_SITEURL'))",
            site.as_str(),
            ADDRESS,
        ),
        (
            "env('DISABLE_WP_CRON') ?: false",
            "true",
            "Its clock (wp-cron.php) stands still: it would ask itself over HTTP and change what is measured.",
        ),
    ];
    let text = read(&root.join(FILE)).unwrap_or_default();
    let there = pairs.iter().filter(|(find, ..)| text.contains(find));
    there
        .map(|(find, new, why)| FileChange::replace(FILE, find, (*new).to_owned(), why))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SettingsFile {
        SettingsFile {
            path: path.into(),
            text: text.into(),
        }
    }

    /// The text of a file with its changes.
    fn changed(root: &str, name: &str, file: SettingsFile) -> String {
        let changes = changes(Path::new(root), name, std::slice::from_ref(&file));
        changes.iter().fold(file.text, |text, change| {
            let find = change.find.as_deref().expect("a replacement");
            assert!(text.contains(find) && !find.contains("secret"), "{find}");
            text.replace(find, &change.text)
        })
    }

    #[test]
    fn joomla_is_built_with_the_labs_database() {
        let text = "<?php\nclass JConfig {\n\tpublic $host = 'localhost';\n\tpublic $password = 'secret';\n}\n";
        let copy = changed("/srv", "Joomla", file("configuration.php", text));
        assert!(
            copy.starts_with("<?php\nclass JConfig {\n    public function __construct()")
                && copy.contains("$this->db = getenv('DB_DATABASE');")
                && copy.ends_with("public $password = 'secret';\n}\n"),
            "{copy}"
        );
    }

    #[test]
    fn moodle_takes_the_address_it_is_asked_by_and_data_of_its_own() {
        let text = "<?php\n$CFG->wwwroot = 'https://moodle.example';\n$CFG->dataroot = '/var/moodledata';\n$CFG->sslproxy = true;\n";
        let copy = changed("/srv/moodle", "Moodle", file("config.php", text));
        assert!(
            copy.contains(&format!("$CFG->wwwroot = {OWN_ADDRESS};"))
                && copy.contains("$CFG->sslproxy = false;")
                && !copy.contains("'/var/moodledata'"),
            "{copy}"
        );
        let own = changed("/var", "Moodle", file("config.php", text));
        assert!(own.contains("'/var/moodledata'"), "{own}");
    }

    #[test]
    fn nextcloud_gets_a_file_that_is_merged_last() {
        let text =
            "<?php\n$CONFIG = array (\n  'dbtype' => 'mysql',\n  'dbpassword' => 'secret',\n);\n";
        let config = file("config/config.php", text);
        assert_eq!(nextcloud_driver(&config).as_deref(), Some("mysql"));
        let changes = changes(Path::new("/srv"), "Nextcloud", &[config]);
        assert_eq!(changes.len(), 1);
        assert!(changes[0].find.is_none() && changes[0].path.ends_with(".config.php"));
    }

    #[test]
    fn bedrock_reads_what_the_lab_gives() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("config")).expect("a directory");
        let text = "<?php\nConfig::define('WP_HOME', env('WP_HOME'));\nConfig::define('DB_NAME', env('DB_NAME'));\n";
        std::fs::write(dir.path().join("config/application.php"), text).expect("a file");
        let changes = changes(dir.path(), "WordPress (Bedrock)", &[]);
        let copy = changes.iter().fold(text.to_owned(), |text, change| {
            text.replace(change.find.as_deref().expect("a replacement"), &change.text)
        });
        assert_eq!(
            copy,
            format!(
                "<?php\nConfig::define('WP_HOME', {OWN_ADDRESS});\nConfig::define('DB_NAME', getenv('DB_DATABASE'));\n"
            )
        );
    }
}
