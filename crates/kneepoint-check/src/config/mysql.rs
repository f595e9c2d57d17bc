//! MariaDB and MySQL: the option files in their order, then the command line.

use super::{Reader, Subject, lines, option};
use crate::files;
use crate::process::Program;
use crate::snapshot::{SettingSource, Settings};
use serde_json::Value;

/// Files that are read where no option names one.
const USUAL: [&str; 3] = ["/etc/my.cnf", "/etc/mysql/my.cnf", "/usr/etc/my.cnf"];

/// What is in force. The program says which version it is, and then whether it is MariaDB.
pub(crate) fn read(subject: &Subject<'_>, reader: &mut Reader<'_>, program: &Program) -> Settings {
    let groups = Groups {
        version: program.word(0),
        is_mysql: program.word(0).is_some() && program.word(1).is_none(),
    };
    let mut settings = Settings::default();
    match option(subject.args, &["--defaults-file"]) {
        Some(path) => {
            if let Some(text) = reader.must(path) {
                groups.file(reader, &text, path, &mut settings);
            }
        }
        None => {
            for path in USUAL {
                if let Some(text) = reader.may(path) {
                    groups.file(reader, &text, path, &mut settings);
                }
            }
        }
    }
    for (name, value) in flags(subject.args) {
        settings.set(&name, &value, SettingSource::Flag);
    }
    // What SET PERSIST wrote comes after all else, in MySQL alone
    // (<https://dev.mysql.com/doc/refman/8.4/en/persisted-system-variables.html>).
    let data = settings.or("datadir", "/var/lib/mysql").text;
    let path = format!("{}/{PERSISTED}", data.trim_end_matches('/'));
    if groups.is_mysql
        && let Some(text) = reader.may(&path)
    {
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        persisted(&json, &mut |name, value| {
            settings.set(&spelled(name), value, SettingSource::file(&path, 1));
        });
    }
    settings
}

/// Where MySQL keeps what SET PERSIST says.
pub(crate) const PERSISTED: &str = "mysqld-auto.cnf";

/// Options of a command line: `--name=value`, `--name value`, `--name` and `--skip-name`.
fn flags(args: &[String]) -> Vec<(String, String)> {
    let mut args = args.iter().skip(1).peekable();
    let mut flags = Vec::new();
    while let Some(arg) = args.next() {
        let Some(arg) = arg.strip_prefix("--") else {
            continue;
        };
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let next = args.next_if(|next| !next.starts_with('-'));
                (arg, next.map_or_else(|| "1".to_owned(), Clone::clone))
            }
        };
        let name = spelled(name);
        if let Some(off) = name.strip_prefix("skip_") {
            flags.push((off.to_owned(), "0".to_owned()));
        }
        flags.push((name, value));
    }
    flags
}

/// The variables in a `mysqld-auto.cnf`: objects with a `Value`, in groups that differ by version.
fn persisted(json: &Value, set: &mut impl FnMut(&str, &str)) {
    for (name, one) in json.as_object().into_iter().flatten() {
        match one.get("Value").and_then(Value::as_str) {
            Some(value) => set(name, value),
            None => persisted(one, set),
        }
    }
}

fn spelled(name: &str) -> String {
    name.trim().replace('-', "_").to_ascii_lowercase()
}

/// The groups of option files that one program reads.
struct Groups<'a> {
    /// Its version, such as 10.11; where it is not known, the groups of all versions are read.
    version: Option<&'a str>,
    /// Whether it is surely not MariaDB.
    is_mysql: bool,
}

impl Groups<'_> {
    fn file(&self, reader: &mut Reader<'_>, text: &str, path: &str, settings: &mut Settings) {
        // `!includedir` stands where it stands, so lines are walked and not only entries.
        let entries = lines::ini(text);
        let mut at = 0;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            while let Some(entry) = entries.get(at).filter(|entry| entry.line <= index + 1) {
                at += 1;
                if self.read(&entry.section) && !entry.key.starts_with('!') {
                    let value = entry.value.clone().unwrap_or_else(|| "1".into());
                    let value = lines::unquoted(&value, '#');
                    settings.set(
                        &spelled(&entry.key),
                        &value,
                        SettingSource::file(path, entry.line),
                    );
                }
            }
            let included = match line.split_once(char::is_whitespace) {
                Some(("!include", file)) => vec![file.trim().to_owned()],
                Some(("!includedir", dir)) => {
                    let names = reader.names(dir.trim(), ".cnf");
                    names
                        .iter()
                        .map(|name| files::absolute(dir.trim(), name))
                        .collect()
                }
                _ => continue,
            };
            for path in included {
                for (path, text) in reader.included(&path) {
                    reader.deeper(|reader| self.file(reader, &text, &path, settings));
                }
            }
        }
    }

    /// Whether the program reads a group: one of the server, or one that has its version behind it (mysqld(8), my_print_defaults).
    fn read(&self, group: &str) -> bool {
        let (name, version) = match group.split_once('-') {
            Some((name, rest)) if rest.starts_with(|first: char| first.is_ascii_digit()) => {
                (name, Some(rest))
            }
            _ => (group, None),
        };
        let is_own = match name {
            "mysqld" | "server" => true,
            "mariadb" | "mariadbd" | "galera" | "client-server" => !self.is_mysql,
            _ => false,
        };
        is_own && version.is_none_or(|version| self.version.is_none_or(|own| own == version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Memory;

    #[test]
    fn groups_of_the_server_count_in_the_order_of_files() {
        let files = Memory::of(&[
            (
                "/etc/mysql/my.cnf",
                "[client]\nport=1\n[mysqld]\nmax-connections = 50 # few\n!includedir /etc/mysql/conf.d\n",
            ),
            (
                "/etc/mysql/conf.d/a.cnf",
                "[mariadb-10.11]\nmax_connections = 200\nskip-name-resolve\n",
            ),
        ]);
        let args: Vec<String> = ["mariadbd", "--innodb-buffer-pool-size=1G"]
            .map(str::to_owned)
            .into();
        let subject = Subject::with(&files, &args);
        let mut reader = Reader::new(&subject);
        let settings = read(&subject, &mut reader, &Program::default());
        let value = settings.get("max_connections").expect("set");
        assert_eq!(
            (value.text.as_str(), value.replaced[0].0.as_str()),
            ("200", "50")
        );
        assert_eq!(value.source.to_string(), "/etc/mysql/conf.d/a.cnf:2");
        assert_eq!(
            settings.get("innodb_buffer_pool_size").expect("set").source,
            SettingSource::Flag
        );
        assert_eq!(
            (settings.text("port"), settings.text("skip_name_resolve")),
            (None, Some("1"))
        );
    }

    #[test]
    fn what_was_persisted_comes_last() {
        let persisted = r#"{"Version": 2, "mysql_static_variables": {"skip_name_resolve": {"Value": "ON", "Metadata": {"User": "root"}}},
            "mysql_dynamic_variables": {"innodb_buffer_pool_size": {"Value": "8589934592", "Metadata": {"User": "root"}}}}"#;
        let files = Memory::of(&[
            (
                "/etc/my.cnf",
                "[mysqld]\ndatadir=/data/\ninnodb_buffer_pool_size=1G\n",
            ),
            ("/data/mysqld-auto.cnf", persisted),
        ]);
        let args = "mysqld --innodb-buffer-pool-size=2G --max_connections 500 --skip-log-bin";
        let args: Vec<String> = args.split(' ').map(str::to_owned).collect();
        let subject = Subject::with(&files, &args);
        let mysql = Program::saying(&[Some("8.4"), None]);
        let settings = read(&subject, &mut Reader::new(&subject), &mysql);
        for (name, expected) in [
            ("innodb_buffer_pool_size", "8589934592"),
            ("skip_name_resolve", "ON"),
            ("max_connections", "500"),
            ("log_bin", "0"),
        ] {
            assert_eq!(settings.text(name), Some(expected), "{name}");
        }
        let size = settings.get("innodb_buffer_pool_size").expect("set");
        assert_eq!(size.source.path(), Some("/data/mysqld-auto.cnf"));
    }

    #[test]
    fn groups_of_other_versions_and_products_do_not_count() {
        let groups = "[mysqld]\na=1\n[mariadb-11.4]\na=2\n[mysqld-5.7]\na=3\n";
        let check = |more: &str, program: &Program, expected: &str| {
            let files = Memory::of(&[("/etc/my.cnf", &format!("{groups}{more}"))]);
            let subject = Subject::with(&files, &[]);
            let settings = read(&subject, &mut Reader::new(&subject), program);
            assert_eq!(settings.text("a"), Some(expected), "{more}");
        };
        let mariadb = Program::saying(&[Some("10.11"), Some("10.11")]);
        check("", &mariadb, "1");
        check("[mariadb-10.11]\na=4", &mariadb, "4");
        check("[client-server]\na=4", &mariadb, "4");
        check("[mysqldump]\na=4", &mariadb, "1");
        let mysql = Program::saying(&[Some("8.0"), None]);
        check("[mariadb]\na=4", &mysql, "1");
        check("[mysqld-8.0]\na=4", &mysql, "4");
        // Of a program that does not say what it is, all may be.
        check("", &Program::default(), "3");
    }
}
