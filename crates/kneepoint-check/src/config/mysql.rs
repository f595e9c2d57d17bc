//! MariaDB and MySQL: the option files in their order, then the command line.

use super::{Reader, Subject, lines, option};
use crate::files;
use crate::snapshot::{SettingSource, Settings};

/// Files that are read where no option names one.
const USUAL: [&str; 3] = ["/etc/my.cnf", "/etc/mysql/my.cnf", "/usr/etc/my.cnf"];

/// What is in force.
pub(crate) fn read(subject: &Subject<'_>, reader: &mut Reader<'_>) -> Settings {
    let mut settings = Settings::default();
    match option(subject.args, &["--defaults-file"]) {
        Some(path) => {
            if let Some(text) = reader.must(path) {
                file(reader, &text, path, &mut settings);
            }
        }
        None => {
            for path in USUAL {
                if let Some(text) = reader.may(path) {
                    file(reader, &text, path, &mut settings);
                }
            }
        }
    }
    for arg in subject.args.iter().skip(1) {
        if let Some((name, value)) = arg.strip_prefix("--").and_then(|arg| arg.split_once('=')) {
            settings.set(&spelled(name), value, SettingSource::Flag);
        }
    }
    settings
}

fn spelled(name: &str) -> String {
    name.trim().replace('-', "_").to_ascii_lowercase()
}

fn file(reader: &mut Reader<'_>, text: &str, path: &str, settings: &mut Settings) {
    // `!includedir` stands where it stands, so lines are walked and not only entries.
    let entries = lines::ini(text);
    let mut at = 0;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        while let Some(entry) = entries.get(at).filter(|entry| entry.line <= index + 1) {
            at += 1;
            if of_server(&entry.section) && !entry.key.starts_with('!') {
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
                reader.deeper(|reader| file(reader, &text, &path, settings));
            }
        }
    }
}

/// Whether a group is one that the server reads: also with a version behind it.
fn of_server(group: &str) -> bool {
    let name = group.split('-').next().unwrap_or(group);
    matches!(
        name,
        "mysqld" | "server" | "mariadb" | "mariadbd" | "galera"
    )
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
        let subject = Subject {
            files: &files,
            args: &args,
            cwd: "/",
            env: &|_| None,
            loaded_s: 0.0,
        };
        let mut reader = Reader::new(&subject);
        let settings = read(&subject, &mut reader);
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
}
