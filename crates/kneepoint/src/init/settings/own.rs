//! Applications whose settings are not statements that could get another value: an object, a list, files that are merged. And
//! what some insist on beside their database.

use super::changes::FileChange;
use super::database::{SettingsFile, read};
use super::known::{ADDRESS, OWN_ADDRESS, of_key, with_value};
use kneepoint_stack::application::code::{Assignment, assignments};
use std::path::Path;

const DATABASE: &str = "The lab's database instead of yours. (Yours is not written here.)";
/// How Joomla says that it keeps its cache or its sessions in Redis.
const IN_REDIS: &str = "_handler = 'redis'";
/// Where Nextcloud has its list, and how the name of a cache ends in it that is in Redis.
const NEXTCLOUD: &str = "config/config.php";
const REDIS_CLASS: &str = r"\Redis'";

/// The changes that an application of this name needs.
pub(super) fn changes(root: &Path, name: &str, files: &[SettingsFile]) -> Vec<FileChange> {
    let file = |path: &str| files.iter().find(|file| file.path == path);
    match name {
        "Joomla" => file("configuration.php")
            .and_then(joomla)
            .into_iter()
            .collect(),
        "Moodle" => file("config.php").map_or_else(Vec::new, |file| moodle(root, file)),
        "Nextcloud" => file(NEXTCLOUD)
            .map(|file| nextcloud(root, file))
            .into_iter()
            .collect(),
        "WordPress (Bedrock)" => bedrock(root),
        _ => Vec::new(),
    }
}

/// Whether an application of this name keeps something in Redis, where its settings are no statements.
pub(super) fn is_in_redis(name: &str, files: &[SettingsFile]) -> bool {
    let (path, says) = match name {
        "Joomla" => ("configuration.php", IN_REDIS),
        "Nextcloud" => (NEXTCLOUD, REDIS_CLASS),
        _ => return false,
    };
    let mut own = files.iter().filter(|file| file.path == path);
    own.any(|file| file.text.contains(says))
}

/// Joomla: an object whose properties are the settings. What is built last holds. With PDO it takes no port behind the host.
fn joomla(file: &SettingsFile) -> Option<FileChange> {
    const BUILT: &str = "
    public function __construct()
    {
        $this->host = getenv('DB_HOST') . (in_array(getenv('DB_PORT'), ['3306', '5432']) ? '' : ':' . getenv('DB_PORT'));
        $this->user = getenv('DB_USERNAME');
        $this->password = getenv('DB_PASSWORD');
        $this->db = getenv('DB_DATABASE');
        $this->live_site = '';
        $this->force_ssl = 0;
        $this->log_path = __DIR__ . '/administrator/logs';
        $this->tmp_path = __DIR__ . '/tmp';
        if (isset($this->dbencryption)) {
            $this->dbencryption = 0;
        }
";
    const REDIS: &str = "        foreach (['redis_server_', 'session_redis_server_'] as $own) {
            if (isset($this->{$own . 'host'})) {
                $this->{$own . 'host'} = getenv('REDIS_HOST');
                $this->{$own . 'port'} = (int) getenv('REDIS_PORT');
                $this->{$own . 'auth'} = '';
            }
        }
";
    let text = &file.text;
    let redis = match text.contains(IN_REDIS) {
        true => REDIS,
        false => "",
    };
    let begin = text.find("class JConfig")?;
    let end = begin + text[begin..].find('{')?;
    let head = text.get(begin..=end)?;
    let why =
        format!("{DATABASE} It takes the address by which it is asked, and its own directories.");
    Some(FileChange::replace(
        &file.path,
        head,
        format!("{head}{BUILT}{redis}    }}\n"),
        &why,
    ))
}

/// Moodle: its address, and directories of data that are the copy's own.
fn moodle(root: &Path, file: &SettingsFile) -> Vec<FileChange> {
    const DATA: &str = "(is_dir($kept = sys_get_temp_dir() . '/moodledata') || mkdir($kept, 0700, true)) ? $kept : $kept";
    const EMPTY: &str = "A directory outside of the application, which it would write to: the copy begins with an empty \
                         one, without uploaded files, languages, and the settings of its caches (muc/config.php).";
    const BELOW: &str = "A directory outside of the application, which it would write to: the copy's lies in its data.";
    const OTHERS: [&str; 4] = ["tempdir", "cachedir", "localcachedir", "backuptempdir"];
    let change = |old: &Assignment<'_>| {
        let name = old.target.strip_prefix("$CFG->")?;
        let (new, why) = match name {
            "wwwroot" => (OWN_ADDRESS.to_owned(), ADDRESS),
            "sslproxy" | "reverseproxy" => ("false".to_owned(), ADDRESS),
            "dataroot" if is_outside(root, old) => (DATA.to_owned(), EMPTY),
            _ if OTHERS.contains(&name) && is_outside(root, old) => {
                (format!("$CFG->dataroot . '/{name}'"), BELOW)
            }
            _ => return None,
        };
        Some(with_value(file, old, &new, why))
    };
    assignments(&file.text).iter().filter_map(change).collect()
}

/// Whether a directory lies outside of the application, or nobody knows before PHP runs.
fn is_outside(root: &Path, old: &Assignment<'_>) -> bool {
    /// What goes up from a file's directory.
    const UP: [&str; 4] = ["..", "dirname(__DIR__", "dirname(dirname(", "__FILE__, "];
    let has = |words: &[&str]| words.iter().any(|word| old.value.contains(word));
    match old.text() {
        Some(dir) => !Path::new(dir).starts_with(root) || dir.split('/').any(|part| part == ".."),
        None => has(&UP) || !has(&["__DIR__", "__FILE__"]),
    }
}

/// Nextcloud merges every `config/*.config.php` over `config.php`, the last one last. With SQLite its database is a file among
/// its data.
fn nextcloud(root: &Path, file: &SettingsFile) -> FileChange {
    const SERVER: &str = "    'dbhost' => getenv('DB_HOST') . ':' . getenv('DB_PORT'),
    'dbname' => getenv('DB_DATABASE'),
    'dbuser' => getenv('DB_USERNAME'),
    'dbpassword' => getenv('DB_PASSWORD'),
";
    const REDIS: &str =
        "    'redis' => ['host' => getenv('REDIS_HOST'), 'port' => (int) getenv('REDIS_PORT')],\n";
    const ADDRESSES: &str = "    'trusted_domains' => ['*'],
    'overwritehost' => '',
    'overwriteprotocol' => '',
    'overwritewebroot' => '',
";
    // It takes a directory for its own by one of these files.
    const EMPTY: &str = "$kept = sys_get_temp_dir() . '/nextcloud';
@mkdir($kept, 0770, true);
@touch($kept . '/.ncdata');
@touch($kept . '/.ocdata');
";
    let is_sqlite = nextcloud_driver(file).is_some_and(|driver| driver.contains("sqlite"));
    let (server, mut why) = match is_sqlite {
        true => ("", String::new()),
        false => (SERVER, format!("{DATABASE} ")),
    };
    why.push_str("It takes the address by which it is asked.");
    let redis = match file.text.contains(REDIS_CLASS) {
        true => REDIS,
        false => "",
    };
    let data = of_key(&file.text, "datadirectory");
    let (before, data) = match data.as_deref().map(|dir| Path::new(dir).strip_prefix(root)) {
        // Without a name it is below the application, wherever that is.
        None => ("", String::new()),
        Some(Ok(below)) => (
            "",
            format!(
                "    'datadirectory' => dirname(__DIR__) . '/{}',\n",
                below.display()
            ),
        ),
        Some(Err(_)) => {
            why.push_str(
                " Its data lies outside of the application: the copy begins with an empty directory.",
            );
            if is_sqlite {
                why.push_str(
                    " Its database lies there, too (SQLite): copy all of it below the application, and name that directory in \
                     config.php.",
                );
            }
            (EMPTY, "    'datadirectory' => $kept,\n".to_owned())
        }
    };
    FileChange {
        path: "config/zz-kneepoint.config.php".into(),
        find: None,
        text: format!("<?php\n{before}$CONFIG = [\n{server}{redis}{ADDRESSES}{data}];\n"),
        why,
    }
}

/// The driver that Nextcloud's list names.
pub(super) fn nextcloud_driver(file: &SettingsFile) -> Option<String> {
    of_key(&file.text, "dbtype")
}

/// The database that Nextcloud's list names.
pub(super) fn nextcloud_database(file: &SettingsFile) -> Option<String> {
    of_key(&file.text, "dbname")
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
    fn joomla_keeps_in_the_labs_redis_what_it_keeps_in_yours() {
        let text = "<?php\nclass JConfig {\n\tpublic $dbtype = 'pgsql';\n\tpublic $session_handler = 'redis';\n}\n";
        let settings = file("configuration.php", text);
        assert!(is_in_redis("Joomla", std::slice::from_ref(&settings)));
        assert!(!is_in_redis("phpBB", std::slice::from_ref(&settings)));
        let copy = changed("/srv", "Joomla", settings);
        for wanted in [
            "(in_array(getenv('DB_PORT'), ['3306', '5432']) ? '' : ':' . getenv('DB_PORT'));",
            "$this->dbencryption = 0;\n        }\n        foreach (['redis_server_', 'session_redis_server_'] as $own) {",
            "            }\n        }\n    }\n\n\tpublic $dbtype",
        ] {
            assert!(copy.contains(wanted), "no {wanted} in:\n{copy}");
        }
        let settings = file("configuration.php", "<?php\nclass JConfig {\n}\n");
        assert!(!is_in_redis("Joomla", std::slice::from_ref(&settings)));
        assert!(!changed("/srv", "Joomla", settings).contains("REDIS"));
    }

    #[test]
    fn moodles_directories_lie_in_the_copys_data_wherever_they_were() {
        let text = "<?php\n$CFG->dataroot = getenv('HOME') . '/data';\n$CFG->localcachedir = '/var/cache/moodle';\n\
                    $CFG->tempdir = __DIR__ . '/temp';\n$CFG->cachedir = __DIR__ . '/../cache';\n";
        let copy = changed("/srv/moodle", "Moodle", file("config.php", text));
        for wanted in [
            "$CFG->dataroot = (is_dir($kept",
            "$CFG->localcachedir = $CFG->dataroot . '/localcachedir';",
            "$CFG->tempdir = __DIR__ . '/temp';",
            "$CFG->cachedir = $CFG->dataroot . '/cachedir';",
        ] {
            assert!(copy.contains(wanted), "no {wanted} in:\n{copy}");
        }
    }

    #[test]
    fn moodles_data_beside_the_application_is_outside_of_it() {
        for (data, outside) in [
            ("dirname(dirname(__FILE__)) . '/moodledata'", true),
            ("dirname(__FILE__, 2) . '/moodledata'", true),
            ("'/srv/moodle/../moodledata'", true),
            ("dirname(__FILE__) . '/moodledata'", false),
            ("'/srv/moodle/data..old'", false),
        ] {
            let text = format!("<?php\n$CFG->dataroot = {data};\n");
            let copy = changed("/srv/moodle", "Moodle", file("config.php", &text));
            assert_eq!(copy.contains("$kept"), outside, "{copy}");
        }
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

    /// What is laid over Nextcloud's list, and why.
    fn laid_over(entries: &str) -> (String, String) {
        let list = format!("<?php\n$CONFIG = array (\n{entries});\n");
        let config = file(NEXTCLOUD, &list);
        let mut changes = changes(Path::new("/srv/cloud"), "Nextcloud", &[config]);
        let change = changes.pop().expect("a change");
        assert!(changes.is_empty() && !change.text.contains("secret"));
        (change.text, change.why)
    }

    #[test]
    fn nextclouds_data_is_the_copys_and_its_redis_the_labs() {
        let (text, why) = laid_over(
            "  'dbtype' => 'pgsql',\n  'dbname' => 'cloud',\n  'datadirectory' => '/srv/cloud/data',\n  'memcache.locking' => \
             '\\\\OC\\\\Memcache\\\\Redis',\n  'redis' => array ('host' => 'r', 'password' => 'secret'),\n",
        );
        for wanted in [
            "<?php\n$CONFIG = [\n    'dbhost' => getenv('DB_HOST')",
            "    'redis' => ['host' => getenv('REDIS_HOST'), 'port' => (int) getenv('REDIS_PORT')],\n",
            "    'datadirectory' => dirname(__DIR__) . '/data',\n];\n",
        ] {
            assert!(text.contains(wanted), "no {wanted} in:\n{text}");
        }
        let ends = "It takes the address by which it is asked.";
        assert!(why.ends_with(ends), "{why}");
    }

    #[test]
    fn nextcloud_with_sqlite_keeps_its_file_and_begins_without_data_from_elsewhere() {
        let (text, why) = laid_over("  'dbtype' => 'sqlite3',\n  'version' => '29.0.1.1',\n");
        for unwanted in ["'db", "datadirectory", "redis"] {
            assert!(!text.contains(unwanted), "{unwanted} in:\n{text}");
        }
        assert!(!why.contains("database"), "{why}");
        let elsewhere = "  'dbtype' => 'mysql',\n  'datadirectory' => '/mnt/data',\n";
        let (text, why) = laid_over(elsewhere);
        let begins = "<?php\n$kept = sys_get_temp_dir()";
        let ends = "    'datadirectory' => $kept,\n];\n";
        assert!(text.starts_with(begins) && text.ends_with(ends), "{text}");
        let ends = "the copy begins with an empty directory.";
        assert!(why.ends_with(ends), "{why}");
        let (_, why) = laid_over(&elsewhere.replace("mysql", "sqlite3"));
        let says = "Its database lies there, too (SQLite)";
        assert!(why.contains(says), "{why}");
    }

    #[test]
    fn nextclouds_list_says_whether_it_is_in_redis_and_which_database_it_has() {
        let redis = "'memcache.local' => '\\\\OC\\\\Memcache\\\\Redis', 'dbname' => 'cloud',";
        let apcu = redis.replace("Redis", "APCu");
        let own = |text: &str| [file(NEXTCLOUD, text)];
        assert!(is_in_redis("Nextcloud", &own(redis)));
        assert!(!is_in_redis("Nextcloud", &own(&apcu)));
        let name = nextcloud_database(&own(redis)[0]);
        assert_eq!(name.as_deref(), Some("cloud"));
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
